//! Packets that stand for others.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crate::explain::{Owner, Packet};
use crate::plan::{Field, Match, Plan, Rule};
use crate::types::direction::Direction;
use crate::types::family::Family;
use crate::types::owner::{Gid, Uid};
use crate::types::protocol::Protocol;

/// Returns a TCP packet of the application, or to it, with values that no rule names if possible.
pub(super) fn ordinary(plan: &Plan, direction: Direction, family: Family) -> Packet {
    let is_named = |is_one: &dyn Fn(&Match) -> bool| {
        plan.rules.iter().flat_map(|rule| &rule.matches).any(is_one)
    };
    let has_port = |port: u16| {
        is_named(&|condition| match &condition.field {
            Field::DestinationPort(_, ports) => {
                ports.values().iter().any(|range| range.contains(port))
            }
            _ => false,
        })
    };
    let has_address = |address| {
        is_named(&|condition| match &condition.field {
            Field::Destination(ranges) => {
                ranges.values().iter().any(|range| range.length() > 0 && range.contains(address))
            }
            _ => false,
        })
    };
    let has_interface = |name: &str| {
        is_named(&|condition| match &condition.field {
            Field::InInterface(one) | Field::OutInterface(one) => one.matches(name),
            _ => false,
        })
    };
    let has_user = |uid: Uid| {
        is_named(&|condition| match &condition.field {
            Field::OwnerUid(users) => users.values().iter().any(|range| range.contains(uid)),
            _ => false,
        })
    };
    // A negated match names the groups that are captured.
    let has_group = |gid: Gid| {
        is_named(&|condition| match &condition.field {
            Field::OwnerGid(gids) => gids.values().contains(&gid) != condition.negated,
            _ => false,
        })
    };
    let address = |host: u8| match family {
        Family::V4 => IpAddr::from([203, 0, host, 7]),
        Family::V6 => IpAddr::from([0x2001, 0xdb8, host.into(), 0, 0, 0, 0, 7]),
    };
    let captured_groups = plan.rules.iter().flat_map(|rule| &rule.matches);
    let captured_groups = captured_groups.filter_map(|condition| match &condition.field {
        Field::OwnerGid(gids) if condition.negated => Some(*gids.first()),
        _ => None,
    });
    let port = (30_001..=u16::MAX).chain(1..=30_000).find(|port| !has_port(*port)).unwrap_or(1);
    let host = (113..=u8::MAX).find(|host| !has_address(address(*host))).unwrap_or(113);
    let uid = (1000..3000).filter_map(parsed).find(|uid| !has_user(*uid)).unwrap_or(Uid::ROOT);
    let gid = captured_groups.chain((1000..3000).filter_map(parsed)).find(|gid| !has_group(*gid));
    let interface = ["eth0", "eth1", "net0", "ens0"].into_iter().find(|name| !has_interface(name));
    let owner = Owner { uid, gid: gid.unwrap_or(Gid::ROOT) };
    Packet {
        direction,
        protocol: Protocol::Tcp,
        source: SocketAddr::new(address(1), 40_000),
        destination: SocketAddr::new(address(host), port),
        interface: interface.unwrap_or("eth0").to_owned(),
        owner: (direction == Direction::Out).then_some(owner),
        mark: 0,
    }
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
                packet.interface = name.name().to_owned();
            }
        }
        Field::OwnerUid(users) => {
            packet.owner.as_mut()?.uid = users.values().get(number)?.first();
        }
        Field::OwnerGid(groups) if positive => {
            packet.owner.as_mut()?.gid = *groups.values().get(number)?;
        }
        Field::OwnerGid(groups) => {
            let other = (1..).filter_map(parsed).find(|gid| !groups.values().contains(gid));
            packet.owner.as_mut()?.gid = other?;
        }
        Field::PacketMark(_) | Field::ConnectionMark(_) | Field::Connection(_) => None?,
    }
    Some(())
}

fn parsed<T: FromStr>(number: u32) -> Option<T> {
    number.to_string().parse().ok()
}
