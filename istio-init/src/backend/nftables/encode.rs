//! Encoder of rules as `nf_tables` expressions: each loads a part of the packet into a register,
//! compares the register, or acts (kernel `include/uapi/linux/netfilter/nf_tables.h`).
//!
//! Default values of the kernel are written explicitly, so that a listed rule equals the sent one.

use super::expression::{
    ACCEPT, ANY_FAMILY, BITWISE_LENGTH, BITWISE_MASK, BITWISE_OPERATION, BITWISE_SOURCE,
    BITWISE_TARGET, BITWISE_XOR, CODE, CODE_CHAIN, COMPARE_OPERATOR, COMPARE_REGISTER,
    COMPARE_VALUE, CONNECTION_DIRECTION, CONNECTION_KEY, CONNECTION_MARK, CONNECTION_SOURCE,
    CONNECTION_STATE, CONNECTION_TARGET, CONNECTION_ZONE, DESTINATION_PORT, DROP, EQUAL,
    IMMEDIATE_TARGET, IMMEDIATE_VALUE, INTERFACE_NAME_SIZE, JUMP, MASK_AND_XOR, META_FAMILY,
    META_IN_NAME, META_KEY, META_MARK, META_OUT_NAME, META_PROTOCOL, META_SOCKET_GID,
    META_SOCKET_UID, META_SOURCE, META_TARGET, NETWORK_HEADER, NOT_EQUAL, ORDER_LENGTH,
    ORDER_OPERATION, ORDER_SIZE, ORDER_SOURCE, ORDER_TARGET, ORIGINAL, PAYLOAD_BASE,
    PAYLOAD_LENGTH, PAYLOAD_OFFSET, PAYLOAD_TARGET, RANGE_FROM, RANGE_OPERATOR, RANGE_REGISTER,
    RANGE_TO, REDIR_FLAGS, REDIR_HIGHEST_PORT, REDIR_LOWEST_PORT, REDIR_TO_PORT, REGISTER, RETURN,
    SOURCE_PORT, STATE_ESTABLISHED, STATE_INVALID, STATE_RELATED, TO_NETWORK, TPROXY_FAMILY,
    TPROXY_PORT, TRANSPORT_HEADER, VERDICT, VERDICT_REGISTER,
};
use super::set;
use crate::netlink::message::{Attributes, family_number};
use crate::netlink::nf_tables::{
    EXPRESSION_DATA, EXPRESSION_NAME, LIST_ELEMENT, LOOKUP_FLAGS, LOOKUP_REGISTER, LOOKUP_SET,
    LOOKUP_SET_ID, VALUE,
};
use crate::plan::{AnyOf, ConnectionState, Field, Match, Rule, Span, Verdict, Zone, ZoneDirection};
use crate::types::cidr::Cidr;
use crate::types::family::Family;
use crate::types::interface::InterfaceName;
use crate::types::mark::Mark;
use crate::types::protocol::Protocol;

/// Appends the rule's expressions: matches, counter, verdict. Its sets have consecutive numbers in
/// the transaction.
pub(super) fn expressions(rule: &Rule, first_set: u32, list: &mut Attributes) {
    let mut expressions = Expressions { list, known_family: None, next_set: first_set };
    for condition in &rule.matches {
        expressions.condition(condition);
    }
    expressions.add("counter", |_| {});
    expressions.verdict(rule.verdict);
}

struct Expressions<'a, 'b> {
    list: &'a mut Attributes<'b>,
    /// Family implied by the matches so far. In an inet table, the network header is known only
    /// after a test of the family.
    known_family: Option<Family>,
    next_set: u32,
}

