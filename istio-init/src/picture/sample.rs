//! Packets that stand for others.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crate::explain::{Owner, Packet, holds};
use crate::plan::{Field, Match, Plan, Rule};
use crate::types::direction::Direction;
use crate::types::family::Family;
use crate::types::owner::{Gid, Uid};
use crate::types::protocol::Protocol;

/// Returns a TCP packet of the application, or to it, with values that no rule names if possible.
pub(super) fn ordinary(plan: &Plan, direction: Direction, family: Family) -> Packet {
    let conditions = || plan.rules.iter().flat_map(|rule| &rule.matches);
    // A negated match names the groups that are captured.
    let captured_group = conditions().find_map(|condition| match &condition.field {
        Field::OwnerGid(gids) if condition.negated => Some(*gids.first()),
        _ => None,
    });
    let packet = |number: u16| {
        let address = |host: u16| match family {
            Family::V4 => IpAddr::from([203, 0, host.to_be_bytes()[1], 7]),
            Family::V6 => IpAddr::from([0x2001, 0xdb8, host, 0, 0, 0, 0, 7]),
        };
        let id = 1000 + u32::from(number) * 997;
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

/// Returns the packet, changed to match a rule: the condition `place` by its value `number`, the
/// others by their first ones. `None` if no first packet of a connection matches.
pub(super) fn matching(
    ordinary: &Packet,
    rule: &Rule,
    place: usize,
    number: usize,
) -> Option<Packet> {
    let mut packet = ordinary.clone();
    for (index, condition) in rule.matches.iter().enumerate() {
        let number = if index == place { number } else { 0 };
        set(&mut packet, condition, number)?;
    }
    let is_out = packet.direction == Direction::Out;
    if is_out && packet.destination.ip().is_loopback() {
        "lo".clone_into(&mut packet.interface);
    }
    Some(packet)
}

/// Makes a packet match a condition by its value `number`.
fn set(packet: &mut Packet, condition: &Match, number: usize) -> Option<()> {
    let family = Family::from_address(packet.destination.ip());
    let is_out = packet.direction == Direction::Out;
    let positive = !condition.negated;
    match &condition.field {
        Field::Family(wanted) => (*wanted == family).then_some(())?,
        Field::Protocol(protocol) => packet.protocol = *protocol,
        Field::DestinationPort(protocol, ports) => {
            packet.protocol = *protocol;
            if positive {
                packet.destination.set_port(ports.values().get(number)?.first());
            }
        }
        Field::SourcePort(protocol, ports) => {
            packet.protocol = *protocol;
            packet.source.set_port(ports.values().get(number)?.first());
        }
        Field::Source(ranges) | Field::Destination(ranges) => {
            (ranges.first().family() == family).then_some(())?;
            if positive {
                let (_, last) = ranges.values().get(number)?.ends();
                match &condition.field {
                    Field::Source(_) => packet.source.set_ip(last),
                    _ => packet.destination.set_ip(last),
                }
            }
        }
        Field::InInterface(name) | Field::OutInterface(name) => {
            (matches!(condition.field, Field::OutInterface(_)) == is_out).then_some(())?;
            if positive {
                name.name().clone_into(&mut packet.interface);
            }
        }
        Field::OwnerUid(users) => {
            packet.owner.as_mut()?.uid = users.values().get(number)?.first();
        }
        Field::OwnerGid(groups) if positive => {
            packet.owner.as_mut()?.gid = *groups.values().get(number)?;
        }
        Field::OwnerGid(groups) => {
            let other = (1..=u32::from(u16::MAX))
                .filter_map(parsed)
                .find(|gid| !groups.values().contains(gid));
            packet.owner.as_mut()?.gid = other?;
        }
        Field::PacketMark(_) | Field::ConnectionMark(_) | Field::Connection(_) => None?,
    }
    Some(())
}

fn parsed<T: FromStr>(number: u32) -> Option<T> {
    number.to_string().parse().ok()
}
