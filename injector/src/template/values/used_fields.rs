//! What of Go's types the templates of a configuration ask for by name.

use std::collections::HashSet;

use go_types::{self, Field, Type};

use super::methods::{self, Call};
use crate::template::escape;

/// The fields and getters that templates name.
///
/// A struct of Go has all of its fields, most of them empty. Only those that a template names can
/// be asked for, so only those are made where a pod does not have them.
pub(crate) struct Asked {
    /// By the number of the struct; empty where all is asked for that is there.
    of_structs: Vec<Vec<Name>>,
    /// The names that YAML takes for something else than a string.
    odd: Vec<String>,
    /// Whether the parts of an `IntOrString` are, which else stands for what it holds.
    pub(crate) parts_of_ports: bool,
    /// Whether the resources of a list of them are, not right behind the field that holds it.
    pub(crate) resources: bool,
    /// Whether the parts of a duration are, which else stands for its text.
    pub(crate) parts_of_durations: bool,
}

/// One name that a struct answers to.
pub(crate) enum Name {
    Field(&'static Field),
    /// A getter under its name, which also answers where there is no message; or several, one of
    /// what the other one gives, with an underscore between them.
    Getter(String, Vec<&'static Field>),
    /// What methods of a field give, under their joined name.
    Call(String, Call),
    /// A struct that is embedded, as a whole.
    Embedded(&'static str, &'static Type),
}

impl Asked {
    /// Those that follow a dot anywhere in the texts, as [`chains`](crate::template::rewrite::method_chains) writes them.
    pub(crate) fn by(texts: &[&str]) -> Self {
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

    /// All that is there, and nothing that is not.
    pub(crate) fn whatever_is_there() -> Self {
        Self {
            of_structs: Vec::new(),
            odd: Vec::new(),
            parts_of_ports: false,
            resources: false,
            parts_of_durations: false,
        }
    }

    /// Whether a template or a function takes this field of a struct by its name. The others can
    /// be seen only in the whole struct, as JSON.
    pub(crate) fn names(&self, of: &Type, field: &Field) -> bool {
        let named = |name: &Name| matches!(name, Name::Field(named) if named.go == field.go);
        // Getters of messages lead over fields that are not named.
        of.is_message()
            || self.of_structs.is_empty()
            || NAMED_BY_FUNCTIONS.contains(&field.go)
            || self.of(of).iter().any(named)
    }

    /// Whether a template names a key after a dot that YAML takes for something else than a string.
    pub(crate) fn names_key(&self, key: &str) -> bool {
        self.odd.iter().any(|name| name == key)
    }

    /// Those of one struct.
    pub(crate) fn of(&self, of: &Type) -> &[Name] {
        self.of_structs.get(usize::from(of.id)).map(Vec::as_slice).unwrap_or_default()
    }
}

fn asked_of(of: &Type, names: &HashSet<&str>) -> Vec<Name> {
    let mut asked = Vec::new();
    for field in of.fields() {
        let got = of.is_object_meta() && names.contains(format!("Get{}", field.go).as_str());
        if (got || names.contains(field.go)) && !field.is_one_of() {
            asked.push(Name::Field(field));
        }
    }
    let calls = names.iter().filter_map(|name| Some(((*name).to_owned(), Call::of(of, name)?)));
    asked.extend(calls.map(|(name, call)| Name::Call(name, call)));
    if of.has_getters() {
        let getters = names.iter().filter(|name| name.starts_with("Get") || name.contains("_Get"));
        let mut getters: Vec<_> =
            getters.filter_map(|name| Some((*name, got(of, name)?))).collect();
        getters.sort_by_key(|(name, _)| *name);
        asked.extend(getters.into_iter().map(|(name, way)| Name::Getter(name.to_owned(), way)));
    }
    let embedded = of.embedded().filter(|(name, _)| names.contains(name));
    asked.extend(embedded.map(|(name, of)| Name::Embedded(name, of)));
    asked
}

/// The fields that a chain of getters leads over, from this message on.
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

/// What Istio's functions take from the structs that a template gives them.
const NAMED_BY_FUNCTIONS: [&str; 7] =
    ["Annotations", "ContainerPort", "Image", "Labels", "Name", "Ports", "Protocol"];

/// The names that follow a dot.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('.').skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        &rest[..end.unwrap_or(rest.len())]
    })
}
