//! Type marks that distinguish Go structs from mappings.

use gtmpl_ng::Value as TemplateValue;

use go_types::{Type, by_id};

/// Key of a struct for the mark of its type; its other keys are Go field names.
pub(crate) const TYPED: &str = "\u{0}typed";

/// Returns the mark of a type. [`printed_in`] finds it in rendered text, even if a template ranges
/// over a struct like a mapping and prints its members one by one.
pub(crate) fn mark(of: &Type) -> TemplateValue {
    TemplateValue::String(format!("{TYPED}:{};", of.id))
}

/// Returns the type of a template value that is a struct.
pub(crate) fn tagged_type(value: &TemplateValue) -> Option<&'static Type> {
    let TemplateValue::Object(members) = value else { return None };
    let Some(TemplateValue::String(mark)) = members.get(TYPED) else { return None };
    by_id(mark.strip_prefix(TYPED)?.strip_prefix(':')?.strip_suffix(';')?.parse().ok()?)
}

/// Returns the problem with a text that contains a struct in the engine's own notation; `None` if
/// it contains none.
pub(crate) fn problem(text: &str) -> Option<String> {
    let of = || printed_in(text).map_or("struct", |of| of.name);
    text.contains(TYPED).then(|| {
        format!("it prints a whole {}: name one of its fields; range does not accept it", of())
    })
}

/// Returns the type of the first struct in a text in the engine's own notation, which is never
/// valid in a pod.
pub(crate) fn printed_in(text: &str) -> Option<&'static Type> {
    let mut id = text.split_once(TYPED)?.1.strip_prefix(':')?;
    // The mark's key may be printed before the mark.
    id = id.strip_prefix(TYPED).and_then(|id| id.strip_prefix(':')).unwrap_or(id);
    by_id(id[..id.find(|c: char| !c.is_ascii_digit())?].parse().ok()?)
}
