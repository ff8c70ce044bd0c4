//! Decoder of `nf_tables` expressions: the reverse of `encode`.
//!
//! Understands rules that a plan can express. Any other rule is foreign and is described by the
//! names of its expressions.

use super::expression::{
    ACCEPT, BITWISE_MASK, CODE, CODE_CHAIN, COMPARE_OPERATOR, COMPARE_VALUE, CONNECTION_DIRECTION,
    CONNECTION_KEY, CONNECTION_MARK, CONNECTION_SOURCE, CONNECTION_STATE, CONNECTION_TARGET,
    CONNECTION_ZONE, DESTINATION_PORT, DROP, EQUAL, IMMEDIATE_VALUE, JUMP, META_FAMILY,
    META_IN_NAME, META_KEY, META_MARK, META_OUT_NAME, META_PROTOCOL, META_SOCKET_GID,
    META_SOCKET_UID, META_SOURCE, META_TARGET, NETWORK_HEADER, NOT_EQUAL, ORIGINAL, PAYLOAD_BASE,
    PAYLOAD_OFFSET, RANGE_FROM, RANGE_OPERATOR, RANGE_TO, RETURN, SOURCE_PORT, STATE_ESTABLISHED,
    STATE_INVALID, STATE_RELATED, TRANSPORT_HEADER, VERDICT,
};
use crate::netlink::attribute_value::{
    Element, address, comment, interface, mark, number, parsed, ports, several, single, text,
};
use crate::netlink::message::{attribute, attributes, family_from_number};
use crate::netlink::nf_tables::{
    EXPRESSION_DATA, EXPRESSION_NAME, LOOKUP_FLAGS, LOOKUP_SET, RULE_CHAIN, RULE_EXPRESSIONS,
    RULE_USER_DATA, VALUE,
};
use crate::plan::{
    AnyOf, ConnectionState, Field, Match, Origin, Rule, Table, Verdict, Zone, ZoneDirection,
};
use crate::types::cidr::Cidr;
use crate::types::family::Family;
use crate::types::owner::UidRange;
use crate::types::protocol::Protocol;
use crate::verify::observed::{ObservedRule, chain_named};

/// Looks up a set's elements by name; `None` if there is no such set.
pub(super) type Sets<'a> = &'a dyn Fn(&str) -> Option<Vec<Element>>;

/// Decodes a listed rule.
pub(super) fn rule(table: Table, listed: &[u8], sets: Sets) -> ObservedRule {
    let list = attribute(listed, RULE_EXPRESSIONS).unwrap_or_default();
    let user_data = attribute(listed, RULE_USER_DATA).unwrap_or_default();
    let decoded = || {
        let chain = chain_named(text(attribute(listed, RULE_CHAIN)?)?)?;
        let (matches, verdict) = Decoder::new(sets).rule(list)?;
        Some(Rule { table, chain, matches, verdict, origin: Origin::named(comment(user_data)?)? })
    };
    decoded().map_or_else(|| ObservedRule::Foreign(summary(list, user_data)), ObservedRule::Ours)
}

/// Content of a register.
enum Loaded {
    Nothing,
    Meta(u32),
    Connection(u32),
    Payload { header: u32, offset: u32 },
    Value(Vec<u8>),
}

struct Decoder<'a> {
    sets: Sets<'a>,
    loaded: Loaded,
    mask: Option<Vec<u8>>,
    /// True if the number was converted to network byte order.
    is_network_order: bool,
    family: Option<Family>,
    protocol: Option<Protocol>,
    /// Port of a TPROXY verdict whose mark has not been read yet.
    delivery: Option<u16>,
    matches: Vec<Match>,
    verdict: Option<Verdict>,
}

impl<'a> Decoder<'a> {
    fn new(sets: Sets<'a>) -> Self {
        Self {
            sets,
            loaded: Loaded::Nothing,
            mask: None,
            is_network_order: false,
            family: None,
            protocol: None,
            delivery: None,
            matches: Vec::new(),
            verdict: None,
        }
    }

