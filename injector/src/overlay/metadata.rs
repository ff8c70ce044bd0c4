//! Labels and annotations of an injected pod.

use serde_json::{Map, Value};

use super::context::{Context, object};
use super::init_container::excluded_inbound_ports;
use crate::istio::multus::with_network;
use crate::settings::annotations::key;
use crate::settings::outrigger::CaptureRequest;

/// Returns the metadata of a pod with a sidecar.
pub(super) fn of_sidecar(context: &Context<'_>) -> Value {
    let mut labels = labels(context);
    let mut put = |key: &str, value: &str| labels.insert(key.to_owned(), value.into());
    put(TLS_MODE, context.label(TLS_MODE).unwrap_or("istio"));
    if context.proxy_config.metadata(HBONE) == Some("true") {
        put(TUNNEL, context.label(TUNNEL).unwrap_or("http"));
    }
    let mut annotations = annotations(context);
    if is_for_cni(context) {
        for_cni(context, &mut |key: &str, value: &str| {
            annotations.insert(key.to_owned(), value.into());
        });
    }
    object([("labels", labels.into()), ("annotations", annotations.into())])
}

/// Returns the metadata of a gateway.
pub(super) fn of_gateway(context: &Context<'_>) -> Value {
    object([("labels", labels(context).into()), ("annotations", annotations(context).into())])
}

/// Returns the metadata of a proxyless gRPC application. Its probes stay, as no proxy intercepts
/// them.
pub(super) fn of_grpc_agent(context: &Context<'_>) -> Value {
    let mut annotations = annotations(context);
    annotations.insert(key::REWRITE_APP_PROBES.to_owned(), "false".into());
    object([("labels", labels(context).into()), ("annotations", annotations.into())])
}

/// Returns the labels of the canonical service.
fn labels(context: &Context<'_>) -> Map<String, Value> {
    let mut labels = Map::new();
    let mut put = |key: &str, value: &str| labels.insert(key.to_owned(), value.into());
    let name = match context.label(CANONICAL_NAME) {
        Some(name) => label_value(name),
        None => canonical_name(context.pod, &context.workload.name),
    };
    put(CANONICAL_NAME, name);
    let revision = context.label(CANONICAL_REVISION);
    put(CANONICAL_REVISION, revision.unwrap_or_else(|| canonical_revision(context.pod)));
    labels
}

/// Returns the name of the canonical service of a pod without a label for it.
pub(crate) fn canonical_name<'a>(pod: &'a Value, workload: &'a str) -> &'a str {
    label_value(first_label(pod, ["app.kubernetes.io/name", "app"]).unwrap_or(workload))
}

/// Returns the revision of the canonical service of a pod without a label for it.
pub(crate) fn canonical_revision(pod: &Value) -> &str {
    first_label(pod, ["app.kubernetes.io/version", "version"]).unwrap_or("latest")
}

/// Returns the first of these labels that is not empty.
fn first_label<'a>(pod: &'a Value, keys: [&str; 2]) -> Option<&'a str> {
    let labels = &pod["metadata"]["labels"];
    keys.into_iter().find_map(|key| labels[key].as_str().filter(|value| !value.is_empty()))
}

/// Truncates a name to a valid label value.
fn label_value(name: &str) -> &str {
    let mut end = name.len().min(63);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].trim_matches(['-', '_', '.'])
}

fn annotations(context: &Context<'_>) -> Map<String, Value> {
    let mut annotations = Map::new();
    let mut put = |key: &str, value: &str| {
        annotations.insert(key.to_owned(), value.into());
    };
    put(key::REVISION, context.settings.process.revision_name());
    if let Some(first) = context.application_containers().next() {
        for key in [key::DEFAULT_LOGS_CONTAINER, key::DEFAULT_CONTAINER] {
            if context.annotations.get(key).is_none() {
                put(key, first);
            }
        }
    }
    annotations
}

/// True if a CNI plugin reads the annotations. Istio's plugin fails for a pod without capture.
fn is_for_cni(context: &Context<'_>) -> bool {
    let values = context.values();
    let is_ours = values.outrigger.capture_request == CaptureRequest::Write;
    values.pilot.cni.enabled.on() && (context.has_capture() || !is_ours)
}

/// Adds the annotations for the CNI plugin, which then programs the capture.
fn for_cni(context: &Context<'_>, put: &mut impl FnMut(&str, &str)) {
    let given = context.annotations;
    let proxy = &context.values().global.proxy;
    if &*context.values().pilot.cni.provider == "multus" {
        let networks = given.get(key::CNI_NETWORKS).unwrap_or_default();
        put(key::CNI_NETWORKS, &with_network(networks, CNI_NETWORK));
    }
    put(key::INTERCEPTION_MODE, context.interception_mode());
    for (key, default) in [
        (key::INCLUDE_OUTBOUND_IP_RANGES, &proxy.include_ip_ranges),
        (key::EXCLUDE_OUTBOUND_IP_RANGES, &proxy.exclude_ip_ranges),
    ] {
        let ranges = given.or(key, default);
        if !ranges.is_empty() {
            put(key, ranges);
        }
    }
    put(
        key::INCLUDE_INBOUND_PORTS,
        given.or(key::INCLUDE_INBOUND_PORTS, &proxy.include_inbound_ports),
    );
    put(key::EXCLUDE_INBOUND_PORTS, &excluded_inbound_ports(context));
    for (key, default) in [
        (key::INCLUDE_OUTBOUND_PORTS, &proxy.include_outbound_ports),
        (key::EXCLUDE_OUTBOUND_PORTS, &proxy.exclude_outbound_ports),
    ] {
        if given.get(key).is_some() || !default.is_empty() {
            put(key, given.or(key, default));
        }
    }
    for key in [key::KUBEVIRT_INTERFACES, key::REROUTE_VIRTUAL_INTERFACES, key::EXCLUDE_INTERFACES]
    {
        if let Some(interfaces) = given.get(key).filter(|interfaces| !interfaces.is_empty()) {
            put(key, interfaces);
        }
    }
}

/// The label with the name of the canonical service.
pub(crate) const CANONICAL_NAME: &str = "service.istio.io/canonical-name";
/// The label with the revision of the canonical service.
pub(crate) const CANONICAL_REVISION: &str = "service.istio.io/canonical-revision";
/// The label for mutual TLS.
pub(crate) const TLS_MODE: &str = "security.istio.io/tlsMode";
/// The label for tunnels to the pod.
pub(crate) const TUNNEL: &str = "networking.istio.io/tunnel";
/// The variable that makes tunnels to the pod possible.
pub(crate) const HBONE: &str = "ISTIO_META_ENABLE_HBONE";
/// The network of the CNI plugin.
pub(crate) const CNI_NETWORK: &str = "default/istio-cni";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_name_is_cut_to_a_label_value() {
        let name = format!("{}-tail", "a".repeat(62));
        assert_eq!(label_value(&name), "a".repeat(62));
    }
}