impl Expressions<'_, '_> {
    fn condition(&mut self, condition: &Match) {
        let operator = if condition.negated { NOT_EQUAL } else { EQUAL };
        match &condition.field {
            Field::Family(family) => self.family(operator, *family),
            Field::Protocol(protocol) => self.protocol(operator, *protocol),
            Field::SourcePort(protocol, ports) => {
                self.protocol(EQUAL, *protocol);
                self.payload(TRANSPORT_HEADER, SOURCE_PORT, 2);
                self.one_of(condition, &ports.merged(), port_bytes);
            }
            Field::DestinationPort(protocol, ports) => {
                self.protocol(EQUAL, *protocol);
                self.payload(TRANSPORT_HEADER, DESTINATION_PORT, 2);
                self.one_of(condition, &ports.merged(), port_bytes);
            }
            Field::Source(ranges) => self.address(condition, ranges, |side| side.source),
            Field::Destination(ranges) => self.address(condition, ranges, |side| side.destination),
            Field::InInterface(name) => self.interface(META_IN_NAME, operator, name),
            Field::OutInterface(name) => self.interface(META_OUT_NAME, operator, name),
            Field::OwnerUid(uids) => {
                self.meta(META_SOCKET_UID);
                self.owner(condition, uids);
            }
            Field::OwnerGid(gids) => {
                self.meta(META_SOCKET_GID);
                self.owner(condition, gids);
            }
            Field::PacketMark(mark) => {
                self.meta(META_MARK);
                self.compare(operator, &mark.get().to_ne_bytes());
            }
            Field::ConnectionMark(mark) => {
                self.connection(CONNECTION_MARK);
                self.compare(operator, &mark.get().to_ne_bytes());
            }
            Field::Connection(state) => self.connection_state(*state, condition.negated),
        }
    }

    /// Compares the state, which is a bit set: one of these bits must be set.
    fn connection_state(&mut self, state: ConnectionState, negated: bool) {
        let bits = match state {
            ConnectionState::Established => STATE_ESTABLISHED | STATE_RELATED,
            ConnectionState::Invalid => STATE_INVALID,
        };
        self.connection(CONNECTION_STATE);
        self.mask(&bits.to_ne_bytes());
        self.compare(if negated { EQUAL } else { NOT_EQUAL }, &[0; 4]);
    }

    fn family(&mut self, operator: u32, family: Family) {
        if operator == EQUAL {
            self.known_family = Some(family);
        }
        self.meta(META_FAMILY);
        self.compare(operator, &[family_number(family)]);
    }

    fn protocol(&mut self, operator: u32, protocol: Protocol) {
        let number = match protocol {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
        };
        self.meta(META_PROTOCOL);
        self.compare(operator, &[number]);
    }

    /// Owner numbers are in host byte order; ranges and sets in network byte order.
    fn owner<T: Span>(&mut self, condition: &Match, values: &AnyOf<T>) {
        let operator = if condition.negated { NOT_EQUAL } else { EQUAL };
        let spans = values.intervals();
        if let [(lowest, highest)] = *spans
            && lowest == highest
        {
            return self.compare(operator, &native_bytes(lowest));
        }
        self.add("byteorder", |order| {
            order.number(ORDER_SOURCE, REGISTER);
            order.number(ORDER_TARGET, REGISTER);
            order.number(ORDER_OPERATION, TO_NETWORK);
            order.number(ORDER_LENGTH, 4);
            order.number(ORDER_SIZE, 4);
        });
        self.one_of(condition, &spans, |value| value.to_be_bytes()[12..].to_vec());
    }

    /// Compares the register with a value or a range, or looks it up in a set.
    fn one_of(
        &mut self,
        condition: &Match,
        spans: &[(u128, u128)],
        bytes: impl Fn(u128) -> Vec<u8>,
    ) {
        let operator = if condition.negated { NOT_EQUAL } else { EQUAL };
        match *spans {
            [(lowest, highest)] if lowest == highest => self.compare(operator, &bytes(lowest)),
            [(lowest, highest)] => self.add("range", |range| {
                range.number(RANGE_REGISTER, REGISTER);
                range.number(RANGE_OPERATOR, operator);
                range.nested(RANGE_FROM, |data| data.bytes(VALUE, &bytes(lowest)));
                range.nested(RANGE_TO, |data| data.bytes(VALUE, &bytes(highest)));
            }),
            _ => {
                let number = self.next_set;
                self.next_set += 1;
                self.add("lookup", |lookup| {
                    lookup.text(LOOKUP_SET, set::NAME);
                    lookup.number(LOOKUP_REGISTER, REGISTER);
                    lookup.number(LOOKUP_SET_ID, number);
                    lookup.number(LOOKUP_FLAGS, u32::from(condition.negated));
                });
            }
        }
    }

