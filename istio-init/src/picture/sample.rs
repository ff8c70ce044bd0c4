//! Packets that stand for others.

use std::mem::discriminant;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crate::explain::{Owner, Packet, holds};
use crate::plan::{AnyOf, Field, Match, Plan, Rule, Span};
use crate::types::direction::Direction;
use crate::types::family::Family;
use crate::types::owner::{Gid, Uid};
use crate::types::protocol::Protocol;

/// Returns a TCP packet of the application, or to it, with values that no rule names if possible.
pub(super) fn ordinary(plan: &Plan, direction: Direction, family: Family) -> Packet {
    let conditions = || plan.rules.iter().flat_map(|rule| &rule.matches);
    // A negated match names the groups that are captured, or in rules of iptables, that of the proxy,
    // which another rule returns.
    let mut negated = conditions().filter(|condition| condition.negated).filter_map(group);
    let captured_group = negated.find(|gid| {
        conditions().all(|condition| condition.negated || group(condition) != Some(*gid))
    });
    let packet = |number: u16| {
        let address = |host: u16| match family {
            Family::V4 => IpAddr::from([203, 0, host.to_be_bytes()[1], 7]),
            Family::V6 => IpAddr::from([0x2001, 0xdb8, host, 0, 0, 0, 0, 7]),
        };
        let id = 1000 + u128::from(number) * 997;
        let gid = captured_group.or(parsed(id)).unwrap_or(Gid::ROOT);
        let owner = Owner { uid: parsed(id).unwrap_or(Uid::ROOT), gid };
        Packet {
            direction,
            protocol: Protocol::Tcp,
            source: SocketAddr::new(address(1), 40_000),
            destination: SocketAddr::new(address(113 + number), 30_001 + number * 331),
            interface: ["eth", &number.to_string()].concat(),
            owner: (direction == Direction::Out).then_some(owner),
            mark: 0,
        }
    };
    let names = |packet: &Packet| {
        let named = |condition: &&Match| !condition.negated && holds(packet, condition);
        conditions().filter(named).count()
    };
    (0..40).map(packet).min_by_key(names).unwrap_or_else(|| packet(0))
}

/// Returns the first group of a match by group.
fn group(condition: &Match) -> Option<Gid> {
    match &condition.field {
        Field::OwnerGid(gids) => Some(*gids.first()),
        _ => None,
    }
}

/// Returns packets like `ordinary` that match a rule, each with the places of its values in the lists
/// of the rule's conditions. If other rules decide a part of the rule's packets, some of these are of
/// the rest.
pub(super) fn matching(ordinary: &Packet, plan: &Plan, rule: &Rule) -> Vec<(Packet, Vec<usize>)> {
    let mut packets = vec![(ordinary.clone(), Vec::new())];
    for condition in &rule.matches {
        let points = points(plan, rule, condition);
        let with_point = |(packet, places): (Packet, Vec<usize>)| {
            points.iter().filter_map(move |(place, point)| {
                let mut packet = packet.clone();
                set(&mut packet, condition, *point)?;
                Some((packet, [&*places, &[*place]].concat()))
            })
        };
        packets = packets.into_iter().flat_map(with_point).collect();
    }
    for (packet, _) in &mut packets {
        if packet.direction == Direction::Out && packet.destination.ip().is_loopback() {
            "lo".clone_into(&mut packet.interface);
        }
    }
    packets
}

/// Returns numbers that a condition's values cover, with the places of these values: the ends of each,
/// and the number behind each value of another rule.
fn points(plan: &Plan, rule: &Rule, condition: &Match) -> Vec<(usize, u128)> {
    let own = spans(&condition.field);
    if own.is_empty() {
        return vec![(0, 0)];
    }
    let kind = discriminant(&condition.field);
    let others = plan.rules.iter().filter(|other| !std::ptr::eq(*other, rule));
    let fields = others.flat_map(|other| &other.matches).map(|other| &other.field);
    let others: Vec<_> =
        fields.filter(|field| discriminant(*field) == kind).flat_map(spans).collect();
    let mut points = Vec::new();
    for (place, (lowest, highest)) in own.into_iter().enumerate() {
        let behind = others.iter().filter_map(|(_, last)| last.checked_add(1));
        let inside = behind.filter(|point| (lowest..=highest).contains(point));
        let ends = [Some(lowest), Some(highest).filter(|it| *it != lowest)].into_iter().flatten();
        points.extend(ends.chain(inside).map(|number| (place, number)));
    }
    points
}

/// Returns the lowest and highest number of each value of a field; none for a field without numbers.
fn spans(field: &Field) -> Vec<(u128, u128)> {
    match field {
        Field::DestinationPort(_, ports) | Field::SourcePort(_, ports) => ends(ports),
        Field::Source(ranges) | Field::Destination(ranges) => ends(ranges),
        Field::OwnerUid(users) => ends(users),
        Field::OwnerGid(groups) => ends(groups),
        _ => Vec::new(),
    }
}

fn ends(values: &AnyOf<impl Span>) -> Vec<(u128, u128)> {
    values.values().iter().map(|value| (value.lowest(), value.highest())).collect()
}

/// Makes a packet match a condition, by a number that one of its values covers.
fn set(packet: &mut Packet, condition: &Match, number: u128) -> Option<()> {
    let family = Family::from_address(packet.destination.ip());
    let is_out = packet.direction == Direction::Out;
    let positive = !condition.negated;
    match &condition.field {
        Field::Family(wanted) => (*wanted == family).then_some(())?,
        Field::Protocol(protocol) => packet.protocol = *protocol,
        Field::DestinationPort(protocol, _) => {
            packet.protocol = *protocol;
            if positive {
                packet.destination.set_port(number.try_into().ok()?);
            }
        }
        Field::SourcePort(protocol, _) => {
            packet.protocol = *protocol;
            packet.source.set_port(number.try_into().ok()?);
        }
        Field::Source(ranges) | Field::Destination(ranges) => {
            (ranges.first().family() == family).then_some(())?;
            if positive {
                let address = match family {
                    Family::V4 => IpAddr::V4(u32::try_from(number).ok()?.into()),
                    Family::V6 => IpAddr::V6(number.into()),
                };
                match &condition.field {
                    Field::Source(_) => packet.source.set_ip(address),
                    _ => packet.destination.set_ip(address),
                }
            }
        }
        Field::InInterface(name) | Field::OutInterface(name) => {
            (matches!(condition.field, Field::OutInterface(_)) == is_out).then_some(())?;
            if positive {
                name.name().clone_into(&mut packet.interface);
            }
        }
        Field::OwnerUid(_) => packet.owner.as_mut()?.uid = parsed(number)?,
        Field::OwnerGid(_) if positive => packet.owner.as_mut()?.gid = parsed(number)?,
        Field::OwnerGid(groups) => {
            let other = (1..=u128::from(u16::MAX))
                .filter_map(parsed)
                .find(|gid| !groups.values().contains(gid));
            packet.owner.as_mut()?.gid = other?;
        }
        Field::PacketMark(_) | Field::ConnectionMark(_) | Field::Connection(_) => None?,
    }
    Some(())
}

fn parsed<T: FromStr>(number: u128) -> Option<T> {
    u32::try_from(number).ok()?.to_string().parse().ok()
}
