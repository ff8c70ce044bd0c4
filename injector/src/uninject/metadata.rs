//! Labels and annotations before injection.

use reason::Reason;
use serde_json::{Map, Value};

use super::{Origin, capture, doubt, metrics, remove_if_empty};
use crate::inject::prepare::path_env::{NETWORK, NETWORK_LABEL};
use crate::inject::reinject::status::{InjectionStatus, STATUS};
use crate::kubernetes::pod::{CONTAINERS, PROXY, find_proxy, proxy_env};
use crate::overlay::metadata::{
    CANONICAL_NAME, CANONICAL_REVISION, HBONE, TLS_MODE, TUNNEL, canonical_name, canonical_revision,
};
use crate::settings::annotations::key;

/// Removes the labels and annotations that injection writes. The containers of
/// `pod` are already restored.
pub(super) fn restore(
    pod: &mut Value,
    injected: &Value,
    status: &InjectionStatus,
    origin: &Origin<'_>,
    doubts: &mut Vec<Reason>,
) {
    let containers = pod["spec"][CONTAINERS].as_array().into_iter().flatten();
    // Knative names a container that has no name.
    let mut names = containers.map(|container| container["name"].as_str().unwrap_or_default());
    let first = names.find(|name| *name != PROXY).map(str::to_owned);
    if let Some(labels) = pod.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        restore_labels(labels, injected, origin, doubts);
    }
    if let Some(annotations) =
        pod.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
    {
        annotations.remove(STATUS);
        annotations.remove(key::OVERRIDES);
        annotations.remove(key::CAPTURE);
        annotations.remove(key::ORIGINAL);
        for key in [key::DEFAULT_CONTAINER, key::DEFAULT_LOGS_CONTAINER] {
            if first.is_some() && annotations.get(key).and_then(Value::as_str) == first.as_deref() {
                annotations.remove(key);
            }
        }
        restore_revision(annotations, status, doubts);
        restore_probe_switch(annotations, status, doubts);
        metrics::restore(annotations, injected, doubts);
        capture::restore(annotations, status, doubts);
    }
    for map in ["labels", "annotations"] {
        if injected["metadata"][map] != pod["metadata"][map] {
            remove_if_empty(pod.get_mut("metadata"), map);
        }
    }
    remove_if_empty(Some(pod), "metadata");
}

fn restore_labels(
    labels: &mut Map<String, Value>,
    injected: &Value,
    origin: &Origin<'_>,
    doubts: &mut Vec<Reason>,
) {
    let mut written = vec![
        (CANONICAL_NAME, canonical_name(injected, &origin.name)),
        (CANONICAL_REVISION, canonical_revision(injected)),
        (TLS_MODE, "istio"),
    ];
    if proxy_env(injected, HBONE) == Some("true") {
        written.push((TUNNEL, "http"));
    }
    match find_proxy(injected) {
        Some(_) => written.extend(proxy_env(injected, NETWORK).map(|own| (NETWORK_LABEL, own))),
        None if labels.contains_key(NETWORK_LABEL) => {
            doubts.push(doubt::may_be_injected(&format!("the label {NETWORK_LABEL}")));
        }
        None => {}
    }
    for (key, written) in written {
        let Some(value) = labels.get(key).and_then(Value::as_str) else { continue };
        if origin.selects(key) {
            continue;
        }
        if origin.has_label(key, value) || value != written && key == CANONICAL_NAME {
            doubts.push(doubt::may_be_injected(&format!("the label {key}")));
        } else if value == written {
            doubts.extend(
                (key == NETWORK_LABEL).then(|| doubt::may_be_own(&format!("the label {key}"))),
            );
            labels.remove(key);
        }
    }
}

fn restore_revision(
    annotations: &mut Map<String, Value>,
    status: &InjectionStatus,
    doubts: &mut Vec<Reason>,
) {
    let Some(revision) = annotations.get(key::REVISION) else { return };
    // Old versions of Istio name no revision in the status.
    if status.revision().is_empty() || revision == status.revision() {
        annotations.remove(key::REVISION);
    } else {
        doubts.push(doubt::may_be_injected(&format!("the annotation {}", key::REVISION)));
    }
}

/// Removes the annotation with which the templates of proxyless gRPC keep the probes.
fn restore_probe_switch(
    annotations: &mut Map<String, Value>,
    status: &InjectionStatus,
    doubts: &mut Vec<Reason>,
) {
    if annotations.get(key::REWRITE_APP_PROBES).is_none_or(|switch| switch != "false") {
        return;
    }
    if status.volumes().iter().any(|volume| GRPC_VOLUMES.contains(&volume.as_str())) {
        annotations.remove(key::REWRITE_APP_PROBES);
        doubts.push(doubt::may_be_own(&format!("the annotation {}", key::REWRITE_APP_PROBES)));
    }
}

/// Volumes of the templates `grpc-agent` and `grpc-simple` alone.
const GRPC_VOLUMES: [&str; 2] = ["istio-xds", "grpc-io-proxyless-bootstrap"];
