//! Type check of rendered templates against the Kubernetes types into which Istio decodes them.

use std::fmt;

use documents::unknown_keys::{Shape, UnknownKey, unknown_keys};
use go_types::{self, FieldKind, OBJECT_META, POD_SPEC, Type};
use serde_json::Value;

use crate::kubernetes::quantity;

/// Returns the first value of a partial pod that does not fit its type. Ignores unknown fields and
/// the directives of a strategic merge patch.
pub(crate) fn misfit(pod: &Value) -> Option<Misfit> {
    if pod.get("spec").is_some_and(Value::is_null) {
        // A null would remove the pod's `spec` in the merge.
        let path = vec![FieldStep::Field("spec".to_owned())];
        return Some(Misfit { path, found: named(&Value::Null), expected: MAPPING });
    }
    for (name, of) in PARTS {
        let value = pod.get(name).unwrap_or(&Value::Null);
        if let Some(misfit) = of_kind(FieldKind::Struct(of), value) {
            return Some(misfit.within(FieldStep::Field(name.to_owned())));
        }
    }
    ["apiVersion", "kind"].into_iter().find_map(|name| {
        let misfit = of_kind(FieldKind::String, pod.get(name)?)?;
        Some(misfit.within(FieldStep::Field(name.to_owned())))
    })
}

/// List in a pod's spec for which a value is meant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PodList {
    /// `containers` of the pod.
    Container,
    /// `volumes` of the pod.
    Volume,
    /// `volumeMounts` of a container.
    VolumeMount,
}

impl PodList {
    /// Returns the type of the list's items.
    fn item(self) -> Option<FieldKind> {
        let lists = match self {
            Self::Container => &["containers"][..],
            Self::Volume => &["volumes"],
            Self::VolumeMount => &["containers", "volumeMounts"],
        };
        lists.iter().try_fold(FieldKind::Struct(POD_SPEC), |kind, list| {
            let FieldKind::Struct(of) = kind else { return None };
            let FieldKind::List(item) = of.field(list)?.kind else { return None };
            Some(*item)
        })
    }
}

/// Returns the first misfit of a JSON value as a sentence. The path in the sentence begins with
/// `name`, the name of the value.
pub(crate) fn in_json(place: PodList, value: &Value, name: &str) -> Option<String> {
    let misfit = of_kind(place.item()?, value)?.within(FieldStep::Field(name.to_owned()));
    let quotes = if misfit.wants_quotes() { "; put it between quotes" } else { "" };
    Some(format!("{}{quotes}", misfit.sentence()))
}

/// True if items of this list have a field of this name.
pub(crate) fn is_field(place: PodList, name: &str) -> bool {
    matches!(place.item(), Some(FieldKind::Struct(of)) if of.decoded(name).is_some())
}

/// Returns the fields of a JSON value, at any depth, that the Kubernetes API does not know.
pub(crate) fn unknown_fields(place: PodList, value: &Value) -> Vec<UnknownKey> {
    match place.item() {
        Some(FieldKind::Struct(of)) => unknown_keys(value, Shape::Message(of)),
        _ => Vec::new(),
    }
}

/// Renames the fields of a JSON value for this list to their names in the Kubernetes API.
pub(crate) fn spell(place: PodList, value: &mut Value) {
    if let Some(kind) = place.item() {
        go_types::spell(kind, value);
    }
}

/// Returns a partial pod as Istio decodes it. Fields get their names in the Kubernetes API. Unknown
/// top-level keys are dropped, such as one that only holds a YAML anchor.
pub(crate) fn decoded(mut pod: Value) -> Value {
    if let Some(members) = pod.as_object_mut() {
        members.retain(|key, _| OF_OBJECTS.contains(&key.as_str()) || is_directive(key));
        for (name, of) in PARTS {
            if let Some(part) = members.get_mut(name) {
                go_types::spell(FieldKind::Struct(of), part);
            }
        }
    }
    pod
}

/// Value that does not have the type of its field.
#[derive(Debug)]
pub(crate) struct Misfit {
    /// Path of the value, innermost step first.
    path: Vec<FieldStep>,
    found: &'static str,
    expected: &'static str,
}

#[derive(Debug)]
enum FieldStep {
    Field(String),
    /// Index of the item, and its name if it has one.
    Item(usize, Option<String>),
    Key(String),
}

