//! Simulation of a plan's rules.
//!
//! [`explain`] evaluates rules as the kernel does, for the first packet of a connection, and
//! records each step. Tests compare it with real packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::plan::{Chain, ConnectionState, Field, Hook, Match, Plan, Rule, Table, Verdict};
use crate::types::direction::Direction;
use crate::types::family::Family;
use crate::types::owner::{Gid, Uid};
use crate::types::port::Port;
use crate::types::protocol::Protocol;

/// First packet of a connection, as the kernel sees it in the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Direction, from the pod's point of view.
    pub direction: Direction,
    /// The transport protocol.
    pub protocol: Protocol,
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    /// Outgoing or incoming interface.
    pub interface: String,
    /// Owner of the sending socket; `None` for inbound packets.
    pub owner: Option<Owner>,
    /// Mark set by the sending socket; 0 for none.
    pub mark: u32,
}

/// Owner of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: Uid,
    /// Group.
    pub gid: Gid,
}

/// Result of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Rules that were evaluated, in order.
    pub steps: Vec<RuleCheck>,
    /// Rule that decided, as an index into the plan's rules; `None` if no rule matched.
    pub decided_by: Option<usize>,
    /// Result for the packet.
    pub fate: Fate,
}

/// Evaluation of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleCheck {
    /// The rule, as an index of the plan's rules.
    pub rule: usize,
    /// First condition that did not match, as an index into the rule's matches; `None` if all
    /// matched.
    pub failed: Option<usize>,
}

/// Result for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Redirected to this port of the pod. The listener can query the original destination.
    Captured(Port),
    /// Sent to its destination.
    Direct,
    /// Dropped.
    Dropped,
}

/// Simulates the rules of a plan for a packet.
///
/// The tables of a hook see the packet in the kernel's order. A packet that stays in the pod
/// arrives again on `lo`, but is not redirected twice: connection tracking stores the decision
/// (kernel `nf_nat_inet_fn`).
pub fn explain(plan: &Plan, packet: &Packet) -> Explanation {
    let mut walk = Walk {
        plan,
        steps: Vec::new(),
        decided_by: None,
        fate: Fate::Direct,
        has_socket: false,
        view: View::new(packet),
    };
    match packet.direction {
        Direction::In => walk.hook(Hook::Prerouting, &IN_ORDER),
        Direction::Out => {
            walk.hook(Hook::Output, &IN_ORDER);
            if walk.fate != Fate::Dropped && walk.view.turn_inbound() {
                let decided_by = walk.decided_by;
                let fate = walk.fate;
                walk.hook(Hook::Prerouting, &[Table::Raw, Table::Mangle]);
                if walk.fate == fate && decided_by.is_some() {
                    // A second evaluation without effect decides nothing.
                    walk.decided_by = decided_by;
                }
            }
        }
    }
    Explanation { steps: walk.steps, decided_by: walk.decided_by, fate: walk.fate }
}

/// True if a packet meets a condition where it is sent or received.
pub(crate) fn holds(packet: &Packet, condition: &Match) -> bool {
    View::new(packet).matches(condition)
}

/// State of a simulation.
struct Walk<'a> {
    plan: &'a Plan,
    steps: Vec<RuleCheck>,
    decided_by: Option<usize>,
    fate: Fate,
    /// True if TPROXY has selected a socket.
    has_socket: bool,
    view: View<'a>,
}

/// Properties of the packet that rules match, at the current hook.
struct View<'a> {
    protocol: Protocol,
    source: SocketAddr,
    destination: SocketAddr,
    arrives_at: Option<&'a str>,
    leaves_by: Option<&'a str>,
    owner: Option<Owner>,
    packet_mark: u32,
    connection_mark: u32,
}

/// Result of a chain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The calling chain continues.
    Returned,
    /// The table's decision is final.
    Final,
}

