//! Inbound connections from a network namespace outside the pod's.
//!
//! The link uses a documentation network, so it affects no address or route of the pod.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Flow, FlowOutcome, MOST_OF_A_RULE, ProbeSettings};
use crate::explain::{Fate, Packet, explain};
use crate::plan::{Chain, Field, Match, Plan, Verdict};
use crate::types::direction::Direction;
use crate::types::port::PortRange;
use crate::types::protocol::Protocol;

/// Network with two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    pub pod: IpAddr,
    pub peer: IpAddr,
    pub prefix_length: u8,
}

/// Returns an unused network for each address family of the pod.
pub(super) fn networks(addresses: &[IpAddr]) -> Vec<Network> {
    let has = |is_family: fn(&IpAddr) -> bool| addresses.iter().any(is_family);
    let v4 = V4.map(|[a, b, c]| Network {
        pod: Ipv4Addr::new(a, b, c, 253).into(),
        peer: Ipv4Addr::new(a, b, c, 254).into(),
        prefix_length: 30,
    });
    let v6 = V6.map(|[a, b, c, d]| Network {
        pod: Ipv6Addr::new(a, b, c, d, 0, 0, 0, 1).into(),
        peer: Ipv6Addr::new(a, b, c, d, 0, 0, 0, 2).into(),
        prefix_length: 126,
    });
    let is_unused = |network: &Network| {
        !addresses.iter().any(|address| match (address, network.pod) {
            (IpAddr::V4(own), IpAddr::V4(new)) => own.octets()[..3] == new.octets()[..3],
            (IpAddr::V6(own), IpAddr::V6(new)) => own.segments()[..4] == new.segments()[..4],
            _ => false,
        })
    };
    let v4 = v4.into_iter().find(is_unused).filter(|_| has(IpAddr::is_ipv4));
    let v6 = v6.into_iter().find(is_unused).filter(|_| has(IpAddr::is_ipv6));
    v4.into_iter().chain(v6).collect()
}

/// Returns an interface name that no rule names.
pub(super) fn link_name(plan: &Plan, settings: &ProbeSettings) -> Option<String> {
    let is_named = |name: &str| {
        conditions(plan, settings, |_| true).any(|condition| match &condition.field {
            Field::InInterface(named) | Field::OutInterface(named) => named.matches(name),
            _ => false,
        })
    };
    ('a'..='z').map(|letter| format!("{letter}probe0")).find(|name| !is_named(name))
}

/// True if a rule delivers connections by TPROXY.
pub(super) fn has_tproxy(plan: &Plan, settings: &ProbeSettings) -> bool {
    let plans = std::iter::once(plan).chain(&settings.installed);
    let mut rules = plans.flat_map(|plan| &plan.rules);
    rules.any(|rule| matches!(rule.verdict, Verdict::DeliverTo(..)))
}

/// Returns the lowest and highest ports of inbound rules.
pub(super) fn named_ports(plan: &Plan, settings: &ProbeSettings) -> Vec<u16> {
    let is_inbound = |chain| matches!(chain, Chain::Prerouting | Chain::Inbound);
    let mut ports: Vec<u16> = conditions(plan, settings, is_inbound)
        .flat_map(|condition| match &condition.field {
            Field::DestinationPort(Protocol::Tcp, named) => {
                named.values().iter().take(MOST_OF_A_RULE).copied().flat_map(edges).collect()
            }
            _ => Vec::new(),
        })
        .filter(|port| *port != 0)
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// Returns a connection from the peer to a port of the pod.
pub(super) fn flow(
    plan: &Plan,
    link: &str,
    network: Network,
    port: u16,
    has_listener: bool,
) -> Flow {
    let target = SocketAddr::new(network.pod, port);
    let packet = Packet {
        direction: Direction::In,
        protocol: Protocol::Tcp,
        source: SocketAddr::new(network.peer, 0),
        destination: target,
        interface: link.to_owned(),
        owner: None,
        mark: 0,
    };
    let expected = match explain(plan, &packet).fate {
        Fate::Captured(by) => FlowOutcome::Port(by.get()),
        Fate::Direct if has_listener => FlowOutcome::Port(port),
        Fate::Direct | Fate::Dropped => FlowOutcome::Elsewhere,
    };
    let source = Some(network.peer);
    Flow { owner: None, protocol: Protocol::Tcp, source, target, expected }
}

fn edges(range: PortRange) -> [u16; 2] {
    [range.first(), range.last()]
}

/// Returns conditions of the plan and of the installed rules in matching chains.
fn conditions<'a>(
    plan: &'a Plan,
    settings: &'a ProbeSettings,
    is_meant: impl Fn(Chain) -> bool + 'a,
) -> impl Iterator<Item = &'a Match> {
    let rules = std::iter::once(plan).chain(&settings.installed).flat_map(|plan| &plan.rules);
    rules.filter(move |rule| is_meant(rule.chain)).flat_map(|rule| &rule.matches)
}

/// Networks of documentation (RFC 5737).
const V4: [[u8; 3]; 3] = [[198, 51, 100], [203, 0, 113], [192, 0, 2]];
/// Networks of documentation (RFC 3849, RFC 9637).
const V6: [[u16; 4]; 2] = [[0x2001, 0xdb8, 0xffff, 0xffff], [0x3fff, 0xfff, 0xffff, 0xffff]];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_networks_avoid_addresses_of_the_pod() {
        let of = |texts: &[&str]| {
            let addresses: Vec<IpAddr> = texts.iter().map(|text| text.parse().unwrap()).collect();
            networks(&addresses).iter().map(|network| network.pod.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of(&["127.0.0.1", "10.0.0.2"]), ["198.51.100.253"]);
        assert_eq!(of(&["198.51.100.7", "::1"]), ["203.0.113.253", "2001:db8:ffff:ffff::1"]);
        assert_eq!(of(&["2001:db8:ffff:ffff::9"]), ["3fff:fff:ffff:ffff::1"]);
        assert!(of(&[]).is_empty());
    }
}
