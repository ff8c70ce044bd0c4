//! Conversion between JSON and Go names of fields that are missing from the type tables.

/// Returns the Go name of a JSON field: `HostNetwork` for `hostNetwork`.
pub(crate) fn of_field(json: &str) -> String {
    let mut characters = json.chars();
    let first = characters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}

/// Returns the JSON name of a Go field.
pub(crate) fn to_field(go: &str) -> String {
    let mut characters = go.chars();
    let first = characters.next().map(|c| c.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}
