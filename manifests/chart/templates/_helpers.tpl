{{/* The end of names of another revision than the default one. */}}
{{- define "outrigger.suffix" -}}
{{- if not (has .Values.revision (list "" "default")) }}-{{ .Values.revision }}{{ end }}
{{- end }}

{{/* The revision as labels have it. */}}
{{- define "outrigger.revision" -}}
{{- .Values.revision | default "default" }}
{{- end }}

{{/* An image by its name: `list $ NAME`. */}}
{{- define "outrigger.image" -}}
{{- $ := index . 0 }}
{{- $name := index . 1 }}
{{- if contains "/" $name }}{{ $name }}
{{- else }}{{ trimSuffix "/" $.Values.global.hub }}/{{ $name }}:{{ $.Values.global.tag }}
{{- end }}
{{- end }}

{{/* The namespace of the control plane. */}}
{{- define "outrigger.istioNamespace" -}}
{{- if .Values.mesh.enabled }}{{ .Release.Namespace }}
{{- else }}{{ .Values.global.istioNamespace | default .Release.Namespace }}
{{- end }}
{{- end }}

{{/* The document `mesh` of the ConfigMap istio. */}}
{{- define "outrigger.mesh" -}}
{{- $namespace := include "outrigger.istioNamespace" . }}
{{- $service := "istiod" }}
{{- if .Values.mesh.enabled }}{{- $service = printf "istiod%s" (include "outrigger.suffix" .) }}{{- end }}
{{- $defaults := dict
    "defaultConfig" (dict "discoveryAddress" (printf "%s.%s.svc:15012" $service $namespace))
    "defaultProviders" (dict "metrics" (list "prometheus"))
    "enablePrometheusMerge" true
    "rootNamespace" $namespace
    "trustDomain" "cluster.local" }}
{{- mergeOverwrite $defaults (deepCopy .Values.meshConfig) | toYaml }}
{{- end }}

{{/* The document `config` of the ConfigMap istio-sidecar-injector. */}}
{{- define "outrigger.config" -}}
{{- $webhook := .Values.sidecarInjectorWebhook }}
{{- $config := dict
    "policy" .Values.global.proxy.autoInject
    "defaultTemplates" $webhook.defaultTemplates
    "neverInjectSelector" $webhook.neverInjectSelector
    "alwaysInjectSelector" $webhook.alwaysInjectSelector
    "injectedAnnotations" $webhook.injectedAnnotations }}
{{- range $key := list "templates" "aliases" }}
{{- with index $webhook $key }}{{- $_ := set $config $key . }}{{- end }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{/* The document `values` of the ConfigMap istio-sidecar-injector. */}}
{{- define "outrigger.values" -}}
{{- $global := omit .Values.global "platform" "priorityClassName" }}
{{- $_ := set $global "tag" (toString .Values.global.tag) }}
{{- $_ := set $global "hub" (trimSuffix "/" .Values.global.hub) }}
{{- $_ := set $global "istioNamespace" (include "outrigger.istioNamespace" .) }}
{{- $cni := .Values.pilot.cni }}
{{- if eq .Values.global.platform "openshift" }}{{- $cni = dict "enabled" true "provider" "multus" }}{{- end }}
{{- $revision := "" }}
{{- if .Values.mesh.enabled }}{{- $revision = trimPrefix "-" (include "outrigger.suffix" .) }}{{- end }}
{{- $values := dict
    "global" $global
    "pilot" (dict "cni" $cni "env" .Values.pilot.env)
    "revision" $revision
    "sidecarInjectorWebhook" (pick .Values.sidecarInjectorWebhook "rewriteAppHTTPProbe") }}
{{- with .Values.outrigger }}{{- $_ := set $values "outrigger" . }}{{- end }}
{{- toYaml $values }}
{{- end }}
