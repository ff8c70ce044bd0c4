//! The volumes of an injected pod and where the proxy mounts them.

use serde_json::{Map, Value, json};

use super::Context;
use crate::settings::annotations::key;

/// The volumes, in Istio's order.
pub(super) fn of(context: &Context<'_>) -> Value {
    let values = context.values();
    let global = &values.global;
    // These have no source, so that a template on top can choose one; Kubernetes takes emptyDir.
    let mut volumes =
        vec![json!({"name": "workload-socket"}), json!({"name": "credential-socket"})];
    volumes.push(if on_gke(context) {
        json!({
            "name": "gke-workload-certificate",
            "csi": {"driver": "workloadcertificates.security.cloud.google.com"},
        })
    } else {
        json!({"name": "workload-certs"})
    });
    if let Some(config_map) = context.annotations.get(key::BOOTSTRAP_OVERRIDE) {
        volumes.push(json!({"name": "custom-bootstrap-volume", "configMap": {"name": config_map}}));
    }
    volumes.push(json!({"name": "istio-envoy", "emptyDir": {"medium": "Memory"}}));
    volumes.push(json!({"name": "istio-data", "emptyDir": {}}));
    volumes.push(json!({"name": "istio-podinfo", "downwardAPI": {"items": [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}},
    ]}}));
    volumes.push(json!({"name": "istio-token", "projected": {"sources": [{"serviceAccountToken": {
        "path": "istio-token", "expirationSeconds": 43200, "audience": &*global.sds.token.aud,
    }}]}}));
    if istiod_signs(context) {
        volumes.push(root_certificate(context));
    }
    let crl = or(&values.pilot.crl_config_map_name, "istio-ca-crl");
    volumes.push(json!({"name": "istio-ca-crl", "configMap": {"name": crl, "optional": true}}));
    if global.mount_mtls_certs.on() {
        let account = context.pod["spec"]["serviceAccountName"].as_str().unwrap_or_default();
        let secret = format!("istio.{}", or(account, "default"));
        volumes.push(
            json!({"name": "istio-certs", "secret": {"optional": true, "secretName": secret}}),
        );
    }
    volumes.extend(named(context, key::USER_VOLUME));
    if lightstep_certificates(context).is_some() {
        let secret = json!({"optional": true, "secretName": "lightstep.cacert"});
        volumes.push(json!({"name": "lightstep-certs", "secret": secret}));
    }
    volumes.into()
}

/// The proxy's mounts, in Istio's order.
pub(super) fn mounts(context: &Context<'_>) -> Value {
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
    let read_only =
        |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
    let mut mounts = vec![
        mount("workload-socket", "/var/run/secrets/workload-spiffe-uds"),
        mount("credential-socket", "/var/run/secrets/credential-uds"),
    ];
    let identity = "/var/run/secrets/workload-spiffe-credentials";
    mounts.push(if on_gke(context) {
        read_only("gke-workload-certificate", identity)
    } else {
        mount("workload-certs", identity)
    });
    if istiod_signs(context) {
        mounts.push(mount("istiod-ca-cert", "/var/run/secrets/istio"));
        mounts.push(mount("istio-ca-crl", "/var/run/secrets/istio/crl"));
    }
    mounts.push(mount("istio-data", "/var/lib/istio/data"));
    if context.annotations.get(key::BOOTSTRAP_OVERRIDE).is_some() {
        mounts.push(mount("custom-bootstrap-volume", "/etc/istio/custom-bootstrap"));
    }
    mounts.push(mount("istio-envoy", "/etc/istio/proxy"));
    mounts.push(mount("istio-token", "/var/run/secrets/tokens"));
    if context.values().global.mount_mtls_certs.on() {
        mounts.push(read_only("istio-certs", "/etc/certs/"));
    }
    mounts.push(mount("istio-podinfo", "/etc/istio/pod"));
    if let Some(file) = lightstep_certificates(context) {
        let folder = file.rfind('/').map_or("", |end| &file[..=end]);
        mounts.push(read_only("lightstep-certs", folder));
    }
    mounts.extend(named(context, key::USER_VOLUME_MOUNT));
    mounts.into()
}

fn root_certificate(context: &Context<'_>) -> Value {
    let values = context.values();
    let switch = &values.pilot.env["ENABLE_CLUSTER_TRUST_BUNDLE_API"];
    let given = &*values.global.trust_bundle_name;
    if *switch == true || *switch == "true" {
        let name = format!("istio.io:istiod-ca:{}", or(given, "root-cert"));
        let source = json!({"clusterTrustBundle": {"name": name, "path": "root-cert.pem"}});
        json!({"name": "istiod-ca-cert", "projected": {"sources": [source]}})
    } else {
        let name = or(given, "istio-ca-root-cert");
        json!({"name": "istiod-ca-cert", "configMap": {"name": name}})
    }
}

/// The objects of an annotation that maps names to objects, each with its name.
fn named(context: &Context<'_>, key: &str) -> Vec<Value> {
    // Validation has shown that it is an object.
    let given = context.annotations.get(key).and_then(|given| serde_json::from_str(given).ok());
    let given: Map<String, Value> = given.unwrap_or_default();
    let objects = given.into_iter().map(|(name, object)| {
        let mut members = Map::from_iter([("name".to_owned(), Value::String(name))]);
        if let Value::Object(object) = object {
            members.extend(object);
        }
        Value::Object(members)
    });
    objects.collect()
}

fn on_gke(context: &Context<'_>) -> bool {
    &*context.values().global.ca_name == "GkeWorkloadCertificate"
}

fn istiod_signs(context: &Context<'_>) -> bool {
    &*context.values().global.pilot_cert_provider == "istiod"
}

/// The file with the tracing collector's CA, where tracing goes to Lightstep over TLS.
fn lightstep_certificates<'a>(context: &Context<'a>) -> Option<&'a str> {
    let lightstep = &*context.values().global.proxy.tracer == "lightstep";
    context.proxy_config.tracing_ca_certificates().filter(|_| lightstep)
}

fn or<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}
