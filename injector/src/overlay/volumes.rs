//! Volumes of an injected pod and their mounts, in Istio's order.

use serde_json::{Value, json};

use super::context::Context;
use crate::kubernetes::pod_schema::PodList;
use crate::settings::annotation_json;
use crate::settings::annotations::key;

/// Returns the volumes of a sidecar.
pub(super) fn of_sidecar(context: &Context<'_>) -> Vec<Value> {
    let values = context.values();
    // These volumes have no source, so that a later template can set one; Kubernetes defaults to
    // `emptyDir`.
    let mut volumes = vec![sourceless("workload-socket"), sourceless("credential-socket")];
    volumes.push(identity(context, sourceless("workload-certs")));
    volumes.extend(bootstrap(context));
    volumes.push(in_memory("istio-envoy"));
    volumes.extend(always(context));
    volumes.extend(root_certificate(context));
    let crl = or(&values.pilot.crl_config_map_name, "istio-ca-crl");
    volumes.push(json!({"name": "istio-ca-crl", "configMap": {"name": crl, "optional": true}}));
    volumes.extend(certificates(context));
    volumes.extend(of_annotation(context, key::USER_VOLUME, PodList::Volume));
    if lightstep_certificates(context).is_some() {
        let secret = json!({"optional": true, "secretName": "lightstep.cacert"});
        volumes.push(json!({"name": "lightstep-certs", "secret": secret}));
    }
    volumes
}

/// Returns the volumes of a gateway.
pub(super) fn of_gateway(context: &Context<'_>) -> Vec<Value> {
    let mut volumes = vec![sourceless("workload-socket"), empty("credential-socket")];
    volumes.push(identity(context, empty("workload-certs")));
    volumes.extend(bootstrap(context));
    volumes.push(in_memory("istio-envoy"));
    volumes.extend(always(context));
    volumes.extend(root_certificate(context));
    volumes.extend(certificates(context));
    volumes
}

/// Returns the volumes of a proxyless gRPC application and its agent.
pub(super) fn of_grpc_agent(context: &Context<'_>) -> Vec<Value> {
    let mut volumes = vec![sourceless("workload-socket")];
    volumes.push(identity(context, sourceless("workload-certs")));
    volumes.extend(bootstrap(context));
    volumes.push(in_memory("istio-xds"));
    volumes.extend(always(context));
    volumes.extend(root_certificate(context));
    volumes.extend(certificates(context));
    volumes.extend(of_annotation(context, key::USER_VOLUME, PodList::Volume));
    volumes
}

/// Returns the volume mounts of a sidecar.
pub(super) fn mounts_of_sidecar(context: &Context<'_>) -> Value {
    let mut mounts = sockets();
    mounts.push(identity_mount(context));
    if istiod_signs(context) {
        mounts.push(mount("istiod-ca-cert", ROOT_CERTIFICATE));
        mounts.push(mount("istio-ca-crl", "/var/run/secrets/istio/crl"));
    }
    mounts.extend(envoy_mounts(context));
    if let Some(file) = lightstep_certificates(context) {
        let folder = file.rfind('/').map_or("", |end| &file[..=end]);
        mounts.push(read_only("lightstep-certs", folder));
    }
    mounts.extend(of_annotation(context, key::USER_VOLUME_MOUNT, PodList::VolumeMount));
    mounts.into()
}

/// Returns the volume mounts of a gateway.
pub(super) fn mounts_of_gateway(context: &Context<'_>) -> Value {
    let mut mounts = sockets();
    mounts.push(identity_mount(context));
    if istiod_signs(context) {
        mounts.push(mount("istiod-ca-cert", ROOT_CERTIFICATE));
    }
    mounts.extend(envoy_mounts(context));
    mounts.into()
}

/// Returns the volume mounts of the gRPC agent.
pub(super) fn mounts_of_grpc_agent(context: &Context<'_>) -> Value {
    let mut mounts = vec![mount("workload-socket", WORKLOAD_SOCKET), identity_mount(context)];
    if istiod_signs(context) {
        mounts.push(mount("istiod-ca-cert", ROOT_CERTIFICATE));
    }
    mounts.push(mount("istio-data", DATA));
    mounts.push(mount("istio-xds", "/etc/istio/proxy"));
    mounts.extend(agent_mounts(context));
    mounts.extend(of_annotation(context, key::USER_VOLUME_MOUNT, PodList::VolumeMount));
    mounts.into()
}

/// Returns the volume mounts of a proxyless gRPC application.
pub(super) fn mounts_of_grpc_application(context: &Context<'_>) -> Value {
    let mounts = [mount("istio-data", DATA), mount("istio-xds", "/etc/istio/proxy")];
    mounts.into_iter().chain([identity_mount(context)]).collect()
}

/// Returns a volume without a source. The null removes an `emptyDir` that a previous injection or
/// the API server has set.
fn sourceless(name: &str) -> Value {
    json!({"name": name, "emptyDir": null})
}

fn empty(name: &str) -> Value {
    json!({"name": name, "emptyDir": {}})
}

fn in_memory(name: &str) -> Value {
    json!({"name": name, "emptyDir": {"medium": "Memory"}})
}