    fn rule(mut self, list: &[u8]) -> Option<(Vec<Match>, Verdict)> {
        for element in attributes(list) {
            let name = text(attribute(element.value, EXPRESSION_NAME)?)?;
            let data = attribute(element.value, EXPRESSION_DATA).unwrap_or_default();
            self.expression(name, data)?;
        }
        Some((self.matches, self.verdict?))
    }

    fn expression(&mut self, name: &str, data: &[u8]) -> Option<()> {
        match name {
            "counter" => {}
            "byteorder" => self.is_network_order = true,
            "meta" => match (number(data, META_TARGET), number(data, META_SOURCE)) {
                (Some(_), None) => self.load(Loaded::Meta(number(data, META_KEY)?)),
                (None, Some(_)) => self.set_meta(number(data, META_KEY)?)?,
                _ => return None,
            },
            "ct" => match (number(data, CONNECTION_TARGET), number(data, CONNECTION_SOURCE)) {
                (Some(_), None) => self.load(Loaded::Connection(number(data, CONNECTION_KEY)?)),
                (None, Some(_)) => self.set_connection(data)?,
                _ => return None,
            },
            "payload" => {
                let header = number(data, PAYLOAD_BASE)?;
                self.load(Loaded::Payload { header, offset: number(data, PAYLOAD_OFFSET)? });
            }
            "bitwise" => {
                let mask = attribute(attribute(data, BITWISE_MASK)?, VALUE)?;
                self.mask = Some(mask.to_vec());
            }
            "cmp" => {
                let value = attribute(attribute(data, COMPARE_VALUE)?, VALUE)?.to_vec();
                self.compare(number(data, COMPARE_OPERATOR)?, &[(value.clone(), value)])?;
            }
            "range" => {
                let end = |kind| Some(attribute(attribute(data, kind)?, VALUE)?.to_vec());
                let ends = (end(RANGE_FROM)?, end(RANGE_TO)?);
                self.compare(number(data, RANGE_OPERATOR)?, &[ends])?;
            }
            "lookup" => {
                let elements = (self.sets)(text(attribute(data, LOOKUP_SET)?)?)?;
                self.compare(number(data, LOOKUP_FLAGS).unwrap_or(0), &elements)?;
            }
            "immediate" => self.immediate(attribute(data, IMMEDIATE_VALUE)?)?,
            "redir" => {
                let port = self.value_as_port()?.to_string();
                self.decide(Verdict::RedirectTo(port.parse().ok()?))?;
            }
            "tproxy" => self.delivery = Some(self.value_as_port()?),
            _ => return None,
        }
        Some(())
    }

    fn load(&mut self, loaded: Loaded) {
        self.loaded = loaded;
        self.mask = None;
        self.is_network_order = false;
    }

    fn set_meta(&mut self, key: u32) -> Option<()> {
        match (&self.loaded, key) {
            (Loaded::Value(bytes), META_MARK) => {
                let mark = mark(bytes)?;
                match self.delivery.take() {
                    Some(port) => {
                        let port = port.to_string().parse().ok()?;
                        self.decide(Verdict::DeliverTo(port, mark))
                    }
                    None => self.decide(Verdict::SetPacketMark(mark)),
                }
            }
            (Loaded::Connection(CONNECTION_MARK), META_MARK) => self.decide(Verdict::RestoreMark),
            _ => None,
        }
    }

