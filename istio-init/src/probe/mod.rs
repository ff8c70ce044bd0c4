//! Test of installed rules with real sockets.
//!
//! The flows cover each inclusion and exclusion of the plan; [`explain`] gives the expected result.
//! No packet leaves the node: outbound packets have a TTL of one hop.

mod inbound;
mod sockets;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use crate::config::{PASSTHROUGH_V4, PASSTHROUGH_V6};
use crate::explain::{Fate, Owner, Packet, explain};
use crate::plan::{Field, Match, Plan, Verdict};
use crate::types::cidr::Cidr;
use crate::types::direction::Direction;
use crate::types::family::Family;
use crate::types::owner::{Gid, Uid, UidRange};
use crate::types::port::Port;
use crate::types::protocol::Protocol;
use crate::types::routes::Routes;

pub use sockets::{ProbeError, try_flows, try_inbound};

/// A connection attempt with its expected result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Owner of the connection; `None` for a connection from outside the pod.
    pub owner: Option<Owner>,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Source address, if it matters.
    pub source: Option<IpAddr>,
    /// Destination.
    pub target: SocketAddr,
    /// Expected result.
    pub expected: FlowOutcome,
}

/// Result of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowOutcome {
    /// Reaches this port of the pod.
    Port(u16),
    /// Reaches no port that the probe listens on.
    Elsewhere,
    /// Reaches the port with another original destination.
    WrongDestination(u16, SocketAddr),
    /// Not tried, for this reason.
    NotTried(String),
}

/// A flow and what was results of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowResult {
    /// The flow.
    pub flow: Flow,
    /// Observed result.
    pub outcome: FlowOutcome,
}

/// Settings of a probe and facts of the machine.
#[derive(Clone, Debug)]
pub struct ProbeSettings {
    /// Addresses of this namespace.
    pub addresses: Vec<IpAddr>,
    /// Routes of the namespace.
    pub routes: Routes,
    /// Owner of this process.
    pub owner: Owner,
    /// Port of Istio's validation.
    pub probe_port: u16,
    /// Port of the probe's own application, named by no rule.
    pub application_port: u16,
    /// Time to wait for the expected result.
    pub timeout: Duration,
    /// The installed rules, if readable: their limits are tried too.
    pub installed: Option<Plan>,
}

impl FlowResult {
    /// True if the result is the expected one, or the flow was not tried.
    pub fn is_as_expected(&self) -> bool {
        self.outcome == self.flow.expected || !self.is_tried()
    }

    /// True if the flow was tried.
    pub fn is_tried(&self) -> bool {
        !matches!(self.outcome, FlowOutcome::NotTried(_))
    }
}

/// Returns the flows that test a plan.
pub fn flows(plan: &Plan, settings: &ProbeSettings) -> Vec<Flow> {
    let mut flows = Vec::new();
    for owner in owners(plan, settings.owner) {
        for (protocol, source, target) in targets(plan, settings) {
            let expected = expected(plan, settings, owner, protocol, source, target);
            flows.extend(expected.map(|expected| Flow {
                owner: Some(owner),
                protocol,
                source,
                target,
                expected,
            }));
        }
    }
    flows
}

