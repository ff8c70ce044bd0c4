//! Values of `nf_tables` attributes and registers.

use std::net::IpAddr;
use std::str::FromStr;

use super::message::attribute;
use crate::plan::AnyOf;
use crate::types::interface::InterfaceName;
use crate::types::mark::Mark;
use crate::types::port::PortRange;

/// An element of a set, or a range of elements: the first and the last, in the set's order.
pub(crate) type Element = (Vec<u8>, Vec<u8>);

/// Parses zero-terminated text.
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes.strip_suffix(&[0])?).ok()
}

/// Parses each element.
pub(crate) fn several<T>(
    elements: &[Element],
    read: impl Fn(&Element) -> Option<T>,
) -> Option<AnyOf<T>> {
    AnyOf::several(elements.iter().map(read).collect::<Option<Vec<T>>>()?)
}

/// Returns the element if it is the only one and not a range.
pub(crate) fn single(elements: &[Element]) -> Option<&[u8]> {
    match elements {
        [(first, last)] if first == last => Some(first),
        _ => None,
    }
}

/// Parses an interface name or prefix.
pub(crate) fn interface(bytes: &[u8]) -> Option<InterfaceName> {
    let end = bytes.iter().position(|byte| *byte == 0);
    let name = std::str::from_utf8(&bytes[..end.unwrap_or(bytes.len())]).ok()?;
    // A prefix has no padding.
    parsed(format!("{name}{}", if end.is_none() { "+" } else { "" }))
}

/// Parses a range of ports.
pub(crate) fn ports((first, last): &Element) -> Option<PortRange> {
    let port = |bytes: &[u8]| Some(u16::from_be_bytes(bytes.try_into().ok()?));
    parsed(format!("{}-{}", port(first)?, port(last)?))
}

/// Parses a mark.
pub(crate) fn mark(bytes: &[u8]) -> Option<Mark> {
    Mark::from_number(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// Parses an address of either family.
pub(crate) fn address(bytes: &[u8]) -> Option<IpAddr> {
    match <[u8; 4]>::try_from(bytes) {
        Ok(v4) => Some(v4.into()),
        Err(_) => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    }
}

/// Parses text by the type's own parser.
pub(crate) fn parsed<T: FromStr>(text: impl AsRef<str>) -> Option<T> {
    text.as_ref().parse().ok()
}

/// Returns the number in an attribute.
pub(crate) fn number(data: &[u8], kind: u16) -> Option<u32> {
    Some(u32::from_be_bytes(attribute(data, kind)?.try_into().ok()?))
}

/// Returns the comment in a rule's user data, which is a sequence of type, length and value.
pub(crate) fn comment(mut data: &[u8]) -> Option<&str> {
    while let [kind, length, rest @ ..] = data {
        let (value, tail) = rest.split_at_checked(usize::from(*length))?;
        if *kind == COMMENT {
            return text(value);
        }
        data = tail;
    }
    None
}

/// `NFTNL_UDATA_RULE_COMMENT`.
const COMMENT: u8 = 0;
