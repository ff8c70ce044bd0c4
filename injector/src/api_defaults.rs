//! What the API server writes into a pod where nothing is said.
//!
//! The values are those of Kubernetes' `pkg/apis/core/v1/defaults.go`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::change::{Change, ListChange};

/// Leaves the defaults in a pod that an injection would take out of it: the API server writes them
/// again, and an injection of the same pod would never be the last one.
///
/// `change` is what was done to the pod; it is shortened by what stays.
pub(crate) fn keep(pod: &mut Value, change: &mut Change) {
    keep_in(pod, change, "");
}

/// The same of a value under a field; in a list, of an item of it.
fn keep_in(value: &mut Value, change: &mut Change, field: &str) {
    match change {
        Change::Kept | Change::Removed(_) | Change::Set(None) => {}
        Change::Set(Some(before)) => {
            put_back(value, before, field);
            if value == before {
                *change = Change::Kept;
            }
        }
        Change::Object(changes) => {
            let Value::Object(members) = value else { return };
            keep_in_members(members, changes, field);
            if changes.is_empty() {
                *change = Change::Kept;
            }
        }
        Change::List(list) => {
            let Value::Array(items) = value else { return };
            list.retain_items(|index, change| {
                if let Some(item) = items.get_mut(index) {
                    keep_in(item, change, field);
                }
                *change != Change::Kept
            });
            if *list == ListChange::default() {
                *change = Change::Kept;
            }
        }
    }
}

fn keep_in_members(
    members: &mut Map<String, Value>,
    changes: &mut BTreeMap<String, Change>,
    field: &str,
) {
    changes.retain(|key, change| match change {
        Change::Removed(before) if is_default(members, field, key, before) => {
            members.insert(key.clone(), before.take());
            false
        }
        change => {
            if let Some(value) = members.get_mut(key) {
                keep_in(value, change, key);
            }
            *change != Change::Kept
        }
    });
}

/// Puts the defaults of an earlier value into the one that took its place.
fn put_back(value: &mut Value, before: &Value, field: &str) {
    match (value, before) {
        (Value::Object(members), Value::Object(before)) => {
            for (key, before) in before {
                if let Some(value) = members.get_mut(key) {
                    put_back(value, before, key);
                } else if is_default(members, field, key, before) {
                    members.insert(key.clone(), before.clone());
                }
            }
        }
        (Value::Array(items), Value::Array(before)) if items.len() == before.len() => {
            for (item, before) in items.iter_mut().zip(before) {
                put_back(item, before, field);
            }
        }
        _ => {}
    }
}

/// Whether the API server writes this value under this key of an object, or of an item of a list,
/// that has nothing there.
fn is_default(object: &Map<String, Value>, field: &str, key: &str, value: &Value) -> bool {
    match (field, key) {
        ("spec", "dnsPolicy") => value == "ClusterFirst",
        ("spec", "enableServiceLinks") => *value == true,
        ("spec", "restartPolicy") => value == "Always",
        ("spec", "schedulerName") => value == "default-scheduler",
        ("spec", "securityContext") => *value == json!({}),
        ("spec", "terminationGracePeriodSeconds") => *value == 30,
        ("containers" | "initContainers", "imagePullPolicy") => {
            value == pull_policy(object.get("image").and_then(Value::as_str).unwrap_or_default())
        }
        ("containers" | "initContainers", "resources") => *value == json!({}),
        ("containers" | "initContainers", "terminationMessagePath") => {
            value == "/dev/termination-log"
        }
        ("containers" | "initContainers", "terminationMessagePolicy") => value == "File",
        ("ports", "protocol") => value == "TCP",
        ("livenessProbe" | "readinessProbe" | "startupProbe", "failureThreshold") => *value == 3,
        ("livenessProbe" | "readinessProbe" | "startupProbe", "periodSeconds") => *value == 10,
        ("livenessProbe" | "readinessProbe" | "startupProbe", "successThreshold") => *value == 1,
        ("livenessProbe" | "readinessProbe" | "startupProbe", "timeoutSeconds") => *value == 1,
        ("httpGet", "path") => value == "/",
        ("httpGet", "scheme") => value == "HTTP",
        ("grpc", "service") | ("hostPath", "type") => value == "",
        ("fieldRef", "apiVersion") => value == "v1",
        ("configMap" | "downwardAPI" | "projected" | "secret", "defaultMode") => *value == 0o644,
        ("serviceAccountToken", "expirationSeconds") => *value == 3600,
        _ => false,
    }
}

fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(n, d)| (n, Some(d)));
    let last = name.rsplit('/').next().unwrap_or_default();
    match (last.split_once(':'), digest) {
        (Some((_, "latest")), _) | (None, None) => "Always",
        _ => "IfNotPresent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a merge with an overlay makes of a pod, and whether the patch says the same.
    fn merged(pod: &Value, overlay: Value) -> (Value, Vec<String>) {
        let mut now = pod.clone();
        let mut change = crate::merge::merge(&mut now, overlay).unwrap();
        keep(&mut now, &mut change);
        let patch = crate::patch::write(&now, &change).owned();
        let mut patched = pod.clone();
        json_patch::patch(&mut patched, &patch).unwrap();
        assert_eq!(patched, now, "the patch gives the pod");
        (now, patch.iter().map(|operation| operation.path().to_string()).collect())
    }

    #[test]
    fn defaults_that_an_overlay_takes_out_stay() {
        let pod = json!({"spec": {
            "securityContext": {},
            "containers": [{
                "name": "app",
                "image": "app:1",
                "imagePullPolicy": "IfNotPresent",
                "readinessProbe": {
                    "httpGet": {"path": "/", "port": 1, "scheme": "HTTP"},
                    "periodSeconds": 10,
                },
            }],
        }});
        let nulls = json!({"spec": {
            "securityContext": null,
            "containers": [{
                "name": "app",
                "imagePullPolicy": null,
                "readinessProbe": {"httpGet": {"scheme": null}, "periodSeconds": null},
            }],
        }});
        assert_eq!(merged(&pod, nulls), (pod.clone(), vec![]));
        let anew = json!({"spec": {"containers": [{
            "name": "app",
            "readinessProbe": {"httpGet": {"$patch": "replace", "path": "/", "port": 1}},
        }]}});
        assert_eq!(merged(&pod, anew), (pod.clone(), vec![]));
    }

    #[test]
    fn lists_that_are_replaced_keep_what_the_api_server_wrote_into_them() {
        let items = |field: Value| json!({"items": [{"path": "labels", "fieldRef": field}]});
        let plain = items(json!({"fieldPath": "metadata.labels"}));
        let added = items(json!({"fieldPath": "metadata.labels", "apiVersion": "v1"}));
        assert_eq!(merged(&added, plain.clone()), (added.clone(), vec![]));
        let other = items(json!({"fieldPath": "other", "apiVersion": "v1"}));
        assert_eq!(merged(&other, plain).0, added);
    }

    #[test]
    fn what_is_no_default_goes() {
        let pod = json!({"spec": {
            "securityContext": {"runAsUser": 1},
            "containers": [{
                "name": "app",
                "image": "app:1",
                "imagePullPolicy": "Always",
                "ports": [{"containerPort": 1, "protocol": "UDP"}],
                "readinessProbe": {"httpGet": {"port": 1, "scheme": "HTTPS"}},
            }],
        }});
        let overlay = json!({"spec": {
            "securityContext": null,
            "containers": [{
                "name": "app",
                "imagePullPolicy": null,
                "ports": [{"containerPort": 1, "protocol": null}],
                "readinessProbe": {"httpGet": {"scheme": null}},
            }],
        }});
        let expected = json!({"spec": {"containers": [{
            "name": "app",
            "image": "app:1",
            "ports": [{"containerPort": 1}],
            "readinessProbe": {"httpGet": {"port": 1}},
        }]}});
        assert_eq!(merged(&pod, overlay).0, expected);
    }

    #[test]
    fn the_pull_policy_is_the_image_s() {
        for (image, policy) in [
            ("app", "Always"),
            ("host:5000/app", "Always"),
            ("host:5000/app:latest", "Always"),
            ("app:latest@sha256:0", "Always"),
            ("app:1", "IfNotPresent"),
            ("app@sha256:0", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }
}
