//! Rules for connections from this pod.

use std::net::IpAddr;

use super::rule::{Chain, Field, Match, Origin, Protocol, Rule, Table, Verdict};
use super::{AnyOf, captured_families};
use crate::cidr::Cidr;
use crate::config::{Config, Outbound, OwnerGroups};
use crate::flag::Flag;
use crate::interface::InterfaceName;
use crate::port::PortRange;
use crate::variable::Variable;

/// Adds the rules for connections from this pod. The order is the meaning: what comes first wins.
pub(super) fn rules(config: &Config, rules: &mut Vec<Rule>) {
    rules.push(Rule {
        table: Table::Nat,
        chain: Chain::Output,
        matches: captured_families(config),
        verdict: Verdict::Jump(Chain::Outbound),
        origin: Origin::Capture,
    });
    let mut chain = OutboundChain { config, rules };
    chain.excluded_ports();
    chain.proxy_to_application();
    chain.proxy();
    chain.owner_groups();
    chain.loopback();
    chain.excluded_ranges();
    chain.included();
}

/// The chain while it is being filled.
struct OutboundChain<'a> {
    config: &'a Config,
    rules: &'a mut Vec<Rule>,
}

impl OutboundChain<'_> {
    fn excluded_ports(&mut self) {
        for ports in &self.config.excluded_outbound_ports {
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                let to_port = Match::is(Field::DestinationPort(protocol, AnyOf::one(*ports)));
                let origin = Origin::Flag(Flag::LocalOutboundPortsExclude);
                self.add(vec![to_port], Verdict::Return, origin);
            }
        }
    }

    /// The proxy calls the application from an address of its own, whoever it runs as.
    fn proxy_to_application(&mut self) {
        for source in self.config.passthrough_sources() {
            let matches = vec![over_loopback(), Match::is(Field::Source(AnyOf::one(source)))];
            self.add(matches, Verdict::Return, Origin::Loopback);
        }
    }

    /// What the proxy sends is not captured, with one exception: a call to this pod's own address
    /// (the proxy chose its own pod as endpoint) comes in as from any other pod. What anyone else
    /// sends over loopback stays in the pod and is left alone.
    ///
    /// Istio writes the last as "over loopback and not this user". As the user's own traffic
    /// returns right after, "over loopback" alone says the same, also for a packet that has no
    /// owner, and lets several users stand side by side. It also decides for the groups, unless
    /// loopback is captured: in Istio, too, no packet reaches what they have besides.
    fn proxy(&mut self) {
        let users = self
            .config
            .proxy_uids
            .iter()
            .copied()
            .map(|uid| Field::OwnerUid(AnyOf::one(uid)))
            .collect::<Vec<_>>();
        let groups = self
            .config
            .proxy_gids
            .iter()
            .copied()
            .map(|gid| Field::OwnerGid(AnyOf::one(gid)))
            .collect::<Vec<_>>();
        let captures_loopback = captures_loopback(&self.config.outbound);
        self.calls_to_own_pod(&users, Flag::ProxyUid);
        if !captures_loopback {
            self.add(vec![over_loopback()], Verdict::Return, Origin::Loopback);
        }
        self.leave_alone(users, Flag::ProxyUid);
        if captures_loopback {
            self.calls_to_own_pod(&groups, Flag::ProxyGid);
        }
        self.leave_alone(groups, Flag::ProxyGid);
    }

    fn calls_to_own_pod(&mut self, owners: &[Field], flag: Flag) {
        for owner in owners {
            for loopback in self.config.loopbacks() {
                let matches = vec![
                    over_loopback(),
                    Match::is_not(Field::Destination(AnyOf::one(loopback))),
                    Match::is_not(tcp_to(self.config.tunnel_port)),
                    Match::is(owner.clone()),
                ];
                self.add(matches, Verdict::Jump(Chain::InRedirect), Origin::Flag(flag));
            }
        }
    }

    fn leave_alone(&mut self, owners: Vec<Field>, flag: Flag) {
        for owner in owners {
            self.add(vec![Match::is(owner)], Verdict::Return, Origin::Flag(flag));
        }
    }

    fn owner_groups(&mut self) {
        match &self.config.owner_groups {
            OwnerGroups::AllBut(excluded) => {
                for group in excluded {
                    let owner = Match::is(Field::OwnerGid(AnyOf::one(*group)));
                    let origin = Origin::Variable(Variable::OwnerGroupsExclude);
                    self.add(vec![owner], Verdict::Return, origin);
                }
            }
            OwnerGroups::Only(included) => {
                let others = included
                    .iter()
                    .map(|group| Match::is_not(Field::OwnerGid(AnyOf::one(*group))))
                    .collect();
                self.add(others, Verdict::Return, Origin::Variable(Variable::OwnerGroups));
            }
        }
    }

    fn loopback(&mut self) {
        for loopback in self.config.loopbacks() {
            let matches = vec![Match::is(Field::Destination(AnyOf::one(loopback)))];
            self.add(matches, Verdict::Return, Origin::Loopback);
        }
    }

    fn excluded_ranges(&mut self) {
        for matches in self.to_ranges(&self.config.excluded_ranges) {
            self.add(matches, Verdict::Return, Origin::Flag(Flag::ServiceExcludeCidr));
        }
    }

    fn included(&mut self) {
        let capture = Verdict::Jump(Chain::Redirect);
        for ports in &self.config.outbound_ports {
            let matches = vec![Match::is(tcp_to(*ports))];
            self.add(matches, capture, Origin::Flag(Flag::OutboundPorts));
        }
        let origin = Origin::Flag(Flag::ServiceCidr);
        match &self.config.outbound {
            Outbound::None => {}
            Outbound::All => self.add(Vec::new(), capture, origin),
            Outbound::Only(ranges) => {
                for matches in self.to_ranges(ranges) {
                    self.add(matches, capture, origin);
                }
            }
        }
    }

    /// Ranges of families that are not captured are left out: no packet of theirs comes here.
    fn to_ranges(&self, ranges: &[Cidr]) -> Vec<Vec<Match>> {
        let captured = |range: &&Cidr| self.config.families().contains(&range.family());
        let matches = |range: &Cidr| vec![Match::is(Field::Destination(AnyOf::one(*range)))];
        ranges.iter().filter(captured).map(matches).collect()
    }

    fn add(&mut self, matches: Vec<Match>, verdict: Verdict, origin: Origin) {
        let chain = Chain::Outbound;
        self.rules.push(Rule { table: Table::Nat, chain, matches, verdict, origin });
    }
}

/// Whether the user asks for a loopback range: then loopback traffic is not left alone.
fn captures_loopback(outbound: &Outbound) -> bool {
    let Outbound::Only(ranges) = outbound else {
        return false;
    };
    ranges.iter().any(|range| match range.address() {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => v6.to_canonical().is_loopback(),
    })
}

fn over_loopback() -> Match {
    Match::is(Field::OutInterface(InterfaceName::loopback()))
}

fn tcp_to(ports: impl Into<PortRange>) -> Field {
    Field::DestinationPort(Protocol::Tcp, AnyOf::one(ports))
}