    fn set_connection(&mut self, data: &[u8]) -> Option<()> {
        match (&self.loaded, number(data, CONNECTION_KEY)?) {
            (Loaded::Meta(META_MARK), CONNECTION_MARK) => self.decide(Verdict::SaveMark),
            (Loaded::Value(bytes), CONNECTION_ZONE) => {
                let number = u16::from_ne_bytes(bytes.as_slice().try_into().ok()?);
                let zones = [Zone::Upstream, Zone::Downstream];
                let zone = zones.into_iter().find(|zone| zone.number() == number)?;
                let direction = match attribute(data, CONNECTION_DIRECTION) {
                    None => ZoneDirection::Both,
                    Some([ORIGINAL]) => ZoneDirection::Original,
                    Some(_) => return None,
                };
                self.decide(Verdict::TrackIn(zone, direction))
            }
            _ => None,
        }
    }

    fn immediate(&mut self, data: &[u8]) -> Option<()> {
        let Some(verdict) = attribute(data, VERDICT) else {
            self.load(Loaded::Value(attribute(data, VALUE)?.to_vec()));
            return Some(());
        };
        let code = i32::from_be_bytes(attribute(verdict, CODE)?.try_into().ok()?);
        match (code, self.verdict) {
            // This verdict ends a TPROXY delivery.
            (ACCEPT, Some(Verdict::DeliverTo(..))) => Some(()),
            (ACCEPT, None) => self.decide(Verdict::Accept),
            (DROP, None) => self.decide(Verdict::Drop),
            (RETURN, None) => self.decide(Verdict::Return),
            (JUMP, None) => {
                let chain = chain_named(text(attribute(verdict, CODE_CHAIN)?)?)?;
                self.decide(Verdict::Jump(chain))
            }
            _ => None,
        }
    }

    fn decide(&mut self, verdict: Verdict) -> Option<()> {
        self.verdict.replace(verdict).is_none().then_some(())
    }

    fn value_as_port(&self) -> Option<u16> {
        match &self.loaded {
            Loaded::Value(bytes) => Some(u16::from_be_bytes(bytes.as_slice().try_into().ok()?)),
            _ => None,
        }
    }

    /// Adds a condition: the register is one of the elements, or with the negated operator none.
    fn compare(&mut self, operator: u32, elements: &[Element]) -> Option<()> {
        let mut negated = match operator {
            EQUAL => false,
            NOT_EQUAL => true,
            _ => return None,
        };
        let field = match self.loaded {
            Loaded::Meta(META_FAMILY) => {
                let [number] = *single(elements)? else { return None };
                let family = family_from_number(number)?;
                self.family = (!negated).then_some(family).or(self.family);
                Field::Family(family)
            }
            Loaded::Meta(META_PROTOCOL) => {
                let protocol = match *single(elements)? {
                    [6] => Protocol::Tcp,
                    [17] => Protocol::Udp,
                    _ => return None,
                };
                self.protocol = (!negated).then_some(protocol);
                Field::Protocol(protocol)
            }
            Loaded::Meta(META_IN_NAME) => Field::InInterface(interface(single(elements)?)?),
            Loaded::Meta(META_OUT_NAME) => Field::OutInterface(interface(single(elements)?)?),
            Loaded::Meta(META_SOCKET_UID) => {
                let range = |(first, last)| {
                    UidRange::new(parsed(format!("{first}"))?, parsed(format!("{last}"))?)
                };
                Field::OwnerUid(AnyOf::several(
                    self.owners(elements)?.into_iter().map(range).collect::<Option<Vec<_>>>()?,
                )?)
            }
            Loaded::Meta(META_SOCKET_GID) => {
                // The kernel lists consecutive groups as a range.
                let each = self.owners(elements)?.into_iter().flat_map(|(first, last)| {
                    (first..=last).take(MOST_GROUPS).map(|gid| parsed(gid.to_string()))
                });
                Field::OwnerGid(AnyOf::several(each.collect::<Option<Vec<_>>>()?)?)
            }
            Loaded::Meta(META_MARK) => Field::PacketMark(mark(single(elements)?)?),
            Loaded::Connection(CONNECTION_MARK) => Field::ConnectionMark(mark(single(elements)?)?),
            Loaded::Connection(CONNECTION_STATE) => {
                // The mask has the tested bits; comparing with zero negates.
                negated = !negated;
                let bits = u32::from_ne_bytes(self.mask.as_deref()?.try_into().ok()?);
                Field::Connection(match bits {
                    STATE_INVALID => ConnectionState::Invalid,
                    STATE_BEGUN => ConnectionState::Established,
                    _ => return None,
                })
            }
            Loaded::Payload { header: TRANSPORT_HEADER, offset } => {
                let ports = several(elements, ports)?;
                match offset {
                    SOURCE_PORT => Field::SourcePort(self.protocol?, ports),
                    DESTINATION_PORT => Field::DestinationPort(self.protocol?, ports),
                    _ => return None,
                }
            }
            Loaded::Payload { header: NETWORK_HEADER, offset } => {
                let ranges = AnyOf::several(
                    elements
                        .iter()
                        .map(|element| self.ranges(element))
                        .collect::<Option<Vec<_>>>()?
                        .into_iter()
                        .flatten(),
                )?;
                match (self.family?, offset) {
                    (Family::V4, 12) | (Family::V6, 8) => Field::Source(ranges),
                    (Family::V4, 16) | (Family::V6, 24) => Field::Destination(ranges),
                    _ => return None,
                }
            }
            _ => return None,
        };
        // The kernel tests the protocol before a port, and the family before an address.
        let is_address = matches!(field, Field::Source(_) | Field::Destination(_));
        let is_port = matches!(field, Field::SourcePort(..) | Field::DestinationPort(..));
        if self.matches.last().is_some_and(|last| match last.field {
            Field::Family(_) => is_address && !last.negated,
            Field::Protocol(_) => is_port && !last.negated,
            _ => false,
        }) {
            self.matches.pop();
        }
        self.matches.push(Match { field, negated });
        Some(())
    }

