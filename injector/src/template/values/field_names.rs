//! The names that Kubernetes' and Istio's Go types have for fields of JSON which no table has.

/// The Go name of a JSON field: `hostNetwork` is `HostNetwork`.
pub(crate) fn of_field(json: &str) -> String {
    let mut characters = json.chars();
    let first = characters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}

/// The JSON name of a Go field.
pub(crate) fn to_field(go: &str) -> String {
    let mut characters = go.chars();
    let first = characters.next().map(|c| c.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}
