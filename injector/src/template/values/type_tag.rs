//! Data that are structs in Go, and how they are told from mappings.

use gtmpl_ng::Value as Datum;

use go_types::{Type, by_id};

/// Under this key a struct, whose keys are the names of Go's fields, keeps the number of its type.
pub(crate) const TYPED: &str = "\u{0}typed";

/// What a value of a type has under [`TYPED`]: a text that [`printed_in`] finds, also where a template
/// takes a struct for a mapping and prints its members one by one.
pub(crate) fn mark(of: &Type) -> Datum {
    Datum::String(format!("{TYPED}:{};", of.id))
}

/// The struct that a datum is a value of.
pub(crate) fn of(datum: &Datum) -> Option<&'static Type> {
    let Datum::Object(members) = datum else { return None };
    let Some(Datum::String(mark)) = members.get(TYPED) else { return None };
    by_id(mark.strip_prefix(TYPED)?.strip_prefix(':')?.strip_suffix(';')?.parse().ok()?)
}

/// What is wrong with a text that holds a struct in the engine's own notation, if it holds one.
pub(crate) fn problem(text: &str) -> Option<String> {
    let of = || printed_in(text).map_or("struct", |of| of.name);
    text.contains(TYPED)
        .then(|| format!("it prints a whole {}: name one of its fields; range takes none", of()))
}

/// The first struct that a text holds in the engine's own notation, which nobody wants in a pod.
pub(crate) fn printed_in(text: &str) -> Option<&'static Type> {
    let mut id = text.split_once(TYPED)?.1.strip_prefix(':')?;
    // Its key stands in front of the mark.
    id = id.strip_prefix(TYPED).and_then(|id| id.strip_prefix(':')).unwrap_or(id);
    by_id(id[..id.find(|c: char| !c.is_ascii_digit())?].parse().ok()?)
}
