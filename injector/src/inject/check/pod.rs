//! Validation of pods before injection.

use documents::excerpt;
use reason::{Reason, words};
use serde_json::Value;

use crate::inject::error::InjectError;
use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS, PROXY};

/// Checks that a pod is an object with a `spec`, and that the fields used by injection have their
/// Kubernetes types.
pub(crate) fn validate(pod: &Value) -> Result<(), InjectError> {
    let wrong = |path: &[&str], allowed: &str| {
        let problem = format!("{} is not {allowed}", path.join("."));
        Err(InjectError::Form { path: path.iter().map(|&key| key.to_owned()).collect(), problem })
    };
    if !pod["spec"].is_object() {
        return wrong(
            &["spec"],
            "an object; hint: write the containers as the list spec.containers",
        );
    }
    for (path, value) in [
        (&["metadata"][..], &pod["metadata"]),
        (&["metadata", "labels"], &pod["metadata"]["labels"]),
        (&["metadata", "annotations"], &pod["metadata"]["annotations"]),
    ] {
        if !value.is_object() && !value.is_null() {
            return wrong(path, "an object");
        }
    }
    for place in ["labels", "annotations"] {
        let entries = pod["metadata"][place].as_object().into_iter().flatten();
        if let Some((key, value)) = entries.into_iter().find(|(_, value)| !value.is_string()) {
            let (type_name, hint) = type_and_hint(value);
            let name = excerpt::shorten(key);
            return Err(InjectError::Form {
                path: vec!["metadata".to_owned(), place.to_owned(), key.clone()],
                problem: format!("metadata.{place}[{name:?}] is {type_name}, not a string{hint}"),
            });
        }
    }
    for list in ["containers", "initContainers", "volumes", "imagePullSecrets"] {
        let value = &pod["spec"][list];
        let objects = value.as_array().map(|items| items.iter().all(Value::is_object));
        if !value.is_null() && objects != Some(true) {
            return wrong(&["spec", list], "a list of objects");
        }
        let mut items = value.as_array().into_iter().flatten().enumerate();
        let nameless = items.find_map(|(index, item)| Some((index, item, wrong_name(item)?)));
        if let Some((index, item, key)) = nameless {
            return Err(not_a_string(&item[key], &["spec", list, &index.to_string(), key]));
        }
    }
    let metadata = &pod["metadata"];
    wrong_name(metadata).map_or(Ok(()), |key| Err(not_a_string(&metadata[key], &["metadata", key])))
}

/// Returns the key of an object's `name` or `namespace` that is no string.
fn wrong_name(object: &Value) -> Option<&'static str> {
    let mut keys = ["name", "namespace"].into_iter();
    keys.find(|key| !object[key].is_null() && !object[key].is_string())
}

fn not_a_string(value: &Value, path: &[&str]) -> InjectError {
    let (type_name, hint) = type_and_hint(value);
    let problem = format!("{} is {type_name}, not a string{hint}", path.join("."));
    InjectError::Form { path: path.iter().map(|&key| key.to_owned()).collect(), problem }
}

/// Warning about kernel parameters of the pod that a template's list replaces, as the API server
/// merges it.
pub(crate) fn replaced_sysctls(pod: &Value, overlays: &[(String, Value)]) -> Option<Reason> {
    fn sysctls(pod: &Value) -> Option<&Vec<Value>> {
        pod["spec"]["securityContext"]["sysctls"].as_array()
    }
    let own = sysctls(pod)?;
    let (template, _) = overlays.iter().find(|(_, overlay)| {
        sysctls(overlay).is_some_and(|list| own.iter().any(|sysctl| !list.contains(sysctl)))
    })?;
    let message = format!(
        "spec.securityContext.sysctls of the pod is replaced by that of the template {template}"
    );
    Some(Reason::new(words::OWN_SYSCTLS, message))
}

/// Returns the type of a value that should be a string, and the hint for such a value.
fn type_and_hint(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Bool(_) => (
            "a boolean",
            "; hint: put it in quotes, because YAML reads y, yes, on, n, no and off as booleans",
        ),
        Value::Number(_) => ("a number", "; hint: put it in quotes"),
        Value::Array(_) => ("a list", ""),
        _ => ("an object", ""),
    }
}

/// Checks that injected containers do not collide with containers of the pod. Names are unique
/// across all container lists of a pod: Kubernetes rejects a pod with an injected container whose
/// name is in another list.
///
/// A user-supplied proxy may be in the other list, as it moves to that of the injected one. Two
/// user-supplied proxies are ambiguous and rejected.
pub(crate) fn validate_names(
    pod: &Value,
    injected: &Value,
    reinjected: bool,
) -> Result<(), InjectError> {
    let proxies = [CONTAINERS, INIT_CONTAINERS];
    let proxies = proxies.iter().filter(|list| has(pod, list, &PROXY.into()));
    if !reinjected && proxies.count() > 1 {
        let both = format!("spec.{CONTAINERS} and spec.{INIT_CONTAINERS}");
        let message = format!("container {PROXY:?} is in {both}; remove one of the two");
        return Err(InjectError::Pod(message));
    }
    for list in [CONTAINERS, INIT_CONTAINERS] {
        for injected in injected["spec"][list].as_array().into_iter().flatten() {
            let name = &injected["name"];
            let other = if list == CONTAINERS { INIT_CONTAINERS } else { CONTAINERS };
            let others = [other, EPHEMERAL_CONTAINERS];
            let others = &others[usize::from(name == PROXY)..];
            if let Some(taken) = others.iter().find(|other| has(pod, other, name)) {
                let name = excerpt::shorten(name.as_str().unwrap_or_default());
                let own = match list {
                    INIT_CONTAINERS => {
                        ", or move it there if its fields should override the injected ones"
                    }
                    _ => "",
                };
                return Err(InjectError::Pod(format!(
                    "container {name:?} of spec.{taken} has the name of a container injected into \
                     spec.{list}; rename it{own}"
                )));
            }
        }
    }
    Ok(())
}

fn has(pod: &Value, list: &str, name: &Value) -> bool {
    let containers = pod["spec"][list].as_array().into_iter().flatten();
    containers.into_iter().any(|container| container["name"] == *name)
}

const EPHEMERAL_CONTAINERS: &str = "ephemeralContainers";
