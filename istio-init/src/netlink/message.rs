//! Netlink messages as bytes (RFC 3549 §2.3; kernel `include/uapi/linux/netlink.h`).

use rustix::io::Errno;

use crate::types::family::Family;

/// Buffer of messages.
#[derive(Default)]
pub(crate) struct Messages {
    bytes: Vec<u8>,
}

/// Header of a message.
#[derive(Clone, Copy)]
pub(crate) struct Header {
    /// The message's type.
    pub kind: u16,
    /// `NLM_F_…` beside [`REQUEST`], which is always set.
    pub flags: u16,
    /// The number that an answer refers to.
    pub sequence: u32,
}

/// A message that was received.
pub(crate) struct Received<'a> {
    pub kind: u16,
    pub flags: u16,
    pub sequence: u32,
    pub payload: &'a [u8],
}

impl Messages {
    /// Appends a message: its fixed part, and the attributes that `fill` adds.
    pub(crate) fn push(
        &mut self,
        header: Header,
        fixed: &[u8],
        fill: impl FnOnce(&mut Attributes),
    ) {
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        self.bytes.extend(header.kind.to_ne_bytes());
        self.bytes.extend((header.flags | REQUEST).to_ne_bytes());
        self.bytes.extend(header.sequence.to_ne_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend(fixed);
        fill(&mut Attributes(&mut self.bytes));
        let length = u32::try_from(self.bytes.len() - start).unwrap_or(u32::MAX);
        self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
    }

    /// Returns all messages, ready to be sent.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Appends attributes to a message.
pub(crate) struct Attributes<'a>(&'a mut Vec<u8>);

impl Attributes<'_> {
    /// Appends an attribute of these bytes.
    pub(crate) fn bytes(&mut self, kind: u16, value: &[u8]) {
        self.with_length(kind, |bytes| bytes.extend(value));
    }

    /// Appends an attribute of text, which ends in a zero.
    pub(crate) fn text(&mut self, kind: u16, value: &str) {
        self.with_length(kind, |bytes| {
            bytes.extend(value.as_bytes());
            bytes.push(0);
        });
    }

    /// Appends an attribute of a number in network order, as all of `nf_tables`' are.
    pub(crate) fn number(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_be_bytes());
    }

    /// Appends an attribute of attributes.
    pub(crate) fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Attributes)) {
        self.with_length(kind | NESTED, |bytes| fill(&mut Attributes(bytes)));
    }

    /// Appends an attribute of a fixed part and attributes.
    pub(crate) fn nested_after(
        &mut self,
        kind: u16,
        fixed: &[u8],
        fill: impl FnOnce(&mut Attributes),
    ) {
        self.with_length(kind | NESTED, |bytes| {
            bytes.extend(fixed);
            fill(&mut Attributes(bytes));
        });
    }

    fn with_length(&mut self, kind: u16, fill: impl FnOnce(&mut Vec<u8>)) {
        let start = self.0.len();
        self.0.extend([0; 2]);
        self.0.extend(kind.to_ne_bytes());
        fill(self.0);
        let length = u16::try_from(self.0.len() - start).unwrap_or(u16::MAX);
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(ALIGNMENT), 0);
    }
}

/// Iterates over received messages. Stops at invalid bytes.
pub(crate) fn received(mut bytes: &[u8]) -> impl Iterator<Item = Received<'_>> {
    std::iter::from_fn(move || {
        let length = usize::try_from(native_u32(bytes, 0)?).ok()?;
        let message = bytes.get(..length)?;
        bytes = bytes.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
        Some(Received {
            kind: native_u16(message, 4)?,
            flags: native_u16(message, 6)?,
            sequence: native_u32(message, 8)?,
            payload: message.get(HEADER_LENGTH..)?,
        })
    })
}

/// A received attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attribute<'a> {
    pub kind: u16,
    /// True if the nested flag is set. The kernel does not set it on all nested attributes.
    pub is_nested: bool,
    pub value: &'a [u8],
}

