//! The parts a plan is made of.

use std::fmt;

use super::any_of::AnyOf;
use crate::args::env::Variable;
use crate::args::flags::{FLAGS, Flag};
use crate::types::cidr::Cidr;
use crate::types::family::Family;
use crate::types::interface::InterfaceName;
use crate::types::mark::Mark;
use crate::types::owner::{Gid, UidRange};
use crate::types::port::{Port, PortRange};
use crate::types::protocol::Protocol;

/// A rule: position, matches, verdict and origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The table it is in.
    pub table: Table,
    /// The chain it is in.
    pub chain: Chain,
    /// All of these must hold.
    pub matches: Vec<Match>,
    /// Verdict if all matches hold.
    pub verdict: Verdict,
    /// Setting that the rule comes from.
    pub origin: Origin,
}

/// One of the tables a plan can have rules in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Redirects connections.
    Nat,
    /// Marks packets.
    Mangle,
    /// Runs before connection tracking.
    Raw,
}

/// A chain of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Chain {
    /// The kernel's chain of packets that arrive.
    Prerouting,
    /// The kernel's chain of packets that this pod sends.
    Output,
    /// Inbound connections.
    Inbound,
    /// To the outbound listener.
    Redirect,
    /// To the inbound listener.
    InRedirect,
    /// Outbound connections.
    Outbound,
    /// To the inbound listener, with unchanged addresses.
    Tproxy,
    /// Packets of connections that the inbound listener already has.
    Divert,
    /// DNS queries.
    Dns,
    /// Packets that connection tracking finds invalid.
    Drop,
}

/// Hook, type and priority of a base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// Chain type of the kernel.
    pub kind: &'static str,
    /// Hook.
    pub hook: Hook,
    /// Priority among the chains of the hook; lower is earlier. Same as iptables.
    pub priority: i32,
}

/// Netfilter hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Packets that arrive.
    Prerouting,
    /// Packets that this pod sends.
    Output,
}

/// A condition on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Field with the expected value.
    pub field: Field,
    /// True if the field must not have the value.
    pub negated: bool,
}

/// Field of a packet with an expected value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// The address family.
    Family(Family),
    /// The transport protocol.
    Protocol(Protocol),
    /// The source port. The protocol must be the given one also when the match is negated.
    SourcePort(Protocol, AnyOf<PortRange>),
    /// The destination port. The protocol must be the given one also when the match is negated.
    DestinationPort(Protocol, AnyOf<PortRange>),
    /// The source address. All ranges are of one family, and the packet must be of that family
    /// also when the match is negated.
    Source(AnyOf<Cidr>),
    /// The destination address. All ranges are of one family, and the packet must be of that
    /// family also when the match is negated.
    Destination(AnyOf<Cidr>),
    /// The interface it arrived at.
    InInterface(InterfaceName),
    /// The interface it leaves by.
    OutInterface(InterfaceName),
    /// The user that owns the socket. A packet without a socket never matches, negated or not.
    OwnerUid(AnyOf<UidRange>),
    /// The group that owns the socket. A packet without a socket never matches, negated or not.
    OwnerGid(AnyOf<Gid>),
    /// The mark that the packet bears.
    PacketMark(Mark),
    /// The mark that its connection bears.
    ConnectionMark(Mark),
    /// State in connection tracking.
    Connection(ConnectionState),
}

/// State of a packet in connection tracking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// Part of an established connection, or related to one.
    Established,
    /// Part of no connection, and unable to start one.
    Invalid,
}

/// Connection tracking zone: equal addresses and ports in two zones are two connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// Between the proxy and the name servers: 1, as in Istio.
    Upstream,
    /// Between the application and the proxy: 2, as in Istio.
    Downstream,
}

/// Packets of a connection that its zone applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneDirection {
    /// Packets of the side that opened the connection. Answers, and ICMP errors about it, are found
    /// without the zone.
    Original,
    /// All, as in Istio: answers need a rule that puts them in the zone.
    Both,
}

