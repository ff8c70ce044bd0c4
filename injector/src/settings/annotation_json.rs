//! Validation of annotation values that are JSON.

use documents::unknown_keys::UnknownKey;
use go_types;
use kube_access::names;
use mesh::proxy_config_rules;
use serde_json::{Map, Value};

use crate::kubernetes::pod_schema::{self, PodList};

/// Invalid part of an annotation value.
pub(super) enum InputError {
    Whole,
    Item(String),
    /// A problem that has its own wording.
    Because(String),
}

/// Returns the volumes or mounts of an annotation, which is a JSON list or a JSON object keyed by
/// name. An object without a name gets its key or its index as the name. Field names get the
/// spelling of the Kubernetes API.
///
/// `None` if the value is neither a list nor an object. `null` is an empty list.
pub(crate) fn named_objects(place: PodList, value: &str) -> Option<Vec<Value>> {
    Some(keyed_objects(place, value)?.into_iter().map(|(_, object)| object).collect())
}

/// Returns the same objects as [`named_objects`], each with its path in the annotation.
fn keyed_objects(place: PodList, value: &str) -> Option<Vec<(String, Value)>> {
    let named = |path: String, name: String, mut object: Value| {
        pod_schema::spell(place, &mut object);
        if let Some(object) = object.as_object_mut().filter(|object| !object.is_empty()) {
            object.entry("name").or_insert(name.into());
        }
        (path, object)
    };
    Some(match serde_json::from_str(value).ok()? {
        Value::Null => Vec::new(),
        Value::Object(given) => {
            given.into_iter().map(|(key, object)| named(key.clone(), key, object)).collect()
        }
        Value::Array(given) => {
            let given = given.into_iter().enumerate();
            given.map(|(at, object)| named(format!("[{at}]"), at.to_string(), object)).collect()
        }
        _ => return None,
    })
}

/// Returns the first invalid volume. A volume needs exactly one source: Kubernetes would turn one
/// without a source, or with a misspelt one, into an empty directory.
pub(super) fn volumes(value: &str) -> Option<InputError> {
    objects(PodList::Volume, value, |_| true).or_else(|| {
        keyed_objects(PodList::Volume, value)?.iter().find_map(|(path, volume)| {
            let sources = volume.as_object()?.iter().filter(|(field, source)| {
                *field != "name"
                    && !source.is_null()
                    && pod_schema::is_field(PodList::Volume, field)
            });
            let sources: Vec<_> = sources.map(|(field, _)| field.as_str()).collect();
            let problem = match sources[..] {
                [] => Some(format!("{path} has no source, such as configMap or emptyDir")),
                [_] => None,
                _ => Some(format!("{path} has several sources: {}", sources.join(", "))),
            };
            problem.map(InputError::Because)
        })
    })
}

/// Returns the first invalid mount. A mount needs a `mountPath` and the name of its volume.
pub(super) fn mounts(value: &str) -> Option<InputError> {
    objects(PodList::VolumeMount, value, |mount| {
        mount["mountPath"].as_str().is_some_and(|path| !path.is_empty())
    })
}

/// Returns the first object that is invalid: its name must be a DNS label, its fields must have the
/// types of the Kubernetes API, and it may hold no strategic-merge directive and no unknown field.
fn objects(place: PodList, value: &str, good: impl Fn(&Value) -> bool) -> Option<InputError> {
    let Some(given) = keyed_objects(place, value) else {
        return Some(InputError::Whole);
    };
    given.iter().find_map(|(path, object)| {
        if let Some(directive) = directive(object) {
            let problem = format!("{path} has the merge directive {directive}");
            return Some(InputError::Because(problem));
        }
        if let Some(misfit) = pod_schema::in_json(place, object, path) {
            return Some(InputError::Because(misfit));
        }
        let unknown = pod_schema::unknown_fields(place, object);
        if let Some(unknown) = unknown.iter().find(|field| !may_be_new(field)) {
            let near = unknown.near.map(|near| format!("; did you mean {near}?"));
            let field = &unknown.path;
            let problem =
                format!("{path} has the unknown field {field}{}", near.unwrap_or_default());
            return Some(InputError::Because(problem));
        }
        let named = object["name"].as_str().is_some_and(|name| names::label(name).is_ok());
        (!named || !good(object)).then(|| InputError::Item(format!("{path}: {object}")))
    })
}

/// True if an unknown field may be one of a later Kubernetes version: it resembles no known one and
/// is inside a known one.
fn may_be_new(field: &UnknownKey) -> bool {
    field.near.is_none() && field.path.contains(['.', '['])
}

/// Returns the paths of fields in an annotation that may belong to a later version of Kubernetes.
pub(crate) fn fields_that_may_be_new(place: PodList, value: &str) -> Vec<String> {
    let objects = keyed_objects(place, value).unwrap_or_default().into_iter();
    let fields = objects.flat_map(|(path, object)| {
        let unknown = pod_schema::unknown_fields(place, &object).into_iter();
        let new = unknown.filter(may_be_new);
        new.map(move |field| format!("{path}.{}", field.path)).collect::<Vec<_>>()
    });
    fields.collect()
}

/// Returns a strategic-merge directive at any depth of the value.
fn directive(value: &Value) -> Option<&str> {
    match value {
        Value::Object(members) => {
            let own = members.keys().find(|key| is_directive(key)).map(String::as_str);
            own.or_else(|| members.values().find_map(directive))
        }
        Value::Array(items) => items.iter().find_map(directive),
        _ => None,
    }
}

fn is_directive(key: &str) -> bool {
    let list = ["$setElementOrder/", "$deleteFromPrimitiveList/"];
    ["$patch", "$retainKeys"].contains(&key) || list.iter().any(|list| key.starts_with(list))
}

/// True if the value is a JSON object whose keys are valid names of environment variables.
pub(super) fn environment(value: &str) -> bool {
    let given = serde_json::from_str::<Map<String, Value>>(value);
    given.is_ok_and(|given| given.keys().all(|name| proxy_config_rules::is_variable(name)))
}

/// Returns the invalid part of an `overrides` annotation: its containers and init containers.
pub(super) fn overrides(value: &str) -> Option<InputError> {
    let Ok(given) = serde_json::from_str::<Option<Map<String, Value>>>(value) else {
        return Some(InputError::Whole);
    };
    let mut given = given.unwrap_or_default();
    go_types::spell_members(&OVERRIDES, &mut given);
    OVERRIDES.iter().find_map(|list| match given.get(*list) {
        None | Some(Value::Null) => None,
        Some(Value::Array(containers)) if containers.iter().all(Value::is_object) => {
            let containers = containers.iter().enumerate();
            let mut misfits = containers.filter_map(|(place, container)| {
                let name = container["name"].as_str().unwrap_or_default();
                pod_schema::in_json(
                    PodList::Container,
                    container,
                    &format!("{list}[{place}] ({name})"),
                )
            });
            misfits.next().map(InputError::Because)
        }
        Some(_) => Some(InputError::Whole),
    })
}

/// Fields of the annotation `proxy.istio.io/overrides`.
pub(crate) const OVERRIDES: [&str; 2] = ["containers", "initContainers"];
