//! `outrigger` of the values document: settings that Istio does not have.

use serde::Deserialize;
use serde_json::{Map, Value};

use documents::nulls::or_default;
use documents::suggest;

/// Settings beyond Istio's. Istio ignores the key. Without it everything is as in Istio.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Outrigger {
    /// `captureRequest`: annotation for the CNI plugin of this project.
    #[serde(deserialize_with = "or_default")]
    pub capture_request: CaptureRequest,
    /// `cpuLimits`: default CPU limit of injected containers.
    #[serde(deserialize_with = "or_default")]
    pub cpu_limits: CpuLimits,
    /// `initResources`: requests and limits of the injected init container. Null means
    /// `global.proxy.resources`.
    pub init_resources: Value,
    /// `podResources`: default resources in a pod with pod-level resources (`spec.resources`).
    #[serde(deserialize_with = "or_default")]
    pub pod_resources: PodResources,
    /// `podRevision`: filter of pods by revision.
    #[serde(deserialize_with = "or_default")]
    pub pod_revision: PodRevision,
    /// `proxyUser`: handling of pods with a container that runs as the proxy's user or group.
    #[serde(deserialize_with = "or_default")]
    pub proxy_user: ProxyUser,
    /// `recordOriginal`: annotation from which `uninject` restores what the pod does not show.
    #[serde(deserialize_with = "or_default")]
    pub record_original: RecordOriginal,
    /// `revisionTags`: further names of this revision that a pod may have in `istio.io/rev`.
    #[serde(deserialize_with = "or_default")]
    pub revision_tags: Vec<String>,
}

/// Annotation from which this project's CNI plugin captures a pod's traffic. Istio's plugin reads the pod.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum CaptureRequest {
    /// The pod gets none.
    #[default]
    Omit,
    /// A pod with the container `istio-validation` gets one, and a pod without capture no annotation for any plugin.
    Write,
}

/// Default CPU limit of injected containers.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum CpuLimits {
    /// Injected containers get the limit.
    #[default]
    Keep,
    /// Injected containers get no limit, unless the pod's annotation sets one.
    Omit,
}

/// Default resources of injected containers in a pod with pod-level resources.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum PodResources {
    /// The default resources stay. A warning says if Kubernetes will reject the pod because of
    /// them.
    #[default]
    Keep,
    /// The default resources are omitted. The injected containers share those of the pod.
    Omit,
}

/// Filter of the pods under review by revision.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum PodRevision {
    /// All pods: the API server's selectors have decided.
    #[default]
    Any,
    /// All pods except those with a label `istio.io/rev` of another revision.
    Own,
}

/// Handling of pods with a container that runs as the proxy's user or group. The traffic of such a
/// container is not captured.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum ProxyUser {
    /// Injects the pod without a warning.
    Allow,
    /// Denies the pod.
    Deny,
    /// Injects the pod with a warning.
    #[default]
    Warn,
}

/// Annotation with the values before injection that the injected pod does not show.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum RecordOriginal {
    /// The pod gets none, as in Istio. `uninject` warns of the fields in doubt.
    Omit,
    /// A pod with such values gets one.
    #[default]
    Write,
}

/// Returns an error with a suggestion for an unknown key close to a known one. Other unknown keys
/// are rejected when the document is deserialised.
pub(super) fn check_keys(given: &Map<String, Value>) -> Result<(), String> {
    let unknown = given.keys().filter(|key| !KEYS.contains(&key.as_str()));
    let mut near = unknown.filter_map(|key| Some((key, suggest::among(key, &KEYS)?)));
    match near.next() {
        Some((key, near)) => Err(format!("outrigger.{key}: unknown key; did you mean {near}?")),
        None => Ok(()),
    }
}

const KEYS: [&str; 8] = [
    "captureRequest",
    "cpuLimits",
    "initResources",
    "podResources",
    "podRevision",
    "proxyUser",
    "recordOriginal",
    "revisionTags",
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_or_null_outrigger_keys_mean_istios_behaviour() {
        for given in [json!({}), json!({"cpuLimits": null, "initResources": null})] {
            let read: Outrigger = serde_json::from_value(given).unwrap();
            assert_eq!(read, Outrigger::default());
        }
    }

    #[test]
    fn invalid_word_is_named_with_the_allowed_ones() {
        let error = |given| serde_json::from_value::<Outrigger>(given).unwrap_err().to_string();
        let wrong = error(json!({"proxyUser": "refuse"}));
        assert!(wrong.contains("`refuse`, expected one of `allow`, `deny`, `warn`"), "{wrong}");
        let unknown = error(json!({"cpuLimit": "omit"}));
        assert!(unknown.contains("unknown field `cpuLimit`"), "{unknown}");
        let all = format!("expected one of `{}`", KEYS.join("`, `"));
        assert!(unknown.ends_with(&all), "{unknown}");
    }
}