    /// Numbers of users or groups, from the first to the last.
    fn owners(&self, elements: &[Element]) -> Option<Vec<(u32, u32)>> {
        let number = |bytes: &[u8]| {
            let bytes = bytes.try_into().ok()?;
            let is_network_order = self.is_network_order;
            Some(if is_network_order {
                u32::from_be_bytes(bytes)
            } else {
                u32::from_ne_bytes(bytes)
            })
        };
        elements.iter().map(|(first, last)| Some((number(first)?, number(last)?))).collect()
    }

    /// Returns the CIDR ranges of a masked address or an address interval.
    fn ranges(&self, (first, last): &Element) -> Option<Vec<Cidr>> {
        let width = usize::from(self.family?.address_bits()) / 8;
        if first.len() < width && first == last && self.mask.is_none() {
            // nft compares only as many bytes as the prefix needs.
            let mut bytes = first.clone();
            bytes.resize(width, 0);
            return Some(vec![parsed(format!("{}/{}", address(&bytes)?, first.len() * 8))?]);
        }
        let (from, to) = (address(first)?, address(last)?);
        if from != to {
            return Some(Cidr::covering(from, to));
        }
        let length = match &self.mask {
            Some(mask) => mask.iter().map(|byte| byte.count_ones()).sum(),
            None => u32::from(Family::from_address(from).address_bits()),
        };
        Some(vec![parsed(format!("{from}/{length}"))?])
    }
}

fn summary(list: &[u8], user_data: &[u8]) -> String {
    let names = attributes(list).filter_map(|element| {
        attribute(element.value, EXPRESSION_NAME).and_then(text).map(str::to_owned)
    });
    let words: Vec<String> = names.collect();
    match comment(user_data) {
        Some(comment) => format!("a rule of: {} # {comment}", words.join(" ")),
        None => format!("a rule of: {}", words.join(" ")),
    }
}

/// Limit on groups in a range; a longer range is foreign.
const MOST_GROUPS: usize = 1024;
const STATE_BEGUN: u32 = STATE_ESTABLISHED | STATE_RELATED;
