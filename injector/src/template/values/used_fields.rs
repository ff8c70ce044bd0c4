//! Fields and methods of Go types that a configuration's templates name.

use std::collections::HashSet;

use go_types::{self, Field, Type};

use super::methods::{self, Call};
use crate::template::escape;

/// Fields and getters that templates name.
///
/// A Go struct has all of its fields, most of them with zero values. Templates can only read the
/// fields that they name, so only these are created where a pod lacks them.
pub(crate) struct UsedFields {
    /// Names by the id of the struct. Empty to represent all present fields and no absent ones.
    of_structs: Vec<Vec<Name>>,
    /// Names that YAML parses as something other than a string.
    odd: Vec<String>,
    /// True if templates read parts of an `IntOrString`, which otherwise is represented by its
    /// value.
    pub(crate) parts_of_ports: bool,
    /// True if templates read resources of a `ResourceList` other than right after the field that
    /// holds it.
    pub(crate) resources: bool,
    /// True if templates read parts of a duration, which otherwise is represented by its text.
    pub(crate) parts_of_durations: bool,
}

/// One name that a struct resolves.
pub(crate) enum Name {
    Field(&'static Field),
    /// Getter, which also works on a nil message, with its name. A chain of getters, each called on
    /// the previous result, has one name with underscores: `GetA_GetB`.
    Getter(String, Vec<&'static Field>),
    /// Result of methods called on a field, under their joined name.
    Call(String, Call),
    /// An embedded struct as a whole.
    Embedded(&'static str, &'static Type),
}

impl UsedFields {
    /// Collects the names after a dot in the texts, which have been rewritten by
    /// [`method_chains`](crate::template::rewrite::method_chains).
    pub(crate) fn from_templates(texts: &[&str]) -> Self {
        let names: HashSet<&str> = texts.iter().flat_map(|text| names(text)).collect();
        let any = |of: &[&str]| of.iter().any(|name| names.contains(name));
        Self {
            of_structs: go_types::all().map(|of| asked_of(of, &names)).collect(),
            odd: names
                .iter()
                .filter(|name| !name.is_empty() && !escape::is_string(name))
                .map(|name| (*name).to_owned())
                .collect(),
            parts_of_ports: any(&["IntVal", "StrVal", "IntValue"])
                || texts.iter().any(|text| text.contains(".Port.String")),
            resources: any(&methods::RESOURCES.map(|(name, _)| name)),
            parts_of_durations: any(&["Seconds", "Nanos", "AsDuration"])
                || names
                    .iter()
                    .any(|name| name.ends_with("GetSeconds") || name.ends_with("GetNanos")),
        }
    }

    /// Returns the set that converts all present fields and adds no absent ones.
    pub(crate) fn whatever_is_there() -> Self {
        Self {
            of_structs: Vec::new(),
            odd: Vec::new(),
            parts_of_ports: false,
            resources: false,
            parts_of_durations: false,
        }
    }

    /// True if a template or a function reads this field of a struct by name. Other fields are
    /// visible only in the JSON of the whole struct.
    pub(crate) fn names(&self, of: &Type, field: &Field) -> bool {
        let named = |name: &Name| matches!(name, Name::Field(named) if named.go == field.go);
        // Getters of messages pass through fields that no template names.
        of.is_message()
            || self.of_structs.is_empty()
            || NAMED_BY_FUNCTIONS.contains(&field.go)
            || self.names_for(of).iter().any(named)
    }

    /// True if a template names a key after a dot that YAML parses as something other than a
    /// string.
    pub(crate) fn names_key(&self, key: &str) -> bool {
        self.odd.iter().any(|name| name == key)
    }

    /// Returns the names for one struct.
    pub(crate) fn names_for(&self, of: &Type) -> &[Name] {
        self.of_structs.get(usize::from(of.id)).map(Vec::as_slice).unwrap_or_default()
    }
}

fn asked_of(of: &Type, names: &HashSet<&str>) -> Vec<Name> {
    let mut used_fields = Vec::new();
    for field in of.fields() {
        let got = of.is_object_meta() && names.contains(format!("Get{}", field.go).as_str());
        if (got || names.contains(field.go)) && !field.is_one_of() {
            used_fields.push(Name::Field(field));
        }
    }
    let calls = names.iter().filter_map(|name| Some(((*name).to_owned(), Call::parse(of, name)?)));
    used_fields.extend(calls.map(|(name, call)| Name::Call(name, call)));
    if of.has_getters() {
        let getters = names.iter().filter(|name| name.starts_with("Get") || name.contains("_Get"));
        let mut getters: Vec<_> =
            getters.filter_map(|name| Some((*name, got(of, name)?))).collect();
        getters.sort_by_key(|(name, _)| *name);
        used_fields
            .extend(getters.into_iter().map(|(name, way)| Name::Getter(name.to_owned(), way)));
    }
    let embedded = of.embedded().filter(|(name, _)| names.contains(name));
    used_fields.extend(embedded.map(|(name, of)| Name::Embedded(name, of)));
    used_fields
}

/// Returns the fields that a chain of getters traverses, starting at this message.
fn got(of: &Type, chain: &str) -> Option<Vec<&'static Field>> {
    let mut way: Vec<&'static Field> = Vec::new();
    for (place, name) in chain.split("_Get").enumerate() {
        let name = if place == 0 { name.strip_prefix("Get").unwrap_or(name) } else { name };
        let within = match way.last() {
            None => Some(of),
            Some(before) => before.kind.message(),
        };
        way.push(within?.fields().find(|field| field.go == name)?);
    }
    Some(way)
}

/// Fields that Istio's template functions read from their arguments.
const NAMED_BY_FUNCTIONS: [&str; 7] =
    ["Annotations", "ContainerPort", "Image", "Labels", "Name", "Ports", "Protocol"];

/// Returns the names after a dot.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('.').skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        &rest[..end.unwrap_or(rest.len())]
    })
}
