//! Container resources that exceed the pod's own.

use std::collections::BTreeSet;

use reason::{Reason, words};
use serde_json::Value;

use crate::inject::prepare::resources::pod_resources;
use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS};
use crate::kubernetes::quantity;

/// Warnings about containers above the pod's own resources. Without them, users learn of the
/// problem only when Kubernetes rejects the pod.
pub fn beyond_pod(pod: &Value) -> Vec<Reason> {
    let Some(whole) = pod_resources(pod) else {
        return Vec::new();
    };
    let amount =
        |resources: &Value, kind: &str, name: &str| quantity::parse(&resources[kind][name]);
    let list = |list: &str| pod["spec"][list].as_array().into_iter().flatten();
    let names: BTreeSet<&str> = ["requests", "limits"]
        .iter()
        .flat_map(|kind| whole[*kind].as_object().into_iter().flatten())
        .map(|(name, _)| name.as_str())
        .collect();
    let mut reasons = Vec::new();
    for name in names {
        if let Some(most) = amount(whole, "limits", name) {
            let above = |container: &&Value| {
                amount(&container[RESOURCES], "limits", name).is_some_and(|limit| limit > most)
            };
            for container in list(INIT_CONTAINERS).chain(list(CONTAINERS)).filter(above) {
                let container = container["name"].as_str().unwrap_or_default();
                reasons.push(beyond(&format!(
                    "container {container} has a higher {name} limit than the pod"
                )));
            }
        }
        let asks =
            |container: &Value| amount(&container[RESOURCES], "requests", name).unwrap_or_default();
        if let Some(most) = amount(whole, "requests", name) {
            let native = |container: &&Value| container["restartPolicy"] == "Always";
            let sidecars = list(INIT_CONTAINERS).filter(native);
            let together: f64 = list(CONTAINERS).chain(sidecars).map(asks).sum();
            if together > most {
                reasons.push(beyond(&format!(
                    "the pod's containers request more {name} together than the pod"
                )));
            }
        }
    }
    reasons
}

fn beyond(message: &str) -> Reason {
    Reason::new(
        words::POD_RESOURCES,
        format!("{message} (spec.resources); Kubernetes will reject the pod"),
    )
}

const RESOURCES: &str = "resources";