impl Misfit {
    fn within(mut self, step: FieldStep) -> Self {
        self.path.push(step);
        self
    }

    /// Returns a sentence with the path, the type found and the type expected.
    fn sentence(&self) -> String {
        let path = self.path.iter().rev().enumerate();
        let path: String = path
            .map(|(place, step)| match step {
                FieldStep::Field(name) if place == 0 => name.clone(),
                FieldStep::Field(name) => format!(".{name}"),
                FieldStep::Item(place, None) => format!("[{place}]"),
                FieldStep::Item(place, Some(name)) => format!("[{place}] ({name})"),
                FieldStep::Key(key) => format!("[{key:?}]"),
            })
            .collect();
        let (found, expected) = (self.found, self.expected);
        let without_quotes = found == STRING && [WHOLE, SWITCH].contains(&expected);
        let hint = if without_quotes { "; leave the quotes out" } else { "" };
        format!("{path} is {found}, not {expected}{hint}")
    }

    fn wants_quotes(&self) -> bool {
        self.expected == STRING && (self.found == NUMBER || self.found == SWITCH)
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence())?;
        if self.wants_quotes() {
            f.write_str("; put it between quotes, as with `| quote`")?;
        }
        Ok(())
    }
}

fn of_kind(kind: FieldKind, value: &Value) -> Option<Misfit> {
    match (kind, value) {
        (_, Value::Null) | (FieldKind::Any, _) => None,
        (FieldKind::Pointer(kind), value) => of_kind(*kind, value),
        (FieldKind::Struct(of), Value::Object(_)) => of_struct(of, value),
        (FieldKind::List(kind), Value::Array(items)) => {
            items.iter().enumerate().find_map(|(place, item)| {
                let misfit = of_kind(*kind, item)?;
                let name = item.get("name").and_then(Value::as_str).map(str::to_owned);
                Some(misfit.within(FieldStep::Item(place, name)))
            })
        }
        (FieldKind::Map(kind), Value::Object(members)) => {
            members.iter().filter(|(key, _)| !is_directive(key)).find_map(|(key, value)| {
                Some(of_kind(*kind, value)?.within(FieldStep::Key(key.clone())))
            })
        }
        (kind, value) if takes(kind, value) => None,
        (kind, value) => {
            Some(Misfit { path: Vec::new(), found: named(value), expected: expected(kind) })
        }
    }
}

fn of_struct(of: &Type, value: &Value) -> Option<Misfit> {
    value.as_object().into_iter().flatten().find_map(|(name, value)| {
        let misfit = of_kind(of.decoded(name)?.kind, value)?;
        Some(misfit.within(FieldStep::Field(name.clone())))
    })
}

/// Parts of a pod that Istio decodes.
const PARTS: [(&str, &Type); 2] = [("metadata", OBJECT_META), ("spec", POD_SPEC)];

const OF_OBJECTS: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// True for keys that are directives to the merge.
fn is_directive(key: &str) -> bool {
    key.starts_with('$')
}

/// True if a field of this type accepts the scalar.
fn takes(kind: FieldKind, value: &Value) -> bool {
    match kind {
        FieldKind::Bool => value.is_boolean(),
        FieldKind::Enum(_) | FieldKind::String | FieldKind::Time => value.is_string(),
        FieldKind::Float => value.is_number(),
        FieldKind::Int(bits) => is_whole(value, bits),
        FieldKind::Unsigned => value.as_u64().is_some_and(|number| u32::try_from(number).is_ok()),
        FieldKind::IntOrString => value.is_string() || is_whole(value, 32),
        FieldKind::Quantity => quantity::parse(value).is_some_and(f64::is_finite),
        _ => false,
    }
}

fn is_whole(value: &Value, bits: u8) -> bool {
    value.as_i64().is_some_and(|number| bits > 32 || i32::try_from(number).is_ok())
}

fn named(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => SWITCH,
        Value::Number(number) if number.is_f64() => "a number with a fraction",
        Value::Number(_) => NUMBER,
        Value::String(_) => STRING,
        Value::Array(_) => LIST,
        Value::Object(_) => MAPPING,
    }
}

