//! A rule from its `nf_tables` expressions: the way back from `encode`.
//!
//! Only what a plan can say is understood. Everything else is somebody else's rule, of which the
//! names of its expressions are told.

use std::net::IpAddr;
use std::str::FromStr;

use super::message::{attribute, attributes};
use super::nf_tables::{
    EXPRESSION_DATA, EXPRESSION_NAME, RULE_CHAIN, RULE_EXPRESSIONS, RULE_USER_DATA,
};
use crate::cidr::Cidr;
use crate::family::Family;
use crate::flag::FLAGS;
use crate::interface::InterfaceName;
use crate::mark::Mark;
use crate::observed::{Found, chain_named};
use crate::owner::UidRange;
use crate::plan::{
    AnyOf, ConnectionState, Field, Match, Origin, Protocol, Rule, Table, Verdict, Zone,
};
use crate::port::PortRange;
use crate::variable::Variable;

/// What a set of the kernel has, by its name; `None` when there is no such set.
pub(super) type Sets<'a> = &'a dyn Fn(&str) -> Option<Vec<Element>>;

/// An element of a set, or a range of elements: the first and the last, in the set's order.
pub(super) type Element = (Vec<u8>, Vec<u8>);

/// The rule that was listed with these attributes.
pub(super) fn rule(table: Table, listed: &[u8], sets: Sets) -> Found {
    let list = attribute(listed, RULE_EXPRESSIONS).unwrap_or_default();
    let user_data = attribute(listed, RULE_USER_DATA).unwrap_or_default();
    let decoded = || {
        let chain = chain_named(text(attribute(listed, RULE_CHAIN)?)?)?;
        let (matches, verdict) = Decoder::new(sets).rule(list)?;
        Some(Rule { table, chain, matches, verdict, origin: origin(comment(user_data)?)? })
    };
    decoded().map_or_else(|| Found::Foreign(summary(list, user_data)), Found::Ours)
}

/// Text without its final zero.
pub(super) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes.strip_suffix(&[0])?).ok()
}

