//! The defaults, by field.

use serde_json::{Map, Value, json};

use super::ValueContext;
use crate::kubernetes::quantity;

/// True if the API server treats a value as absent and writes its default instead.
pub(super) fn says_nothing(key: &str, value: &Value) -> bool {
    value.is_null() || value == "" || *value == 0 && !MAY_BE_ZERO.contains(&key)
}

/// True if the API server writes this value under this key of an object without the key.
pub(super) fn is_default(
    object: &Map<String, Value>,
    place: ValueContext<'_>,
    key: &str,
    value: &Value,
) -> bool {
    let has = |key: &str, value: &Value| object.get(key).is_some_and(|own| own == value);
    match (place.field, key) {
        ("spec", "dnsPolicy") => value == "ClusterFirst",
        ("spec", "enableServiceLinks") => *value == true,
        ("spec", "preemptionPolicy") => value == "PreemptLowerPriority",
        ("spec", "priority") => *value == 0,
        ("spec", "restartPolicy") => value == "Always",
        ("spec", "schedulerName") => value == "default-scheduler",
        ("spec", "securityContext") | ("containers" | "initContainers", "resources") => {
            *value == json!({})
        }
        ("spec", "serviceAccount") => value == "default" || has("serviceAccountName", value),
        ("spec", "serviceAccountName") => value == "default" || has("serviceAccount", value),
        ("spec", "terminationGracePeriodSeconds") => *value == 30,
        ("spec", "tolerations") => {
            value.as_array().is_some_and(|tolerations| tolerations.iter().all(is_admissions))
        }
        ("containers" | "initContainers", "imagePullPolicy") => {
            value == pull_policy(object.get("image").and_then(Value::as_str).unwrap_or_default())
        }
        ("containers" | "initContainers", "terminationMessagePath") => {
            value == "/dev/termination-log"
        }
        ("containers" | "initContainers", "terminationMessagePolicy") => value == "File",
        ("resources", "requests") => {
            let limits = object.get("limits").unwrap_or(&Value::Null);
            let mut requests = value.as_object().into_iter().flatten();
            requests.all(|(resource, amount)| quantity::same(amount, &limits[resource]))
        }
        ("requests", resource) => quantity::same(value, &place.limits[resource]),
        ("ports", "protocol") => value == "TCP",
        ("livenessProbe" | "readinessProbe" | "startupProbe", "failureThreshold") => *value == 3,
        ("livenessProbe" | "readinessProbe" | "startupProbe", "periodSeconds") => *value == 10,
        (
            "livenessProbe" | "readinessProbe" | "startupProbe",
            "successThreshold" | "timeoutSeconds",
        ) => *value == 1,
        ("httpGet", "path") => value == "/",
        ("httpGet", "scheme") => value == "HTTP",
        ("grpc", "service") | ("hostPath", "type") => value == "",
        ("fieldRef", "apiVersion") => value == "v1",
        ("resourceFieldRef", "divisor") => value == "0",
        _ => is_default_of_volume(object, place.field, key, value),
    }
}

fn is_default_of_volume(
    object: &Map<String, Value>,
    field: &str,
    key: &str,
    value: &Value,
) -> bool {
    match (field, key) {
        ("volumes", "emptyDir") => {
            *value == json!({})
                && object.iter().all(|(field, source)| field == "name" || source.is_null())
        }
        ("configMap" | "downwardAPI" | "projected" | "secret", "defaultMode") => *value == 0o644,
        ("serviceAccountToken", "expirationSeconds") => *value == 3600,
        ("azureDisk", "cachingMode") => value == "ReadWrite",
        ("azureDisk", "fsType") => value == "ext4",
        ("azureDisk", "kind") => value == "Shared",
        ("azureDisk", "readOnly") => *value == false,
        ("image", "pullPolicy") => {
            let image = object.get("reference").and_then(Value::as_str);
            value == pull_policy(image.unwrap_or_default())
        }
        ("iscsi", "iscsiInterface") => value == "default",
        ("rbd", "keyring") => value == "/etc/ceph/keyring",
        ("rbd", "pool") => value == "rbd",
        ("rbd", "user") => value == "admin",
        ("scaleIO", "fsType") => value == "xfs",
        ("scaleIO", "storageMode") => value == "ThinProvisioned",
        ("volumeClaimTemplate", "metadata") => *value == json!({}),
        ("spec", "volumeMode") => value == "Filesystem",
        _ => false,
    }
}

/// True if admission adds this toleration to every pod without a similar one.
pub(super) fn is_admissions(toleration: &Value) -> bool {
    let key = toleration["key"].as_str().unwrap_or_default();
    let unready = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    unready.contains(&key)
        && toleration["effect"] == "NoExecute"
        && toleration["operator"] == "Exists"
}

fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(n, d)| (n, Some(d)));
    let last = name.rsplit('/').next().unwrap_or_default();
    match (last.split_once(':'), digest) {
        (Some((_, "latest")), _) | (None, None) => "Always",
        _ => "IfNotPresent",
    }
}

/// Number fields in which zero is a value and does not mean absent.
const MAY_BE_ZERO: [&str; 3] = ["defaultMode", "priority", "terminationGracePeriodSeconds"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_pull_policy_depends_on_the_image() {
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
