{{/* Labels of every object. */}}
{{- define "outrigger-cni.labels" -}}
app.kubernetes.io/part-of: outrigger
{{- end }}

{{/* True if the plugin's file stands alone, for Multus. */}}
{{- define "outrigger-cni.isMultus" -}}
{{- if or (eq .Values.provider "multus") (eq .Values.global.platform "openshift") }}true{{ end }}
{{- end }}

{{/* True if the agent programs rules in the network namespaces of pods. */}}
{{- define "outrigger-cni.isRepairing" -}}
{{- if and .Values.repair.enabled .Values.repair.repairPods }}true{{ end }}
{{- end }}

{{/* Port of the metrics; empty for none. */}}
{{- define "outrigger-cni.port" -}}
{{- if .Values.monitoringPort }}{{ .Values.monitoringPort }}
{{- else if .Values.prometheus.enabled }}15014
{{- end }}
{{- end }}

{{/* A folder of the node: `list $ VALUE NAME`. */}}
{{- define "outrigger-cni.folder" -}}
{{- $ := index . 0 }}
{{- $k3s := "/var/lib/rancher/k3s/agent/etc/cni/net.d" }}
{{- $folders := dict
    "gke" (dict "bin" "/home/kubernetes/bin")
    "k3d" (dict "bin" "/bin" "conf" $k3s)
    "k3s" (dict "bin" "/var/lib/rancher/k3s/data/cni" "conf" $k3s)
    "microk8s" (dict "bin" "/var/snap/microk8s/current/opt/cni/bin" "conf" "/var/snap/microk8s/current/args/cni-network")
    "openshift" (dict "bin" "/var/lib/cni/bin") }}
{{- $defaults := dict "bin" "/opt/cni/bin" "conf" "/etc/cni/net.d" "netns" "/var/run/netns" }}
{{- if include "outrigger-cni.isMultus" $ }}{{- $_ := set $defaults "conf" "/etc/cni/multus/net.d" }}{{- end }}
{{- $platform := get $folders $.Values.global.platform | default dict }}
{{- $name := index . 2 }}
{{- index . 1 | default (get $platform $name) | default (get $defaults $name) }}
{{- end }}

{{/* Environment of the agent, by name. */}}
{{- define "outrigger-cni.env" -}}
{{- $repair := .Values.repair }}
{{- $env := dict }}
{{- if include "outrigger-cni.isMultus" . }}
{{- $_ := set $env "CONFIG_MODE" "standalone" }}
{{- $_ := set $env "CNI_CONF_NAME" "istio-cni.conf" }}
{{- end }}
{{- if ne .Values.configMode "auto" }}{{- $_ := set $env "CONFIG_MODE" .Values.configMode }}{{- end }}
{{- if .Values.istioOwnedCNIConfig }}{{- $_ := set $env "ISTIO_OWNED_CNI_CONFIG" "true" }}{{- end }}
{{- with .Values.istioOwnedCNIConfigFileName }}{{- $_ := set $env "ISTIO_OWNED_CNI_CONFIG_FILENAME" . }}{{- end }}
{{- with .Values.cniConfFileName }}{{- $_ := set $env "CNI_CONF_NAME" . }}{{- end }}
{{- if not .Values.chained }}{{- $_ := set $env "CHAINED_CNI_PLUGIN" "false" }}{{- end }}
{{- if ne (join "," .Values.excludeNamespaces) "kube-system" }}
{{- $_ := set $env "EXCLUDE_NAMESPACES" (join "," .Values.excludeNamespaces) }}
{{- end }}
{{- if ne .Values.onUnknown "fail" }}{{- $_ := set $env "ON_UNKNOWN" .Values.onUnknown }}{{- end }}
{{- if not $repair.enabled }}{{- $_ := set $env "REPAIR_ENABLED" "false" }}{{- end }}
{{- if not $repair.repairPods }}{{- $_ := set $env "REPAIR_REPAIR_PODS" "false" }}{{- end }}
{{- if $repair.deletePods }}{{- $_ := set $env "REPAIR_DELETE_PODS" "true" }}{{- end }}
{{- if $repair.labelPods }}
{{- $_ := set $env "REPAIR_LABEL_PODS" "true" }}
{{- $_ := set $env "REPAIR_BROKEN_POD_LABEL_KEY" $repair.brokenPodLabelKey }}
{{- $_ := set $env "REPAIR_BROKEN_POD_LABEL_VALUE" $repair.brokenPodLabelValue }}
{{- end }}
{{- if ne .Values.logging.level "info" }}{{- $_ := set $env "LOG" .Values.logging.level }}{{- end }}
{{- with include "outrigger-cni.port" . }}{{- $_ := set $env "MONITORING_PORT" . }}{{- end }}
{{- if .Values.taint.enabled }}{{- $_ := set $env "UNTAINT_NODE" "true" }}{{- end }}
{{- range $name, $value := .Values.env }}{{- $_ := set $env $name (toString $value) }}{{- end }}
{{- toYaml $env }}
{{- end }}
