//! Annotations for the CNI plugin before injection.

use reason::Reason;
use serde_json::{Map, Value};

use super::doubt;
use crate::inject::reinject::status::InjectionStatus;
use crate::istio::multus::without_network;
use crate::kubernetes::pod::{INIT_CONTAINERS, VALIDATION};
use crate::overlay::metadata::CNI_NETWORK;
use crate::settings::annotations::key;

/// Removes the annotations with the effective capture settings. Injection keeps the values of the
/// user, so a value that differs from Istio's default may be the user's or the mesh's.
pub(super) fn restore(
    annotations: &mut Map<String, Value>,
    status: &InjectionStatus,
    doubts: &mut Vec<Reason>,
) {
    if !is_by_plugin(annotations, status) {
        return;
    }
    if let Some(networks) = annotations.get(key::CNI_NETWORKS).and_then(Value::as_str) {
        match without_network(networks, CNI_NETWORK) {
            Some(rest) if rest.is_empty() => {
                annotations.remove(key::CNI_NETWORKS);
            }
            Some(rest) => {
                annotations.insert(key::CNI_NETWORKS.to_owned(), rest.into());
            }
            None => {}
        }
    }
    for (key, default) in DEFAULTS {
        match annotations.get(key).and_then(Value::as_str) {
            Some(value) if value == default && !default.is_empty() => {
                annotations.remove(key);
            }
            // Of these, injection writes one alone if its value is empty.
            Some(value) if !value.is_empty() || key == key::INCLUDE_INBOUND_PORTS => {
                doubts.push(doubt::may_be_injected(&format!("the annotation {key}")));
            }
            _ => {}
        }
    }
    restore_excluded_ports(annotations, doubts);
}

/// True if the CNI plugin captures the pod's traffic. Without capture there is no init container,
/// but injection writes these three annotations.
fn is_by_plugin(annotations: &Map<String, Value>, status: &InjectionStatus) -> bool {
    let written = [key::INTERCEPTION_MODE, key::INCLUDE_INBOUND_PORTS, key::EXCLUDE_INBOUND_PORTS];
    status.injected(INIT_CONTAINERS, VALIDATION)
        || !status.injected(INIT_CONTAINERS, INIT)
            && written.iter().all(|key| annotations.contains_key(*key))
}

/// Removes the status port, which injection appends to the ports that are excluded from capture.
fn restore_excluded_ports(annotations: &mut Map<String, Value>, doubts: &mut Vec<Reason>) {
    let key = key::EXCLUDE_INBOUND_PORTS;
    let Some(ports) = annotations.get(key).and_then(Value::as_str) else { return };
    let status_port = annotations.get(key::STATUS_PORT).and_then(Value::as_str);
    let (own, last) = ports.rsplit_once(',').unwrap_or(("", ports));
    if last.trim() != status_port.unwrap_or(STATUS_PORT).trim() {
        doubts.push(doubt::may_be_injected(&format!("the annotation {key}")));
    } else if own.is_empty() {
        annotations.remove(key);
    } else {
        let own = own.to_owned();
        annotations.insert(key.to_owned(), own.into());
        let field = format!("the annotation {key}, without the status port,");
        doubts.push(doubt::may_be_injected(&field));
    }
}

/// Annotations with the value that injection writes by Istio's default settings.
const DEFAULTS: [(&str, &str); 6] = [
    (key::INTERCEPTION_MODE, "REDIRECT"),
    (key::INCLUDE_OUTBOUND_IP_RANGES, "*"),
    (key::EXCLUDE_OUTBOUND_IP_RANGES, ""),
    (key::INCLUDE_INBOUND_PORTS, "*"),
    (key::INCLUDE_OUTBOUND_PORTS, ""),
    (key::EXCLUDE_OUTBOUND_PORTS, ""),
];

/// Status port of the mesh, unless its settings have another one.
const STATUS_PORT: &str = "15020";

const INIT: &str = "istio-init";
