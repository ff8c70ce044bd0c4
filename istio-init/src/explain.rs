//! One packet's way through a plan.
//!
//! [`explain`] does with a plan what the kernel does with its rules, for the first packet of a
//! connection, and remembers the way. Tests hold it against real packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::plan::{Chain, ConnectionState, Field, Hook, Match, Plan, Rule, Table, Verdict};
use crate::types::direction::Direction;
use crate::types::family::Family;
use crate::types::owner::{Gid, Uid};
use crate::types::port::Port;
use crate::types::protocol::Protocol;

/// The first packet of a connection, as the kernel sees it when the pod sends or receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Whether the pod sends or receives it.
    pub direction: Direction,
    /// The transport protocol.
    pub protocol: Protocol,
    /// Where it comes from.
    pub source: SocketAddr,
    /// Where it is going.
    pub destination: SocketAddr,
    /// The interface it leaves by, or arrives at.
    pub interface: String,
    /// Who owns the sending socket. What arrives has no owner here.
    pub owner: Option<Owner>,
    /// The mark that the sending socket gives it; 0 for none.
    pub mark: u32,
}

/// Who owns a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its user.
    pub uid: Uid,
    /// Its group.
    pub gid: Gid,
}

/// A packet's way through a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The rules that the packet came by, in that order.
    pub steps: Vec<RuleCheck>,
    /// The rule that decided, as an index of the plan's rules; `None` when none wanted the packet.
    pub decided_by: Option<usize>,
    /// What becomes of it.
    pub fate: Fate,
}

/// A rule that a packet came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleCheck {
    /// The rule, as an index of the plan's rules.
    pub rule: usize,
    /// The first of the rule's conditions that did not hold, as an index of its matches; `None`
    /// when all held.
    pub failed: Option<usize>,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It reaches this port of the pod, and whoever listens there can ask for the original
    /// destination.
    Captured(Port),
    /// It goes where it was going.
    Direct,
    /// It goes nowhere.
    Dropped,
}

/// Finds a packet's way through a plan.
///
/// The tables of a hook see it in the kernel's order. What stays in the pod comes back by `lo`
/// and arrives there, but is not redirected a second time: connection tracking remembers that it
/// was asked (kernel `nf_nat_inet_fn`).
pub fn explain(plan: &Plan, packet: &Packet) -> Explanation {
    let mut walk = Walk {
        plan,
        steps: Vec::new(),
        decided_by: None,
        fate: Fate::Direct,
        is_given: false,
        view: View::new(packet),
    };
    match packet.direction {
        Direction::In => walk.hook(Hook::Prerouting, &IN_ORDER),
        Direction::Out => {
            walk.hook(Hook::Output, &IN_ORDER);
            if walk.fate != Fate::Dropped && walk.view.comes_back() {
                let decided_by = walk.decided_by;
                let fate = walk.fate;
                walk.hook(Hook::Prerouting, &[Table::Raw, Table::Mangle]);
                if walk.fate == fate && decided_by.is_some() {
                    // Being left alone once more decides nothing.
                    walk.decided_by = decided_by;
                }
            }
        }
    }
    Explanation { steps: walk.steps, decided_by: walk.decided_by, fate: walk.fate }
}

/// A packet's walk past the rules.
struct Walk<'a> {
    plan: &'a Plan,
    steps: Vec<RuleCheck>,
    decided_by: Option<usize>,
    fate: Fate,
    /// Whether TPROXY chose its socket.
    is_given: bool,
    view: View<'a>,
}

/// What rules see of a packet where it is now.
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

/// How a chain ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Whoever jumped to it goes on.
    Returned,
    /// The table has no more to say.
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
            // A listener that TPROXY gave it to has it, whatever address a redirection writes.
            if self.fate == Fate::Dropped || self.is_given {
                return;
            }
        }
    }

    fn chain(&mut self, table: Table, chain: Chain, jump: Option<usize>) -> End {
        let plan = self.plan;
        let of_chain = |(_, rule): &(usize, &_)| is_in(rule, table, chain);
        for (index, rule) in plan.rules.iter().enumerate().filter(of_chain) {
            let failed = rule.matches.iter().position(|condition| !self.view.meets(condition));
            self.steps.push(RuleCheck { rule: index, failed });
            if failed.is_some() {
                continue;
            }
            match rule.verdict {
                Verdict::Return => {
                    self.decided_by = Some(index);
                    return End::Returned;
                }
                // The kernel refuses rules that lead back to where they came from.
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
                    // The chain of a listener decides nothing; who jumps there does.
                    let is_listener = matches!(chain, Chain::Redirect | Chain::InRedirect);
                    self.decided_by = jump.filter(|_| is_listener).or(Some(index));
                    self.fate = Fate::Captured(port);
                    self.view.redirect(port);
                    return End::Final;
                }
                Verdict::DeliverTo(port, mark) => {
                    self.decided_by = jump.or(Some(index));
                    self.fate = Fate::Captured(port);
                    self.is_given = true;
                    self.view.packet_mark = mark.get();
                    return End::Final;
                }
                Verdict::SetPacketMark(mark) => self.view.packet_mark = mark.get(),
                Verdict::SaveMark => self.view.connection_mark = self.view.packet_mark,
                Verdict::RestoreMark => self.view.packet_mark = self.view.connection_mark,
                // Which zone tracks it is no matter to where it goes.
                Verdict::TrackIn(_) => {}
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

    fn meets(&self, condition: &Match) -> bool {
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
            // The first packet of a connection: not begun, and valid.
            Field::Connection(ConnectionState::Begun | ConnectionState::Invalid) => negated,
        }
    }

    fn family(&self) -> Family {
        Family::from_address(self.destination.ip())
    }

    /// The destination becomes this machine: loopback for what it sends, the arriving interface's
    /// address for what it receives, which no rule after this one asks for.
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

    /// Whether what was sent stays in the pod; if so, it now arrives there.
    fn comes_back(&mut self) -> bool {
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
