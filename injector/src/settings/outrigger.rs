//! `outrigger` of the values document: what Istio has no setting for.

use serde::Deserialize;
use serde_json::{Map, Value};

use documents::nulls::or_default;
use documents::suggest;

/// What users ask for beyond Istio. Istio passes over the key; without it everything is as Istio
/// has it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Outrigger {
    /// `cpuLimits`: whether injected containers get the default CPU limit.
    #[serde(deserialize_with = "or_default")]
    pub cpu_limits: CpuLimits,
    /// `initResources`: requests and limits of the injected init container, in place of
    /// `global.proxy.resources`; null for those.
    pub init_resources: Value,
    /// `podResources`: the default resources in a pod that has resources of its own
    /// (`spec.resources`).
    #[serde(deserialize_with = "or_default")]
    pub pod_resources: PodResources,
    /// `podRevision`: whose pods are injected.
    #[serde(deserialize_with = "or_default")]
    pub pod_revision: PodRevision,
    /// `proxyUser`: what becomes of a pod with a container that runs as the proxy's user or group.
    #[serde(deserialize_with = "or_default")]
    pub proxy_user: ProxyUser,
    /// `revisionTags`: further names of this revision that pods may have in `istio.io/rev`.
    #[serde(deserialize_with = "or_default")]
    pub revision_tags: Vec<String>,
}

/// Whether injected containers get the default CPU limit.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum CpuLimits {
    /// They do.
    #[default]
    Keep,
    /// They get none, unless the pod's annotation asks for one.
    Omit,
}

/// The default resources in a pod that has resources of its own.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum PodResources {
    /// They stay; a warning says where Kubernetes will refuse the pod for it.
    #[default]
    Keep,
    /// They are left out, and the injected containers share what the pod has.
    Omit,
}

/// Whose pods are injected, of those that arrive.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum PodRevision {
    /// Everybody's: the API server's selectors have decided.
    #[default]
    Any,
    /// Not those whose own label `istio.io/rev` names another revision.
    Own,
}

/// What becomes of a pod with a container that runs as the proxy's user or group, and whose
/// traffic is therefore not captured.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum ProxyUser {
    /// It is injected without a word.
    Allow,
    /// It is denied.
    Deny,
    /// It is injected with a warning.
    #[default]
    Warn,
}

/// Tells of a key that is not known and near one that is; any other is told of when it is read.
pub(super) fn check_keys(given: &Map<String, Value>) -> Result<(), String> {
    let unknown = given.keys().filter(|key| !KEYS.contains(&key.as_str()));
    let mut near = unknown.filter_map(|key| Some((key, suggest::among(key, &KEYS)?)));
    match near.next() {
        Some((key, near)) => Err(format!("outrigger.{key}: unknown key; did you mean {near}?")),
        None => Ok(()),
    }
}

const KEYS: [&str; 6] =
    ["cpuLimits", "initResources", "podResources", "podRevision", "proxyUser", "revisionTags"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_left_out_or_null_is_as_istio_has_it() {
        for given in [json!({}), json!({"cpuLimits": null, "initResources": null})] {
            let read: Outrigger = serde_json::from_value(given).unwrap();
            assert_eq!(read, Outrigger::default());
        }
    }

    #[test]
    fn a_wrong_word_is_named_with_what_is_allowed() {
        let error = |given| serde_json::from_value::<Outrigger>(given).unwrap_err().to_string();
        let wrong = error(json!({"proxyUser": "refuse"}));
        assert!(wrong.contains("`refuse`, expected one of `allow`, `deny`, `warn`"), "{wrong}");
        let unknown = error(json!({"cpuLimit": "omit"}));
        assert!(unknown.contains("unknown field `cpuLimit`"), "{unknown}");
        let all = format!("expected one of `{}`", KEYS.join("`, `"));
        assert!(unknown.ends_with(&all), "{unknown}");
    }
}