fn expected(kind: FieldKind) -> &'static str {
    match kind {
        FieldKind::Bool => SWITCH,
        FieldKind::Float => NUMBER,
        FieldKind::Int(32) | FieldKind::Unsigned => WHOLE,
        FieldKind::Int(_) => "a whole number of 64 bits",
        FieldKind::IntOrString => "a number or a string",
        FieldKind::List(_) => LIST,
        FieldKind::Map(_) | FieldKind::Struct(_) => MAPPING,
        FieldKind::Quantity => "a quantity such as 100m or 1Gi",
        _ => STRING,
    }
}

const LIST: &str = "a list";
const MAPPING: &str = "a mapping";
const NUMBER: &str = "a number";
const STRING: &str = "a string";
const SWITCH: &str = "true or false";
const WHOLE: &str = "a whole number of 32 bits";

#[cfg(test)]
mod tests {
    use super::*;

    fn problem_of(pod: &str) -> String {
        let pod = documents::yaml::parse(pod).unwrap();
        misfit(&pod).map_or_else(|| "fits".to_owned(), |misfit| misfit.to_string())
    }

    #[test]
    fn type_mismatch_is_named_with_its_path() {
        let problems: Vec<_> = [
            "spec: {containers: [{name: a, image: true}]}",
            "spec: {containers: [{name: a}, {name: b, ports: [{containerPort: '8080'}]}]}",
            "spec: {initContainers: [{env: [{name: A, value: 5}]}]}",
            "metadata: {annotations: {a/b: 1}}",
            "metadata: {labels: [a]}",
            "spec: {hostNetwork: 'true'}",
            "spec: {containers: {name: a}}",
            "spec: {containers: [{resources: {limits: {cpu: plenty}}}]}",
            "spec: {containers: [{livenessProbe: {httpGet: {port: 1.5}}}]}",
            "spec: {terminationGracePeriodSeconds: 1.5}",
            "spec: {containers: [{ports: [{containerPort: 3000000000}]}]}",
            "spec: {volumes: [{name: v, emptyDir: ''}]}",
            "spec: x",
            "spec: null",
            "kind: 1",
        ]
        .map(problem_of)
        .into();
        insta::assert_snapshot!(problems.join("\n"), @r#"
        spec.containers[0] (a).image is true or false, not a string; put it between quotes, as with `| quote`
        spec.containers[1] (b).ports[0].containerPort is a string, not a whole number of 32 bits; leave the quotes out
        spec.initContainers[0].env[0] (A).value is a number, not a string; put it between quotes, as with `| quote`
        metadata.annotations["a/b"] is a number, not a string; put it between quotes, as with `| quote`
        metadata.labels is a list, not a mapping
        spec.hostNetwork is a string, not true or false; leave the quotes out
        spec.containers is a mapping, not a list
        spec.containers[0].resources.limits["cpu"] is a string, not a quantity such as 100m or 1Gi
        spec.containers[0].livenessProbe.httpGet.port is a number with a fraction, not a number or a string
        spec.terminationGracePeriodSeconds is a number with a fraction, not a whole number of 64 bits
        spec.containers[0].ports[0].containerPort is a number, not a whole number of 32 bits
        spec.volumes[0] (v).emptyDir is a string, not a mapping
        spec is a string, not a mapping
        spec is null, not a mapping
        kind is a number, not a string; put it between quotes, as with `| quote`
        "#);
    }

    #[test]
    fn values_that_go_decodes_are_valid() {
        for pod in [
            "{}",
            "spec: {containers: null, hostNetwork: null}",
            "spec: {containers: [{name: a, ports: [{containerPort: 8080.0}], args: [], env: null}]}",
            "spec: {containers: [{resources: {limits: {cpu: 1, memory: 1Gi, x: 1e3}}}]}",
            "spec: {containers: [{livenessProbe: {httpGet: {port: http}, grpc: {port: 1}}}]}",
            "spec: {volumes: [{name: v, emptyDir: {sizeLimit: 1Mi}}]}",
            "spec: {$patch: replace, $setElementOrder/containers: [{name: a}], newField: 1}",
            "spec: {securityContext: {runAsUser: 10000000000}, containers: [{$patch: delete, name: a}]}",
            "metadata: {annotations: {a: '1', b: null}, creationTimestamp: null}",
        ] {
            assert_eq!(problem_of(pod), "fits", "{pod}");
        }
    }
}