    fn address(
        &mut self,
        condition: &Match,
        ranges: &AnyOf<Cidr>,
        side: impl Fn(AddressOffsets) -> u32,
    ) {
        let family = ranges.first().family();
        if self.known_family != Some(family) {
            self.family(EQUAL, family);
        }
        let offsets = match family {
            Family::V4 => AddressOffsets { source: 12, destination: 16 },
            Family::V6 => AddressOffsets { source: 8, destination: 24 },
        };
        let width = usize::from(family.address_bits()) / 8;
        self.payload(NETWORK_HEADER, side(offsets), u32::from(family.address_bits()) / 8);
        let operator = if condition.negated { NOT_EQUAL } else { EQUAL };
        let bytes = |bits: u128| bits.to_be_bytes()[16 - width..].to_vec();
        match *ranges.merged() {
            // Like nft, writes a range as a prefix if it is one.
            [(lowest, highest)] if lowest != highest && is_prefix(lowest, highest) => {
                self.mask(&bytes(!(lowest ^ highest)));
                self.compare(operator, &bytes(lowest));
            }
            ref spans => self.one_of(condition, spans, bytes),
        }
    }

    /// Compares an interface name: a whole name with its padding, a prefix without.
    fn interface(&mut self, key: u32, operator: u32, name: &InterfaceName) {
        let mut bytes = name.name().as_bytes().to_vec();
        if !name.is_prefix() {
            bytes.resize(INTERFACE_NAME_SIZE, 0);
        }
        self.meta(key);
        self.compare(operator, &bytes);
    }