/// Returns the attributes in a part of a message.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = Attribute<'_>> + Clone {
    std::iter::from_fn(move || {
        let length = usize::from(native_u16(bytes, 0)?);
        let kind = native_u16(bytes, 2)?;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
        Some(Attribute { kind: kind & !NESTED, is_nested: kind & NESTED != 0, value })
    })
}

/// Returns the value of the first attribute of a kind.
pub(crate) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|attribute| attribute.kind == kind).map(|attribute| attribute.value)
}

/// Parses the payload of an error message: `Ok` for an acknowledgement.
pub(crate) fn outcome(error: &[u8]) -> Result<(), Errno> {
    let bytes = error.get(..4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    match bytes.map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(code @ LARGEST_ERROR..0) => Err(Errno::from_raw_os_error(-code)),
        _ => Err(Errno::BADMSG),
    }
}

fn native_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn native_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Returns the number of a family: `AF_…`, which equals `NFPROTO_…`.
pub(crate) fn family_number(family: Family) -> u8 {
    match family {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}

/// Parses the number of a family.
pub(crate) fn family_from_number(number: u8) -> Option<Family> {
    [Family::V4, Family::V6].into_iter().find(|family| family_number(*family) == number)
}

/// `NLMSG_ERROR`: error or acknowledgement.
pub(crate) const ERROR: u16 = 2;
/// `NLMSG_DONE`: the end of a list.
pub(crate) const DONE: u16 = 3;
/// `NLM_F_ACK`: acknowledge success.
pub(crate) const ACK: u16 = 0x4;
/// `NLM_F_DUMP`: list all.
pub(crate) const DUMP: u16 = 0x300;
/// `NLM_F_DUMP_INTR`: the list changed during the listing.
pub(crate) const INTERRUPTED: u16 = 0x10;
/// `NLM_F_EXCL`: fail if it exists.
pub(crate) const EXCLUSIVE: u16 = 0x200;
/// `NLM_F_CREATE`: create if it does not exist.
pub(crate) const CREATE: u16 = 0x400;
/// `NLM_F_APPEND`: append.
pub(crate) const APPEND: u16 = 0x800;

/// `-MAX_ERRNO` (kernel `include/linux/err.h`).
const LARGEST_ERROR: i32 = -4095;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 0x1;
/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;
const HEADER_LENGTH: usize = 16;
const ALIGNMENT: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_messages_can_be_parsed() {
        let mut messages = Messages::default();
        for sequence in 0..2 {
            let header = Header { kind: 7, flags: ACK, sequence };
            messages.push(header, &[9; 4], |attributes| {
                attributes.text(1, "ab");
                attributes.nested(2, |inner| inner.number(3, 258));
            });
        }
        let all: Vec<Received> = received(messages.as_bytes()).collect();
        assert_eq!(all.len(), 2);
        assert_eq!((all[1].kind, all[1].sequence), (7, 1));
        let payload = &all[1].payload[4..];
        assert_eq!(attribute(payload, 1), Some(&b"ab\0"[..]));
        let nested: Vec<_> = attributes(payload).filter(|a| a.is_nested).collect();
        assert_eq!(nested.len(), 1);
        assert_eq!(attribute(nested[0].value, 3), Some(&[0, 0, 1, 2][..]));
    }

    #[test]
    fn truncated_messages_end_the_iteration() {
        let mut messages = Messages::default();
        messages.push(Header { kind: 7, flags: 0, sequence: 1 }, &[1; 4], |_| {});
        for length in 0..messages.as_bytes().len() {
            assert_eq!(received(&messages.as_bytes()[..length]).count(), 0);
        }
        assert_eq!(received(&[0; 64]).count(), 0, "a length of nothing must not loop");
        assert_eq!(attributes(&[0; 64]).count(), 0);
        assert_eq!(outcome(&[]), Err(Errno::BADMSG));
    }

    #[test]
    fn invalid_error_code_is_a_bad_message() {
        assert_eq!(outcome(&(-1_i32).to_ne_bytes()), Err(Errno::PERM));
        for code in [1, -4096, i32::MIN, i32::MAX] {
            assert_eq!(outcome(&code.to_ne_bytes()), Err(Errno::BADMSG), "{code}");
        }
    }
}
