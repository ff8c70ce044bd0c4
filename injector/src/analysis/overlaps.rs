//! Webhook entries that inject the same pods.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::inject::reinject::status::STATUS;
use crate::istio::labels::{INJECT, REVISION};
use crate::kubernetes::webhook_configuration::{Hook, HookConfiguration};

/// Returns the configurations with pods that another entry injects too, and these other entries as
/// `CONFIGURATION/ENTRY`.
///
/// Checks every combination of Istio's labels on a namespace and a pod.
pub fn overlapping_entries(
    configurations: &[HookConfiguration],
) -> BTreeMap<&str, BTreeSet<String>> {
    let mut overlaps: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (namespace, pod) in label_combinations(configurations) {
        let calling = calling(configurations, &namespace, pod);
        for (index, (configuration, _)) in calling.iter().enumerate() {
            let others = calling.iter().enumerate().filter(|(other, _)| *other != index);
            let others = others.map(|(_, (other, hook))| format!("{}/{}", other.name, hook.name));
            let others: Vec<_> = others.collect();
            if !others.is_empty() {
                overlaps.entry(&configuration.name).or_default().extend(others);
            }
        }
    }
    overlaps
}

/// Returns the entries by which the API server calls injectors for a pod.
fn calling<'a>(
    configurations: &'a [HookConfiguration],
    namespace: &Value,
    mut pod: Value,
) -> Vec<(&'a HookConfiguration, &'a Hook)> {
    let mut calling = Vec::new();
    for configuration in configurations {
        // Only the API server knows if an unsupported condition holds.
        let hooks = configuration.hooks.iter().filter(|hook| {
            hook.asks(namespace, &pod) && hook.unknown_conditions().next().is_none()
        });
        calling.extend(hooks.map(|hook| (configuration, hook)));
        if !calling.is_empty() {
            // An entry may exclude injected pods.
            pod["metadata"]["annotations"][STATUS] = "{}".into();
        }
    }
    calling
}

/// Returns all combinations of Istio's labels on a namespace and a pod.
fn label_combinations(configurations: &[HookConfiguration]) -> Vec<(Value, Value)> {
    let names = configurations.iter().flat_map(|one| [Some(&one.revision), one.tag.as_ref()]);
    let names: BTreeSet<_> = names.flatten().map(String::as_str).collect();
    let revisions: Vec<_> = [None].into_iter().chain(names.into_iter().map(Some)).collect();
    let labels = |key: &str, values: &[Option<&str>]| {
        let mut all = Vec::new();
        for revision in &revisions {
            for value in values {
                let mut labels = json!({});
                for (key, value) in [(REVISION, *revision), (key, *value)] {
                    if let Some(value) = value {
                        labels[key] = value.into();
                    }
                }
                all.push(labels);
            }
        }
        all
    };
    let namespaces = labels("istio-injection", &[None, Some("enabled"), Some("disabled")]);
    let pods = labels(INJECT, &[None, Some("true"), Some("false")]);
    let mut combinations = Vec::new();
    for namespace in &namespaces {
        for pod in &pods {
            combinations.push((namespace.clone(), json!({"metadata": {"labels": pod}})));
        }
    }
    combinations
}