    fn verdict(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Return => self.final_verdict(RETURN),
            Verdict::Accept => self.final_verdict(ACCEPT),
            Verdict::Drop => self.final_verdict(DROP),
            Verdict::Jump(chain) => self.immediate(VERDICT_REGISTER, |data| {
                data.nested(VERDICT, |verdict| {
                    verdict.bytes(CODE, &JUMP.to_be_bytes());
                    verdict.text(CODE_CHAIN, chain.name());
                });
            }),
            Verdict::RedirectTo(port) => {
                self.immediate(REGISTER, |data| {
                    data.bytes(VALUE, &port.get().to_be_bytes());
                });
                self.add("redir", |redir| {
                    redir.number(REDIR_LOWEST_PORT, REGISTER);
                    redir.number(REDIR_HIGHEST_PORT, REGISTER);
                    redir.number(REDIR_FLAGS, REDIR_TO_PORT);
                });
            }
            Verdict::DeliverTo(port, mark) => {
                self.immediate(REGISTER, |data| {
                    data.bytes(VALUE, &port.get().to_be_bytes());
                });
                let family =
                    self.known_family.map_or(ANY_FAMILY, |family| family_number(family).into());
                self.add("tproxy", |tproxy| {
                    tproxy.number(TPROXY_FAMILY, family);
                    tproxy.number(TPROXY_PORT, REGISTER);
                });
                self.set_packet_mark(mark);
                self.final_verdict(ACCEPT);
            }
            Verdict::SetPacketMark(mark) => self.set_packet_mark(mark),
            Verdict::SaveMark => {
                self.meta(META_MARK);
                self.add("ct", |ct| {
                    ct.number(CONNECTION_KEY, CONNECTION_MARK);
                    ct.number(CONNECTION_SOURCE, REGISTER);
                });
            }
            Verdict::RestoreMark => {
                self.connection(CONNECTION_MARK);
                self.set_meta(META_MARK);
            }
            Verdict::TrackIn(zone, direction) => self.track_in(zone, direction),
        }
    }

    fn final_verdict(&mut self, code: i32) {
        self.immediate(VERDICT_REGISTER, |data| {
            data.nested(VERDICT, |verdict| verdict.bytes(CODE, &code.to_be_bytes()));
        });
    }

    fn set_packet_mark(&mut self, mark: Mark) {
        self.immediate(REGISTER, |data| data.bytes(VALUE, &mark.get().to_ne_bytes()));
        self.set_meta(META_MARK);
    }

    fn track_in(&mut self, zone: Zone, direction: ZoneDirection) {
        self.immediate(REGISTER, |data| data.bytes(VALUE, &zone.number().to_ne_bytes()));
        self.add("ct", |ct| {
            ct.number(CONNECTION_KEY, CONNECTION_ZONE);
            if direction == ZoneDirection::Original {
                ct.bytes(CONNECTION_DIRECTION, &[ORIGINAL]);
            }
            ct.number(CONNECTION_SOURCE, REGISTER);
        });
    }

    /// Clears the other bits of the register.
    fn mask(&mut self, mask: &[u8]) {
        let length = u32::try_from(mask.len()).unwrap_or(u32::MAX);
        self.add("bitwise", |bitwise| {
            bitwise.number(BITWISE_SOURCE, REGISTER);
            bitwise.number(BITWISE_TARGET, REGISTER);
            bitwise.number(BITWISE_LENGTH, length);
            bitwise.number(BITWISE_OPERATION, MASK_AND_XOR);
            bitwise.nested(BITWISE_MASK, |data| data.bytes(VALUE, mask));
            bitwise.nested(BITWISE_XOR, |data| data.bytes(VALUE, &vec![0; mask.len()]));
        });
    }

    fn set_meta(&mut self, key: u32) {
        self.add("meta", |meta| {
            meta.number(META_KEY, key);
            meta.number(META_SOURCE, REGISTER);
        });
    }

    fn connection(&mut self, key: u32) {
        self.add("ct", |ct| {
            ct.number(CONNECTION_KEY, key);
            ct.number(CONNECTION_TARGET, REGISTER);
        });
    }

    fn meta(&mut self, key: u32) {
        self.add("meta", |meta| {
            meta.number(META_KEY, key);
            meta.number(META_TARGET, REGISTER);
        });
    }

    fn payload(&mut self, header: u32, offset: u32, length: u32) {
        self.add("payload", |payload| {
            payload.number(PAYLOAD_TARGET, REGISTER);
            payload.number(PAYLOAD_BASE, header);
            payload.number(PAYLOAD_OFFSET, offset);
            payload.number(PAYLOAD_LENGTH, length);
        });
    }

    fn compare(&mut self, operator: u32, value: &[u8]) {
        self.add("cmp", |cmp| {
            cmp.number(COMPARE_REGISTER, REGISTER);
            cmp.number(COMPARE_OPERATOR, operator);
            cmp.nested(COMPARE_VALUE, |data| data.bytes(VALUE, value));
        });
    }

    fn immediate(&mut self, register: u32, fill: impl FnOnce(&mut Attributes)) {
        self.add("immediate", |immediate| {
            immediate.number(IMMEDIATE_TARGET, register);
            immediate.nested(IMMEDIATE_VALUE, fill);
        });
    }

    fn add(&mut self, name: &str, fill: impl FnOnce(&mut Attributes)) {
        self.list.nested(LIST_ELEMENT, |element| {
            element.text(EXPRESSION_NAME, name);
            element.nested(EXPRESSION_DATA, fill);
        });
    }
}

/// True if the numbers are exactly those with a common prefix.
fn is_prefix(lowest: u128, highest: u128) -> bool {
    let differing = lowest ^ highest;
    differing & differing.wrapping_add(1) == 0 && lowest & differing == 0
}

fn port_bytes(port: u128) -> Vec<u8> {
    port.to_be_bytes()[14..].to_vec()
}

fn native_bytes(number: u128) -> [u8; 4] {
    let [.., a, b, c, d] = number.to_be_bytes();
    u32::from_be_bytes([a, b, c, d]).to_ne_bytes()
}

/// Position of the addresses in a network header.
#[derive(Clone, Copy)]
struct AddressOffsets {
    source: u32,
    destination: u32,
}