/// What a register holds.
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
    /// Whether the bytes of a number were turned into network order.
    is_network_order: bool,
    family: Option<Family>,
    protocol: Option<Protocol>,
    /// The port of a delivery whose mark is still to come.
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
            "meta" => match (number(data, 1), number(data, 3)) {
                (Some(_), None) => self.load(Loaded::Meta(number(data, 2)?)),
                (None, Some(_)) => self.set_meta(number(data, 2)?)?,
                _ => return None,
            },
            "ct" => match (number(data, 1), number(data, 4)) {
                (Some(_), None) => self.load(Loaded::Connection(number(data, 2)?)),
                (None, Some(_)) => self.set_connection(number(data, 2)?)?,
                _ => return None,
            },
            "payload" => {
                self.load(Loaded::Payload { header: number(data, 2)?, offset: number(data, 3)? });
            }
            "bitwise" => self.mask = Some(attribute(attribute(data, 4)?, VALUE)?.to_vec()),
            "cmp" => {
                let value = attribute(attribute(data, 3)?, VALUE)?.to_vec();
                self.compare(number(data, 2)?, &[(value.clone(), value)])?;
            }
            "range" => {
                let end = |kind| Some(attribute(attribute(data, kind)?, VALUE)?.to_vec());
                self.compare(number(data, 2)?, &[(end(3)?, end(4)?)])?;
            }
            "lookup" => {
                let elements = (self.sets)(text(attribute(data, 1)?)?)?;
                self.compare(number(data, 5).unwrap_or(0), &elements)?;
            }
            "immediate" => self.immediate(attribute(data, 2)?)?,
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

    fn set_connection(&mut self, key: u32) -> Option<()> {
        match (&self.loaded, key) {
            (Loaded::Meta(META_MARK), CONNECTION_MARK) => self.decide(Verdict::SaveMark),
            (Loaded::Value(bytes), CONNECTION_ZONE) => {
                let number = u16::from_ne_bytes(bytes.as_slice().try_into().ok()?);
                let zones = [Zone::Upstream, Zone::Downstream];
                let zone = zones.into_iter().find(|zone| zone.number() == number)?;
                self.decide(Verdict::TrackIn(zone))
            }
            _ => None,
        }
    }

    fn immediate(&mut self, data: &[u8]) -> Option<()> {
        let Some(verdict) = attribute(data, VERDICT) else {
            self.load(Loaded::Value(attribute(data, VALUE)?.to_vec()));
            return Some(());
        };
        let code = i32::from_be_bytes(attribute(verdict, 1)?.try_into().ok()?);
        match (code, self.verdict) {
            // A delivery ends with it.
            (ACCEPT, Some(Verdict::DeliverTo(..))) => Some(()),
            (ACCEPT, None) => self.decide(Verdict::Accept),
            (DROP, None) => self.decide(Verdict::Drop),
            (RETURN, None) => self.decide(Verdict::Return),
            (JUMP, None) => {
                let chain = chain_named(text(attribute(verdict, 2)?)?)?;
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

    /// What is loaded is one of the elements, or with the other operator none of them.
    fn compare(&mut self, operator: u32, elements: &[Element]) -> Option<()> {
        let mut negated = match operator {
            EQUAL => false,
            NOT_EQUAL => true,
            _ => return None,
        };
        let field = match self.loaded {
            Loaded::Meta(META_FAMILY) => {
                let family = match *single(elements)? {
                    [2] => Family::V4,
                    [10] => Family::V6,
                    _ => return None,
                };
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
                // Groups that follow one another are listed as a range.
                let each = self.owners(elements)?.into_iter().flat_map(|(first, last)| {
                    (first..=last).take(MOST_GROUPS).map(|gid| parsed(gid.to_string()))
                });
                Field::OwnerGid(AnyOf::several(each.collect::<Option<Vec<_>>>()?)?)
            }
            Loaded::Meta(META_MARK) => Field::PacketMark(mark(single(elements)?)?),
            Loaded::Connection(CONNECTION_MARK) => Field::ConnectionMark(mark(single(elements)?)?),
            Loaded::Connection(CONNECTION_STATE) => {
                // The bits that are asked for are in the mask; that none is there is "not".
                negated = !negated;
                let bits = u32::from_ne_bytes(self.mask.as_deref()?.try_into().ok()?);
                Field::Connection(match bits {
                    STATE_INVALID => ConnectionState::Invalid,
                    STATE_BEGUN => ConnectionState::Begun,
                    _ => return None,
                })
            }
            Loaded::Payload { header: TRANSPORT_HEADER, offset } => {
                let ports = several(elements, ports)?;
                match offset {
                    0 => Field::SourcePort(self.protocol?, ports),
                    2 => Field::DestinationPort(self.protocol?, ports),
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
        // The kernel asks for the protocol before a port, and for the family before an address.
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

    /// The CIDR ranges of a masked address, or from one address to another.
    fn ranges(&self, (first, last): &Element) -> Option<Vec<Cidr>> {
        let width = usize::from(self.family?.address_bits()) / 8;
        if first.len() < width && first == last && self.mask.is_none() {
            // nft compares as many bytes as count, and no others.
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
            None => u32::from(Family::of(from).address_bits()),
        };
        Some(vec![parsed(format!("{from}/{length}"))?])
    }
}

fn several<T>(elements: &[Element], read: impl Fn(&Element) -> Option<T>) -> Option<AnyOf<T>> {
    AnyOf::several(elements.iter().map(read).collect::<Option<Vec<T>>>()?)
}

fn single(elements: &[Element]) -> Option<&[u8]> {
    match elements {
        [(first, last)] if first == last => Some(first),
        _ => None,
    }
}

fn interface(bytes: &[u8]) -> Option<InterfaceName> {
    let end = bytes.iter().position(|byte| *byte == 0);
    let name = std::str::from_utf8(&bytes[..end.unwrap_or(bytes.len())]).ok()?;
    // A prefix is compared without the zeros behind it.
    parsed(format!("{name}{}", if end.is_none() { "+" } else { "" }))
}

fn ports((first, last): &Element) -> Option<PortRange> {
    let port = |bytes: &[u8]| Some(u16::from_be_bytes(bytes.try_into().ok()?));
    parsed(format!("{}-{}", port(first)?, port(last)?))
}

fn mark(bytes: &[u8]) -> Option<Mark> {
    let number = u32::from_ne_bytes(bytes.try_into().ok()?);
    if number == Mark::OUTBOUND.get() { Some(Mark::OUTBOUND) } else { parsed(number.to_string()) }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match <[u8; 4]>::try_from(bytes) {
        Ok(v4) => Some(v4.into()),
        Err(_) => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    }
}

fn parsed<T: FromStr>(text: impl AsRef<str>) -> Option<T> {
    text.as_ref().parse().ok()
}

fn number(data: &[u8], kind: u16) -> Option<u32> {
    Some(u32::from_be_bytes(attribute(data, kind)?.try_into().ok()?))
}

/// The comment in a rule's user data, which is a series of types, lengths and values.
fn comment(mut data: &[u8]) -> Option<&str> {
    while let [kind, length, rest @ ..] = data {
        let (value, tail) = rest.split_at_checked(usize::from(*length))?;
        if *kind == COMMENT {
            return text(value);
        }
        data = tail;
    }
    None
}

/// The setting that a rule's comment names.
fn origin(comment: &str) -> Option<Origin> {
    match comment {
        "loopback" => Some(Origin::Loopback),
        "capture" => Some(Origin::Capture),
        _ => {
            let flag = || {
                let long = comment.strip_prefix("--")?;
                FLAGS.iter().find(|spec| spec.long == long).map(|spec| Origin::Flag(spec.flag))
            };
            let variable = || Variable::ALL.into_iter().find(|v| v.name() == comment);
            flag().or_else(|| variable().map(Origin::Variable))
        }
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

/// More groups than anybody lists: a longer range is somebody else's.
const MOST_GROUPS: usize = 1024;
// The attributes' numbers are those of `encode`, in the order in which they are written there.
const VALUE: u16 = 1;
const VERDICT: u16 = 2;
const RETURN: i32 = -5;
const JUMP: i32 = -3;
const DROP: i32 = 0;
const ACCEPT: i32 = 1;
const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;
const META_MARK: u32 = 3;
const META_IN_NAME: u32 = 6;
const META_OUT_NAME: u32 = 7;
const META_SOCKET_UID: u32 = 10;
const META_SOCKET_GID: u32 = 11;
const META_FAMILY: u32 = 15;
const META_PROTOCOL: u32 = 16;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const CONNECTION_STATE: u32 = 0;
const CONNECTION_MARK: u32 = 3;
const CONNECTION_ZONE: u32 = 17;
const STATE_INVALID: u32 = 1;
const STATE_BEGUN: u32 = 6;
/// `NFTNL_UDATA_RULE_COMMENT`.
const COMMENT: u8 = 0;
