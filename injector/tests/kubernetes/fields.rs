//! Pods with every kind of field, one at a time, with every template and in both forms.

use injector::inject::{InjectionOutcome, inject};
use serde_json::{Value, json};

use crate::Kubernetes;
use crate::accepted::{PODS, settings, target, web, with_account};

/// Checks that a pod accepted without a sidecar is accepted with one, and that reinjection does not
/// change it.
pub(crate) fn every_field_is_accepted(kubernetes: &Kubernetes) {
    let settings =
        [true, false].map(|native| settings("policy: enabled", &json!({}), &json!({}), native));
    let mut failures = Vec::new();
    for (what, spec) in specs() {
        let pod = |template: &str| {
            let annotations = json!({"inject.istio.io/templates": template});
            with_account(
                json!({"metadata": {"name": "n", "annotations": annotations}, "spec": spec}),
            )
        };
        let accepted = kubernetes.post(PODS, &pod("sidecar"));
        assert!(accepted.is_ok(), "{what}: the pod itself is refused: {}", accepted.unwrap_err());
        for template in TEMPLATES {
            for settings in &settings {
                let place =
                    format!("{what}: {template}, native {}", settings.process.native_sidecars);
                let Ok(InjectionOutcome::Injected(injection)) =
                    inject(settings, target(&pod(template)))
                else {
                    failures.push(format!("{place}: not injected"));
                    continue;
                };
                let refused = kubernetes.post(PODS, &injection.pod).err();
                failures.extend(refused.map(|refused| format!("{place}: {refused}")));
                match inject(settings, target(&injection.pod)) {
                    Ok(InjectionOutcome::Injected(again)) if again.patch().is_empty() => {}
                    again => failures.push(format!("{place}: again: {again:?}")),
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Returns the specs to test, with a description of each.
fn specs() -> Vec<(String, Value)> {
    let with = |mut value: Value, fields: &str| {
        let fields: Value = serde_json::from_str(fields).unwrap();
        value.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        value
    };
    let of = |containers: Value| json!({"containers": containers, "volumes": [{"name": "own", "emptyDir": {}}]});
    let mut specs = Vec::new();
    for fields in OF_A_PROXY {
        let proxy = with(json!({"name": "istio-proxy", "image": "auto"}), fields);
        specs.push((format!("proxy {fields}"), of(json!([web(&json!({})), proxy]))));
        let mut spec = of(json!([web(&json!({}))]));
        spec["initContainers"] = json!([with(proxy, r#"{"restartPolicy": "Always"}"#)]);
        specs.push((format!("native sidecar {fields}"), spec));
    }
    for fields in OF_A_POD {
        specs.push((format!("pod {fields}"), with(of(json!([web(&json!({}))])), fields)));
    }
    for fields in OF_AN_APPLICATION {
        specs.push((format!("application {fields}"), of(json!([with(web(&json!({})), fields)]))));
    }
    specs
}

const TEMPLATES: [&str; 5] =
    ["sidecar", "gateway", "grpc-agent", "grpc-simple", "grpc-simple,sidecar"];

/// Fields of a user-supplied proxy.
const OF_A_PROXY: &[&str] = &[
    r#"{"securityContext": {"privileged": true}}"#,
    r#"{"securityContext": {"allowPrivilegeEscalation": true}}"#,
    r#"{"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}"#,
    r#"{"securityContext": {"capabilities": {"add": ["CAP_SYS_ADMIN"]}}}"#,
    r#"{"securityContext": {"runAsUser": 0}}"#,
    r#"{"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "p"}}}"#,
    r#"{"securityContext": {"windowsOptions": {"runAsUserName": "x"}}}"#,
    r#"{"resources": {"requests": {"cpu": "4"}}}"#,
    r#"{"resources": {"requests": {"memory": "4Gi"}}}"#,
    r#"{"resources": {"limits": {"cpu": "10m"}}}"#,
    r#"{"resources": {"limits": {"memory": "10Mi"}}}"#,
    r#"{"resources": {"limits": {"example.com/gpu": "1"}}}"#,
    r#"{"ports": [{"name": "http-envoy-prom", "containerPort": 9000}]}"#,
    r#"{"ports": [{"name": "x", "containerPort": 15090, "protocol": "UDP"}]}"#,
    r#"{"ports": [{"name": "x", "containerPort": 15090, "hostPort": 15090}]}"#,
    r#"{"ports": [{"name": "a", "containerPort": 53, "protocol": "UDP"}, {"name": "b", "containerPort": 53, "protocol": "TCP"}]}"#,
    r#"{"ports": [{"name": "a", "containerPort": 15020, "protocol": "UDP"}, {"name": "b", "containerPort": 15020, "protocol": "TCP"}]}"#,
    r#"{"volumeMounts": [{"name": "own", "mountPath": "/etc/istio/proxy"}]}"#,
    r#"{"volumeMounts": [{"name": "own", "mountPath": "/etc/istio/proxy/"}]}"#,
    r#"{"volumeMounts": [{"name": "own", "mountPath": "/var/run/secrets/istio", "subPath": "x"}]}"#,
    r#"{"volumeMounts": [{"name": "own", "mountPath": "/var/run/secrets/istio", "subPathExpr": "$(A)"}], "env": [{"name": "A", "value": "b"}]}"#,
    r#"{"volumeMounts": [{"name": "own", "mountPath": "/x", "readOnly": true, "recursiveReadOnly": "IfPossible"}]}"#,
    r#"{"env": [{"name": "POD_NAME", "valueFrom": {"secretKeyRef": {"name": "c", "key": "k"}}}]}"#,
    r#"{"env": [{"name": "POD_NAME", "value": ""}]}"#,
    r#"{"env": [{"name": "POD_NAME"}]}"#,
    r#"{"env": [{"name": "CA_ADDR"}]}"#,
    r#"{"env": [{"name": "CA_ADDR", "value": "a"}, {"name": "CA_ADDR", "value": "b"}]}"#,
    r#"{"env": [{"name": "CA_ADDR", "value": "a"}, {"name": "CA_ADDR", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}"#,
    r#"{"envFrom": [{"configMapRef": {"name": "c"}}]}"#,
    r#"{"readinessProbe": {"httpGet": {"path": "/x", "port": 15021, "host": "h"}, "successThreshold": 2}}"#,
    r#"{"readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 3}}"#,
    r#"{"startupProbe": {"tcpSocket": {"port": 1}}}"#,
    r#"{"livenessProbe": {"grpc": {"port": 1}, "terminationGracePeriodSeconds": 3}}"#,
    r#"{"lifecycle": {"postStart": {"httpGet": {"port": 1}}}}"#,
    r#"{"lifecycle": {"preStop": {"tcpSocket": {"port": 1}}}}"#,
    r#"{"lifecycle": {"preStop": {"sleep": {"seconds": 1}}, "postStart": {"sleep": {"seconds": 1}}}}"#,
    r#"{"terminationMessagePolicy": "FallbackToLogsOnError", "tty": true, "stdin": true, "workingDir": "/x"}"#,
    r#"{"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}"#,
    r#"{"imagePullPolicy": "Never", "command": ["x"]}"#,
];

/// Fields of a `spec`.
const OF_A_POD: &[&str] = &[
    r#"{"hostNetwork": false, "hostPID": true}"#,
    r#"{"shareProcessNamespace": true}"#,
    r#"{"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"]}}"#,
    r#"{"securityContext": {"runAsUser": 5, "runAsNonRoot": true, "fsGroup": 5}}"#,
    r#"{"securityContext": {"sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "1024"}]}}"#,
    r#"{"securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]}}"#,
    r#"{"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "p"}}}"#,
    r#"{"securityContext": {"windowsOptions": {"runAsUserName": "x"}}}"#,
    r#"{"imagePullSecrets": [{"name": "s"}, {"name": "s"}]}"#,
    r#"{"imagePullSecrets": [{"name": ""}]}"#,
    r#"{"imagePullSecrets": [{}]}"#,
    r#"{"restartPolicy": "Never"}"#,
    r#"{"resources": {"limits": {"cpu": "4", "memory": "4Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}}"#,
    r#"{"os": {"name": "linux"}}"#,
    r#"{"hostUsers": false}"#,
    r#"{"initContainers": [{"name": "istio-init", "image": "auto"}]}"#,
    r#"{"initContainers": [{"name": "istio-init", "image": "x", "securityContext": {"privileged": true}}]}"#,
    r#"{"initContainers": [{"name": "istio-init", "image": "x", "resources": {"requests": {"cpu": "9"}}}]}"#,
    r#"{"initContainers": [{"name": "istio-init", "image": "x", "restartPolicy": "Always", "readinessProbe": {"httpGet": {"port": 1}}}]}"#,
    r#"{"initContainers": [{"name": "s", "image": "x", "restartPolicy": "Always", "readinessProbe": {"httpGet": {"port": 1}}, "lifecycle": {"preStop": {"httpGet": {"port": 2}}}}]}"#,
    r#"{"volumes": [{"name": "own", "emptyDir": {}}, {"name": "istio-token", "projected": {"sources": [{"configMap": {"name": "x"}}]}}]}"#,
    r#"{"volumes": [{"name": "istio-envoy", "emptyDir": {"sizeLimit": "1Gi"}}]}"#,
    r#"{"volumes": [{"name": "istio-data", "hostPath": {"path": "/x"}}]}"#,
    r#"{"volumes": [{"name": "istiod-ca-cert", "configMap": {"name": "x", "items": [{"key": "a", "path": "b"}]}}]}"#,
    r#"{"volumes": [{"name": "istiod-ca-cert", "projected": {"sources": [{"configMap": {"name": "x"}}]}}]}"#,
    r#"{"volumes": [{"name": "istio-podinfo", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.uid"}}]}}]}"#,
    r#"{"volumes": [{"name": "workload-socket", "csi": {"driver": "csi.spiffe.io", "readOnly": true}}]}"#,
    r#"{"volumes": [{"name": "workload-certs", "secret": {"secretName": "x"}}]}"#,
    r#"{"schedulingGates": [{"name": "a/b"}]}"#,
    r#"{"terminationGracePeriodSeconds": 0}"#,
    r#"{"activeDeadlineSeconds": 3}"#,
    r#"{"setHostnameAsFQDN": true, "hostname": "h", "subdomain": "s"}"#,
    r#"{"overhead": null}"#,
    r#"{"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]}"#,
    r#"{"resourceClaims": [{"name": "c", "resourceClaimName": "x"}]}"#,
    r#"{"enableServiceLinks": false, "automountServiceAccountToken": false}"#,
    r#"{"ephemeralContainers": []}"#,
];

/// Fields of the application's container.
const OF_AN_APPLICATION: &[&str] = &[
    r#"{"readinessProbe": {"httpGet": {"port": "nowhere"}}}"#,
    r#"{"readinessProbe": {"httpGet": {"port": "http", "host": "1.2.3.4"}}}"#,
    r#"{"livenessProbe": {"tcpSocket": {"port": "http", "host": "x"}}}"#,
    r#"{"livenessProbe": {"tcpSocket": {"port": 15020}}}"#,
    r#"{"livenessProbe": {"httpGet": {"port": 15020, "path": "/x"}}}"#,
    r#"{"livenessProbe": {"httpGet": {"port": 15021, "path": "/x"}}}"#,
    r#"{"startupProbe": {"grpc": {"port": 80, "service": ""}}}"#,
    r#"{"lifecycle": {"preStop": {"httpGet": {"port": "nowhere"}}}}"#,
    r#"{"lifecycle": {"postStart": {"tcpSocket": {"port": "http"}}}}"#,
    r#"{"lifecycle": {"stopSignal": "SIGUSR1"}}"#,
    r#"{"ports": [{"containerPort": 15090, "name": "http-envoy-prom"}]}"#,
    r#"{"ports": [{"containerPort": 15021, "hostPort": 15021}]}"#,
    r#"{"securityContext": {"runAsUser": 1337}}"#,
    r#"{"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}"#,
    r#"{"env": [{"name": "GRPC_XDS_BOOTSTRAP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}"#,
    r#"{"volumeMounts": [{"name": "own", "mountPath": "/etc/istio/proxy"}]}"#,
    r#"{"volumeMounts": [{"name": "own", "mountPath": "/var/lib/istio/data"}]}"#,
    r#"{"volumeMounts": [{"name": "own", "mountPath": "/var/lib/grpc/data"}]}"#,
    r#"{"restartPolicy": "Always"}"#,
];