impl Walk<'_> {
    fn hook(&mut self, hook: Hook, tables: &[Table]) {
        let chain = match hook {
            Hook::Prerouting => Chain::Prerouting,
            Hook::Output => Chain::Output,
        };
        for table in tables {
            self.chain(*table, chain, None);
            // A socket selected by TPROXY receives the packet even if its address is rewritten.
            if self.fate == Fate::Dropped || self.has_socket {
                return;
            }
        }
    }

    fn chain(&mut self, table: Table, chain: Chain, jump: Option<usize>) -> End {
        let plan = self.plan;
        let of_chain = |(_, rule): &(usize, &_)| is_in(rule, table, chain);
        for (index, rule) in plan.rules.iter().enumerate().filter(of_chain) {
            let failed = rule.matches.iter().position(|condition| !self.view.matches(condition));
            self.steps.push(RuleCheck { rule: index, failed });
            if failed.is_some() {
                continue;
            }
            match rule.verdict {
                Verdict::Return => {
                    self.decided_by = Some(index);
                    return End::Returned;
                }
                // The kernel rejects rules that form a loop.
                Verdict::Jump(target) => {
                    if self.chain(table, target, Some(index)) == End::Final {
                        return End::Final;
                    }
                }
                Verdict::Accept => {
                    self.decided_by = Some(index);
                    return End::Final;
                }
                Verdict::Drop => {
                    self.decided_by = jump.filter(|_| chain == Chain::Drop).or(Some(index));
                    self.fate = Fate::Dropped;
                    return End::Final;
                }
                Verdict::RedirectTo(port) => {
                    // The rule that jumps to the chain of a listener decides.
                    let is_listener = matches!(chain, Chain::Redirect | Chain::InRedirect);
                    self.decided_by = jump.filter(|_| is_listener).or(Some(index));
                    self.fate = Fate::Captured(port);
                    self.view.redirect(port);
                    return End::Final;
                }
                Verdict::DeliverTo(port, mark) => {
                    self.decided_by = jump.or(Some(index));
                    self.fate = Fate::Captured(port);
                    self.has_socket = true;
                    self.view.packet_mark = mark.get();
                    return End::Final;
                }
                Verdict::SetPacketMark(mark) => self.view.packet_mark = mark.get(),
                Verdict::SaveMark => self.view.connection_mark = self.view.packet_mark,
                Verdict::RestoreMark => self.view.packet_mark = self.view.connection_mark,
                // The tracking zone does not affect the destination.
                Verdict::TrackIn(..) => {}
            }
        }
        End::Returned
    }
}

impl<'a> View<'a> {
    fn new(packet: &'a Packet) -> Self {
        let interface = packet.interface.as_str();
        let is_out = packet.direction == Direction::Out;
        Self {
            protocol: packet.protocol,
            source: packet.source,
            destination: packet.destination,
            arrives_at: (!is_out).then_some(interface),
            leaves_by: is_out.then_some(interface),
            owner: packet.owner.filter(|_| is_out),
            packet_mark: packet.mark,
            connection_mark: 0,
        }
    }

    fn matches(&self, condition: &Match) -> bool {
        let negated = condition.negated;
        match &condition.field {
            Field::Family(family) => (self.family() == *family) != negated,
            Field::Protocol(protocol) => (self.protocol == *protocol) != negated,
            Field::SourcePort(protocol, ports) => {
                let is_one = ports.values().iter().any(|p| p.contains(self.source.port()));
                self.protocol == *protocol && is_one != negated
            }
            Field::DestinationPort(protocol, ports) => {
                let is_one = ports.values().iter().any(|p| p.contains(self.destination.port()));
                self.protocol == *protocol && is_one != negated
            }
            Field::Source(ranges) => {
                let is_one = ranges.values().iter().any(|r| r.contains(self.source.ip()));
                self.family() == ranges.first().family() && is_one != negated
            }
            Field::Destination(ranges) => {
                let is_one = ranges.values().iter().any(|r| r.contains(self.destination.ip()));
                self.family() == ranges.first().family() && is_one != negated
            }
            Field::InInterface(name) => {
                self.arrives_at.is_some_and(|here| name.matches(here) != negated)
            }
            Field::OutInterface(name) => {
                self.leaves_by.is_some_and(|here| name.matches(here) != negated)
            }
            Field::OwnerUid(uids) => self.owner.is_some_and(|owner| {
                uids.values().iter().any(|range| range.contains(owner.uid)) != negated
            }),
            Field::OwnerGid(gids) => {
                self.owner.is_some_and(|owner| gids.values().contains(&owner.gid) != negated)
            }
            Field::PacketMark(mark) => (self.packet_mark == mark.get()) != negated,
            Field::ConnectionMark(mark) => (self.connection_mark == mark.get()) != negated,
            // The first packet of a connection is neither established nor invalid.
            Field::Connection(ConnectionState::Established | ConnectionState::Invalid) => negated,
        }
    }

    fn family(&self) -> Family {
        Family::from_address(self.destination.ip())
    }

    /// Rewrites the destination to this machine: loopback for outbound packets. For inbound packets
    /// it is the arriving interface's address, which no later rule matches.
    fn redirect(&mut self, port: Port) {
        let here = match self.family() {
            Family::V4 => IpAddr::from(Ipv4Addr::LOCALHOST),
            Family::V6 => Ipv6Addr::LOCALHOST.into(),
        };
        self.destination = SocketAddr::new(here, port.get());
        if self.leaves_by.is_some() {
            self.leaves_by = Some(LOOPBACK);
        }
    }

    /// True if the outbound packet stays in the pod. Then it becomes an inbound one.
    fn turn_inbound(&mut self) -> bool {
        let stays = self.leaves_by == Some(LOOPBACK);
        if stays {
            self.arrives_at = self.leaves_by.take();
        }
        stays
    }
}

fn is_in(rule: &Rule, table: Table, chain: Chain) -> bool {
    (rule.table, rule.chain) == (table, chain)
}

/// The tables of a hook by their priority.
const IN_ORDER: [Table; 3] = [Table::Raw, Table::Mangle, Table::Nat];
const LOOPBACK: &str = "lo";