/// Action on a packet that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Continues with the rule after the jump; in a base chain, with the next table.
    Return,
    /// Evaluates another chain; continues afterwards.
    Jump(Chain),
    /// Redirects the connection to this local port.
    RedirectTo(Port),
    /// Accepts the packet; skips the rest of this table.
    Accept,
    /// Drops the packet.
    Drop,
    /// Sets this mark and delivers the packet to the listener on this local port, with its
    /// addresses unchanged (TPROXY); skips the rest of this table.
    DeliverTo(Port, Mark),
    /// Sets the packet's mark; continues.
    SetPacketMark(Mark),
    /// Copies the packet's mark to its connection; continues.
    SaveMark,
    /// Copies the connection's mark to the packet; continues.
    RestoreMark,
    /// Tracks the packet's connection in this zone, if no earlier rule set one; continues.
    TrackIn(Zone, ZoneDirection),
}

/// Setting that a rule comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A flag, however it was given.
    Flag(Flag),
    /// A variable that has no flag.
    Variable(Variable),
    /// No setting: rules of every plan for the proxy's calls to the application over loopback.
    Loopback,
    /// No setting: the jump of every plan from the kernel's chain.
    Capture,
}

impl Origin {
    /// Parses a setting from a rule's comment.
    pub fn named(text: &str) -> Option<Self> {
        match text {
            "loopback" => Some(Self::Loopback),
            "capture" => Some(Self::Capture),
            _ => {
                let flag = || {
                    let long = text.strip_prefix("--")?;
                    FLAGS.iter().find(|spec| spec.long == long).map(|spec| Self::Flag(spec.flag))
                };
                let variable = || Variable::ALL.into_iter().find(|v| v.name() == text);
                flag().or_else(|| variable().map(Self::Variable))
            }
        }
    }
}

impl Rule {
    /// Returns the family that the matches imply, if they imply one.
    pub fn family(&self) -> Option<Family> {
        self.matches.iter().find_map(|condition| match &condition.field {
            Field::Family(family) => (!condition.negated).then_some(*family),
            Field::Source(ranges) | Field::Destination(ranges) => Some(ranges.first().family()),
            _ => None,
        })
    }
}

impl Match {
    /// Creates a match: the field has the value.
    pub fn is(field: Field) -> Self {
        Self { field, negated: false }
    }

    /// Creates a match: the field has another value.
    pub fn is_not(field: Field) -> Self {
        Self { field, negated: true }
    }
}

impl Zone {
    /// Number in the kernel.
    pub fn number(self) -> u16 {
        match self {
            Self::Upstream => 1,
            Self::Downstream => 2,
        }
    }
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Nat, Self::Mangle, Self::Raw];

    /// Name in Istio's nftables backend.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nat => "istio-proxy-nat",
            Self::Mangle => "istio-proxy-mangle",
            Self::Raw => "istio-proxy-raw",
        }
    }
}

impl Chain {
    /// All of them, base chains first.
    pub const ALL: [Self; 10] = [
        Self::Prerouting,
        Self::Output,
        Self::Inbound,
        Self::Redirect,
        Self::InRedirect,
        Self::Outbound,
        Self::Tproxy,
        Self::Divert,
        Self::Dns,
        Self::Drop,
    ];

    /// Name in Istio's nftables backend.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prerouting => "prerouting",
            Self::Output => "output",
            Self::Inbound => "istio-inbound",
            Self::Redirect => "istio-redirect",
            Self::InRedirect => "istio-in-redirect",
            Self::Outbound => "istio-output",
            Self::Tproxy => "istio-tproxy",
            Self::Divert => "istio-divert",
            Self::Dns => "istio-output-dns",
            Self::Drop => "istio-drop",
        }
    }

    /// Returns hook and priority; `None` for a chain that is only jumped to.
    pub fn base(self, table: Table) -> Option<Base> {
        let hook = match self {
            Self::Prerouting => Hook::Prerouting,
            Self::Output => Hook::Output,
            _ => return None,
        };
        let (kind, priority) = match (table, hook) {
            (Table::Nat, _) => ("nat", -100),
            // Marks set here are to change the packet's route.
            (Table::Mangle, Hook::Output) => ("route", -150),
            (Table::Mangle, Hook::Prerouting) => ("filter", -150),
            (Table::Raw, _) => ("filter", -300),
        };
        Some(Base { kind, hook, priority })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Variable(variable) => variable.fmt(f),
            Self::Loopback => f.write_str("loopback"),
            Self::Capture => f.write_str("capture"),
        }
    }
}