/// Returns the volume for the workload certificate, from Google's CSI driver or from the agent.
fn identity(context: &Context<'_>, otherwise: Value) -> Value {
    if !on_gke(context) {
        return otherwise;
    }
    let driver = "workloadcertificates.security.cloud.google.com";
    json!({"name": "gke-workload-certificate", "csi": {"driver": driver}})
}

fn bootstrap(context: &Context<'_>) -> Option<Value> {
    let config_map = context.annotations.get(key::BOOTSTRAP_OVERRIDE)?;
    Some(json!({"name": "custom-bootstrap-volume", "configMap": {"name": config_map}}))
}

/// Returns the volumes of every agent: its data, the pod's metadata and its token.
fn always(context: &Context<'_>) -> [Value; 3] {
    let fields = json!([
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}},
    ]);
    let token = json!({
        "path": "istio-token",
        "expirationSeconds": 43200,
        "audience": &*context.values().global.sds.token.aud,
    });
    [
        empty("istio-data"),
        json!({"name": "istio-podinfo", "downwardAPI": {"items": fields}}),
        json!({"name": "istio-token", "projected": {"sources": [{"serviceAccountToken": token}]}}),
    ]
}

fn certificates(context: &Context<'_>) -> Option<Value> {
    if !context.values().global.mount_mtls_certs.on() {
        return None;
    }
    let account = context.pod["spec"]["serviceAccountName"].as_str().unwrap_or_default();
    let secret =
        json!({"optional": true, "secretName": format!("istio.{}", or(account, "default"))});
    Some(json!({"name": "istio-certs", "secret": secret}))
}

fn mount(name: &str, path: &str) -> Value {
    json!({"name": name, "mountPath": path})
}

fn read_only(name: &str, path: &str) -> Value {
    json!({"name": name, "mountPath": path, "readOnly": true})
}

fn sockets() -> Vec<Value> {
    let credentials = mount("credential-socket", "/var/run/secrets/credential-uds");
    vec![mount("workload-socket", WORKLOAD_SOCKET), credentials]
}

fn identity_mount(context: &Context<'_>) -> Value {
    let path = "/var/run/secrets/workload-spiffe-credentials";
    if on_gke(context) {
        read_only("gke-workload-certificate", path)
    } else {
        mount("workload-certs", path)
    }
}

fn envoy_mounts(context: &Context<'_>) -> impl Iterator<Item = Value> {
    let bootstrap = context.annotations.get(key::BOOTSTRAP_OVERRIDE);
    let bootstrap =
        bootstrap.map(|_| mount("custom-bootstrap-volume", "/etc/istio/custom-bootstrap"));
    let configuration = mount("istio-envoy", "/etc/istio/proxy");
    let first = [mount("istio-data", DATA)].into_iter().chain(bootstrap);
    first.chain([configuration]).chain(agent_mounts(context))
}

fn agent_mounts(context: &Context<'_>) -> impl Iterator<Item = Value> + use<> {
    let certificates = context.values().global.mount_mtls_certs.on();
    let certificates = certificates.then(|| read_only("istio-certs", "/etc/certs/"));
    let token = mount("istio-token", "/var/run/secrets/tokens");
    [token].into_iter().chain(certificates).chain([mount("istio-podinfo", "/etc/istio/pod")])
}

fn root_certificate(context: &Context<'_>) -> Option<Value> {
    if !istiod_signs(context) {
        return None;
    }
    let values = context.values();
    let switch = &values.pilot.env["ENABLE_CLUSTER_TRUST_BUNDLE_API"];
    let given = &*values.global.trust_bundle_name;
    Some(if *switch == true || *switch == "true" {
        let name = format!("istio.io:istiod-ca:{}", or(given, "root-cert"));
        let source = json!({"clusterTrustBundle": {"name": name, "path": "root-cert.pem"}});
        json!({"name": "istiod-ca-cert", "projected": {"sources": [source]}})
    } else {
        let name = or(given, "istio-ca-root-cert");
        json!({"name": "istiod-ca-cert", "configMap": {"name": name}})
    })
}

/// Returns the volumes or mounts in an annotation.
fn of_annotation(context: &Context<'_>, key: &str, place: PodList) -> Vec<Value> {
    let given = context.annotations.get(key);
    // Validation has checked that the annotation can be parsed.
    given.and_then(|given| annotation_json::named_objects(place, given)).unwrap_or_default()
}

fn on_gke(context: &Context<'_>) -> bool {
    &*context.values().global.ca_name == "GkeWorkloadCertificate"
}

fn istiod_signs(context: &Context<'_>) -> bool {
    &*context.values().global.pilot_cert_provider == "istiod"
}

/// Returns the file with the CA of the tracing collector, if the tracer is Lightstep over TLS.
fn lightstep_certificates<'a>(context: &Context<'a>) -> Option<&'a str> {
    let lightstep = &*context.values().global.proxy.tracer == "lightstep";
    let file = context.proxy_config.tracing_ca_certificates();
    file.filter(|file| lightstep && !file.is_empty())
}

fn or<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

const DATA: &str = "/var/lib/istio/data";
const ROOT_CERTIFICATE: &str = "/var/run/secrets/istio";
const WORKLOAD_SOCKET: &str = "/var/run/secrets/workload-spiffe-uds";
