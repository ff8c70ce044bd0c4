//! Lists.

/// Splits a list as Istio does: at commas, without empty elements.
pub(super) fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(|element| !element.is_empty())
}