/// Returns the ports that rules redirect to.
pub fn listening_ports(plan: &Plan) -> Vec<Port> {
    let mut ports: Vec<Port> = plan
        .rules
        .iter()
        .filter_map(|rule| match rule.verdict {
            Verdict::RedirectTo(port) | Verdict::DeliverTo(port, _) => Some(port),
            _ => None,
        })
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// Returns this process, the proxy, and an application that no rule names.
fn owners(plan: &Plan, own: Owner) -> Vec<Owner> {
    let (mut uids, mut gids) = (Vec::<UidRange>::new(), Vec::new());
    for condition in plan.rules.iter().flat_map(|rule| &rule.matches) {
        match &condition.field {
            Field::OwnerUid(named) => uids.extend(named.values()),
            Field::OwnerGid(named) => gids.extend(named.values()),
            _ => {}
        }
    }
    let unnamed = (FIRST_APPLICATION..).find_map(|number| {
        let (uid, gid) = (uid(number)?, gid(number)?);
        let is_named = uids.iter().any(|range| range.contains(uid)) || gids.contains(&gid);
        (!is_named).then_some(Owner { uid, gid })
    });
    let proxy = uids
        .first()
        .map(|range| Owner { uid: range.first(), gid: gids.first().copied().unwrap_or(Gid::ROOT) });
    let mut owners = vec![own];
    for owner in proxy.into_iter().chain(unnamed) {
        if !owners.contains(&owner) {
            owners.push(owner);
        }
    }
    owners
}

type Target = (Protocol, Option<IpAddr>, SocketAddr);

/// Returns destinations outside, destinations that rules name, and the pod itself.
fn targets(plan: &Plan, settings: &ProbeSettings) -> Vec<Target> {
    let both = [Some(plan), settings.installed.as_ref()];
    let rules = both.into_iter().flatten().flat_map(|plan| &plan.rules);
    let rules = rules.map(|rule| &*rule.matches);
    let mut targets: Vec<Target> =
        std::iter::once(&[][..]).chain(rules).flat_map(outside).collect();
    let application = settings.application_port;
    let tcp = |source, ip, port| (Protocol::Tcp, source, SocketAddr::new(ip, port));
    let loopbacks = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    // A link-local address needs an interface, and none is given here.
    let own = settings.addresses.iter().copied().filter(|address| match address {
        IpAddr::V4(v4) => !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local(),
    });
    for ip in own.chain(loopbacks) {
        targets.push(tcp(None, ip, application));
        targets.push(tcp(Some(passthrough(Family::from_address(ip))), ip, application));
    }
    // The flow of Istio's validation.
    targets.push(tcp(Some(loopbacks[0]), passthrough(Family::V4), settings.probe_port));
    targets.push(tcp(Some(loopbacks[1]), passthrough(Family::V6), settings.probe_port));
    let mut different = Vec::new();
    for target in targets {
        if !different.contains(&target) {
            different.push(target);
        }
    }
    different
}

/// Returns destinations outside the pod: the conditions' addresses and others, each with the
/// conditions' ports and another. A rule with both is tried only by both together.
fn outside(conditions: &[Match]) -> Vec<Target> {
    let mut addresses: Vec<IpAddr> = OUTSIDE.to_vec();
    let mut ports = vec![(Protocol::Tcp, 80)];
    for condition in conditions {
        match &condition.field {
            Field::Destination(ranges) => {
                let some = ranges.values().iter().take(MOST_OF_A_RULE);
                addresses.extend(some.flat_map(|range| edges(*range)));
            }
            Field::DestinationPort(protocol, named) => {
                let some = named.values().iter().take(MOST_OF_A_RULE);
                ports.extend(
                    some.flat_map(|range| [(*protocol, range.first()), (*protocol, range.last())]),
                );
            }
            _ => {}
        }
    }
    addresses.retain(|address| match address {
        // The last network is broadcast, and multicast groups accept no connection.
        IpAddr::V4(v4) => !v4.is_loopback() && (1..224).contains(&v4.octets()[0]),
        IpAddr::V6(v6) => !(v6.is_loopback() || v6.is_unspecified() || v6.is_multicast()),
    });
    ports.retain(|(_, port)| *port != 0);
    let mut targets = Vec::new();
    for (protocol, port) in ports {
        targets.extend(addresses.iter().map(|ip| (protocol, None, SocketAddr::new(*ip, port))));
    }
    targets
}

/// Returns the expected result; `None` if the flow cannot start.
fn expected(
    plan: &Plan,
    settings: &ProbeSettings,
    owner: Owner,
    protocol: Protocol,
    source: Option<IpAddr>,
    target: SocketAddr,
) -> Option<FlowOutcome> {
    let is_here = target.ip().is_loopback() || settings.addresses.contains(&target.ip());
    let is_possible = |ip: IpAddr| ip.is_loopback() || settings.addresses.contains(&ip);
    if source.is_some_and(|ip| !is_possible(ip))
        || target.ip() == IpAddr::from(PASSTHROUGH_V6) && !is_here
    {
        return None;
    }
    let interface = if is_here { "lo" } else { settings.routes.interface(target.ip())? };
    let packet = Packet {
        direction: Direction::Out,
        protocol,
        source: SocketAddr::new(source.unwrap_or(target.ip()), 0),
        destination: target,
        interface: interface.to_owned(),
        owner: Some(owner),
        mark: 0,
    };
    Some(match explain(plan, &packet).fate {
        Fate::Captured(port) => FlowOutcome::Port(port.get()),
        Fate::Direct if is_here && target.port() == settings.application_port => {
            FlowOutcome::Port(target.port())
        }
        Fate::Direct | Fate::Dropped => FlowOutcome::Elsewhere,
    })
}

fn passthrough(family: Family) -> IpAddr {
    match family {
        Family::V4 => PASSTHROUGH_V4.into(),
        Family::V6 => PASSTHROUGH_V6.into(),
    }
}

/// Returns addresses in and next to a range: first, middle, last, and both neighbours.
fn edges(range: Cidr) -> impl Iterator<Item = IpAddr> {
    let family = range.family();
    let (first, last) = range.ends();
    let (low, high) = (Family::bits_of(first), Family::bits_of(last));
    let highest = u128::MAX >> (128 - u32::from(family.address_bits()));
    let beside = [low.checked_sub(1), high.checked_add(1).filter(|next| *next <= highest)];
    let inside = [Some(low + (high - low) / 2), Some(high)];
    let others = beside.into_iter().chain(inside).flatten();
    std::iter::once(next_host(first)).chain(others.map(move |number| family.address_of(number)))
}

/// Returns an address that a host can have: the first of a range is often reserved.
fn next_host(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) if v4.octets()[3] == 0 => (v4.to_bits() | 1).to_be_bytes().into(),
        IpAddr::V6(v6) if v6.octets()[15] == 0 => (v6.to_bits() | 1).to_be_bytes().into(),
        other => other,
    }
}

fn uid(number: u32) -> Option<Uid> {
    number.to_string().parse().ok()
}

fn gid(number: u32) -> Option<Gid> {
    number.to_string().parse().ok()
}

impl fmt::Display for FlowOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => write!(f, "port {port} of this pod"),
            Self::Elsewhere => f.write_str("elsewhere"),
            Self::WrongDestination(port, original) => {
                write!(f, "port {port} of this pod, for {original}")
            }
            Self::NotTried(why) => write!(f, "not tried: {why}"),
        }
    }
}

/// Documentation addresses (RFC 5737, RFC 3849), and one in the lower half of IPv4, where there are
/// none: of the shared address space (RFC 6598).
const OUTSIDE: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V4(Ipv4Addr::new(100, 127, 255, 254)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];
/// Limit on values taken from one list.
const MOST_OF_A_RULE: usize = 4;
/// First user number for applications.
const FIRST_APPLICATION: u32 = 1000;
