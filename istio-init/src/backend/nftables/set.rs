//! Anonymous sets: several values in one match, bound to the rule.
//!
//! Sets have no user data: each nft version writes it differently, and all versions can list a set
//! without it.

use crate::netlink::message::{Attribute, Header, Messages, attribute, attributes};
use crate::netlink::nf_tables::{
    ELEMENT_FLAGS, ELEMENT_KEY, ELEMENTS, ELEMENTS_SET, ELEMENTS_SET_ID, ELEMENTS_TABLE, INET,
    LIST_ELEMENT, NEW_ELEMENTS, NEW_SET, SET_FLAGS, SET_ID, SET_KEY_LENGTH, SET_KEY_TYPE, SET_NAME,
    SET_TABLE, VALUE, message_type,
};
use crate::plan::{AnyOf, Field, Rule, Span, Table};
use crate::types::family::Family;

/// Elements of a set and their type, as the kernel and nft represent them.
pub(super) struct Set {
    /// nft's number of the values' type, by which it writes them.
    key_type: u32,
    /// The number of bytes of a value.
    width: usize,
    /// True if the set has intervals, which the kernel orders by their bytes.
    has_intervals: bool,
    /// Lowest and highest value of each interval, in order, not adjacent.
    spans: Vec<(u128, u128)>,
}

/// Returns the sets of a rule, in the order of its matches.
pub(super) fn sets(rule: &Rule) -> Vec<Set> {
    rule.matches.iter().filter_map(|condition| Set::from_field(&condition.field)).collect()
}

/// True if the listed set is anonymous, as all own sets are.
pub(super) fn is_anonymous(listed: &[u8]) -> bool {
    let flags = attribute(listed, SET_FLAGS).and_then(|flags| flags.try_into().ok());
    flags.is_some_and(|flags| u32::from_be_bytes(flags) & ANONYMOUS != 0)
}

impl Set {
    /// Returns the set for a field; `None` if a comparison is enough.
    pub(super) fn from_field(field: &Field) -> Option<Self> {
        let set = match field {
            Field::SourcePort(_, ports) | Field::DestinationPort(_, ports) => {
                Self::new(TYPE_PORT, 2, ports)
            }
            Field::Source(ranges) | Field::Destination(ranges) => match ranges.first().family() {
                Family::V4 => Self::new(TYPE_IPV4, 4, ranges),
                Family::V6 => Self::new(TYPE_IPV6, 16, ranges),
            },
            Field::OwnerUid(uids) => Self::from_owners(TYPE_UID, uids),
            Field::OwnerGid(gids) => Self::from_owners(TYPE_GID, gids),
            _ => return None,
        };
        (set.spans.len() > 1).then_some(set)
    }

    fn new<T: Span>(key_type: u32, width: usize, values: &AnyOf<T>) -> Self {
        let spans = values.merged();
        let has_intervals = spans.iter().any(|(lowest, highest)| lowest != highest);
        Self { key_type, width, has_intervals, spans }
    }

    /// Owners are numbers in host byte order. nft, without user data, assumes network byte order,
    /// and intervals need it, so the values are converted.
    fn from_owners<T: Span>(key_type: u32, values: &AnyOf<T>) -> Self {
        Self { key_type, width: 4, has_intervals: true, spans: values.intervals() }
    }

    /// Appends the messages that add the set under this number of the transaction. A large set
    /// takes several element messages.
    pub(super) fn encode(&self, table: Table, number: u32, sequence: u32, messages: &mut Messages) {
        let header = |kind| Header {
            kind: message_type(kind),
            flags: crate::netlink::message::CREATE,
            sequence,
        };
        let interval = if self.has_intervals { INTERVAL } else { 0 };
        messages.push(header(NEW_SET), &INET, |set| {
            set.text(SET_TABLE, table.name());
            set.text(SET_NAME, NAME);
            set.number(SET_FLAGS, ANONYMOUS | CONSTANT | interval);
            set.number(SET_KEY_TYPE, self.key_type);
            set.number(SET_KEY_LENGTH, u32::try_from(self.width).unwrap_or(0));
            set.number(SET_ID, number);
        });
        for elements in self.elements().chunks(MOST_ELEMENTS) {
            messages.push(header(NEW_ELEMENTS), &INET, |message| {
                message.text(ELEMENTS_TABLE, table.name());
                message.text(ELEMENTS_SET, NAME);
                message.number(ELEMENTS_SET_ID, number);
                message.nested(ELEMENTS, |list| {
                    for Element { key, is_end } in elements {
                        list.nested(LIST_ELEMENT, |element| {
                            element.nested(ELEMENT_KEY, |data| data.bytes(VALUE, key));
                            if *is_end {
                                element.number(ELEMENT_FLAGS, INTERVAL_END);
                            }
                        });
                    }
                });
            });
        }
    }

    /// True if the messages list exactly the elements of this set.
    pub(super) fn is_listed(&self, messages: &[Vec<u8>]) -> bool {
        let lists = messages.iter().filter_map(|message| attribute(message, ELEMENTS));
        let mut listed: Vec<Element> =
            lists.flat_map(attributes).filter_map(Element::listed).collect();
        let mut ours = self.elements();
        listed.sort_unstable();
        ours.sort_unstable();
        listed == ours
    }

    /// Returns the elements. An interval has two: its first value, and the value after its last, if
    /// there is one.
    fn elements(&self) -> Vec<Element> {
        let mut elements = Vec::new();
        for (lowest, highest) in &self.spans {
            elements.push(Element { key: self.bytes(*lowest), is_end: false });
            let after = highest.checked_add(1).map(|after| self.bytes(after));
            if let Some(key) = after.filter(|key| self.has_intervals && key.iter().any(|b| *b != 0))
            {
                elements.push(Element { key, is_end: true });
            }
        }
        elements
    }

    fn bytes(&self, value: u128) -> Vec<u8> {
        value.to_be_bytes()[16 - self.width..].to_vec()
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Element {
    key: Vec<u8>,
    is_end: bool,
}

impl Element {
    fn listed(attribute: Attribute) -> Option<Self> {
        let key = self::attribute(self::attribute(attribute.value, ELEMENT_KEY)?, VALUE)?;
        let flags = self::attribute(attribute.value, ELEMENT_FLAGS).unwrap_or_default();
        Some(Self { key: key.to_vec(), is_end: flags.last().is_some_and(|byte| byte & 1 != 0) })
    }
}

/// Name pattern; the kernel inserts a number.
pub(super) const NAME: &str = "__set%d";

// NFT_SET_….
const ANONYMOUS: u32 = 1;
const CONSTANT: u32 = 2;
const INTERVAL: u32 = 4;
/// `NFT_SET_ELEM_INTERVAL_END`.
const INTERVAL_END: u32 = 1;

// nft's types.
const TYPE_IPV4: u32 = 7;
const TYPE_IPV6: u32 = 8;
const TYPE_PORT: u32 = 13;
const TYPE_UID: u32 = 24;
const TYPE_GID: u32 = 25;

/// Number of the longest elements that fit into an attribute: 65,535 bytes.
const MOST_ELEMENTS: usize = 1500;
