//! Lists of addresses, ports and interfaces in annotation values, and their items.

use std::net::IpAddr;

use super::annotation_json::InputError;

/// Accepts `*`, and else what `otherwise` accepts.
pub(super) fn all_or(
    value: &str,
    otherwise: impl Fn(&str) -> Option<InputError>,
) -> Option<InputError> {
    if value == "*" { None } else { otherwise(value) }
}

/// Returns the first invalid item of a list. An empty list is valid.
pub(super) fn list(value: &str, good: impl Fn(&str) -> bool) -> Option<InputError> {
    if value.is_empty() {
        return None;
    }
    let wrong = value.split(',').find(|item| !good(item))?;
    Some(if wrong == value { InputError::Whole } else { InputError::Item(wrong.to_owned()) })
}

/// True if the item is a prefix that Go's `netip.ParsePrefix` accepts: host bits may be set, but a
/// zone or a leading zero is invalid.
pub(super) fn cidr(item: &str) -> bool {
    let Some((address, length)) = item.split_once('/') else {
        return false;
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return false;
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let leading_zero = length.len() > 1 && length.starts_with('0');
    !leading_zero && decimal(length).is_some_and(|length| length <= most)
}

/// Returns the list without empty items and without white space around items.
pub(super) fn dense(list: &str) -> String {
    let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.collect::<Vec<_>>().join(",")
}

/// True if the item is a port, 0 included.
pub(super) fn port(item: &str) -> bool {
    decimal(item).is_some_and(|number| u16::try_from(number).is_ok())
}

/// True if the item is a port, or two ports in ascending order joined by `-` or `:`.
pub(super) fn port_range(item: &str) -> bool {
    let Some((first, last)) = item.split_once([':', '-']) else {
        return port(item);
    };
    let ordered = decimal(first).zip(decimal(last)).is_some_and(|(first, last)| first <= last);
    ordered && port(last)
}

/// Parses decimal digits without a sign.
pub(super) fn decimal(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// True if the text is an interface name. Linux allows 15 bytes. Istio allows letters, digits, `_`,
/// `.` and `-`, with a letter first.
pub(super) fn interface(name: &str) -> bool {
    name.len() <= 15
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}
