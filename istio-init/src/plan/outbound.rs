//! Rules for connections from this pod.

use std::net::IpAddr;

use super::inbound::tcp_to;
use super::rule::{Chain, Field, Match, Origin, Rule, Table, Verdict};
use super::{AnyOf, captured_families, dns, per_family};
use crate::args::env::Variable;
use crate::args::flags::Flag;
use crate::config::{Config, Outbound, OwnerGroups};
use crate::types::interface::InterfaceName;
use crate::types::port::PortRange;
use crate::types::protocol::Protocol;

/// Adds the rules for outbound connections. The first matching rule decides.
pub(super) fn rules(config: &Config, rules: &mut Vec<Rule>) {
    rules.push(Rule {
        table: Table::Nat,
        chain: Chain::Output,
        matches: captured_families(config),
        verdict: Verdict::Jump(Chain::Outbound),
        origin: Origin::Capture,
    });
    let mut chain = OutboundChain { config, rules };
    chain.excluded_users();
    chain.excluded_ports();
    chain.proxy_to_application();
    chain.proxy();
    chain.owner_groups();
    chain.dns();
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
    fn excluded_users(&mut self) {
        for excluded in &self.config.excluded_users {
            let users = AnyOf::several(excluded.users.iter().copied()).map(Field::OwnerUid);
            let ports = AnyOf::several(excluded.ports.iter().copied());
            let protocols = excluded.protocols.iter();
            let to_where: Vec<Option<Field>> = match ports {
                _ if excluded.protocols.is_empty() => vec![None],
                None => protocols.map(|protocol| Some(Field::Protocol(*protocol))).collect(),
                Some(ports) => protocols
                    .map(|protocol| Some(Field::DestinationPort(*protocol, ports.clone())))
                    .collect(),
            };
            for field in to_where {
                let matches = field.into_iter().chain(users.clone()).map(Match::is).collect();
                let origin = Origin::Flag(Flag::ExcludeOutboundForUids);
                self.add(matches, Verdict::Return, origin);
            }
        }
    }

    fn excluded_ports(&mut self) {
        let excluded = self.config.excluded_outbound_ports.iter().copied();
        let Some(ports) = AnyOf::several(excluded) else { return };
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let to_ports = Match::is(Field::DestinationPort(protocol, ports.clone()));
            let origin = Origin::Flag(Flag::LocalOutboundPortsExclude);
            self.add(vec![to_ports], Verdict::Return, origin);
        }
    }

    /// Adds the rules for calls of the proxy to the application from its own source address,
    /// whichever user it runs as.
    fn proxy_to_application(&mut self) {
        for source in self.config.passthrough_sources() {
            let matches = vec![over_loopback(), Match::is(Field::Source(AnyOf::one(source)))];
            self.add(matches, Verdict::Return, Origin::Loopback);
        }
    }

    /// Adds the rules for the proxy: its own traffic is not captured, with one exception: a call to
    /// the pod's own address (the proxy selected its own pod as endpoint) is handled as inbound.
    /// Loopback traffic of the application is not captured.
    ///
    /// Istio writes the last rule as "over loopback and not this user". Since the proxy's traffic
    /// returns in the next rule, "over loopback" alone is equivalent, works for packets without an
    /// owner and for several users. It also decides for groups, unless loopback is captured; in
    /// Istio too, no packet reaches the group's later rules.
    ///
    /// With DNS capture, queries over loopback are captured too, so this rule excludes DNS.
    fn proxy(&mut self) {
        let config = self.config;
        let users = AnyOf::several(config.proxy_uids.iter().map(|uid| (*uid).into()));
        let users = users.map(Field::OwnerUid);
        let groups = AnyOf::several(config.proxy_gids.iter().copied()).map(Field::OwnerGid);
        let captures_loopback = captures_loopback(&config.outbound);
        let tunnel = PortRange::from(config.tunnel_port);
        let not_captured = match config.dns {
            None => AnyOf::one(tunnel),
            Some(_) => AnyOf::one(PortRange::from(dns::SERVER_PORT)).and(tunnel),
        };
        self.calls_to_own_pod(users.as_ref(), &not_captured, Flag::ProxyUid);
        if !captures_loopback {
            let mut matches = vec![over_loopback()];
            if config.dns.is_some() {
                let queries = AnyOf::one(dns::SERVER_PORT);
                matches.push(Match { negated: true, ..tcp_to(queries) });
            }
            self.add(matches, Verdict::Return, Origin::Loopback);
        }
        self.leave_alone(users, Flag::ProxyUid);
        if captures_loopback || config.dns.is_some() {
            self.calls_to_own_pod(groups.as_ref(), &AnyOf::one(tunnel), Flag::ProxyGid);
        }
        self.leave_alone(groups, Flag::ProxyGid);
    }

    fn calls_to_own_pod(
        &mut self,
        owners: Option<&Field>,
        not_captured: &AnyOf<PortRange>,
        flag: Flag,
    ) {
        let Some(owner) = owners else { return };
        for loopback in self.config.loopbacks() {
            let matches = vec![
                over_loopback(),
                Match::is_not(Field::Destination(AnyOf::one(loopback))),
                Match { negated: true, ..tcp_to(not_captured.clone()) },
                Match::is(owner.clone()),
            ];
            self.add(matches, Verdict::Jump(Chain::InRedirect), Origin::Flag(flag));
        }
    }

    fn leave_alone(&mut self, owners: Option<Field>, flag: Flag) {
        if let Some(owner) = owners {
            self.add(vec![Match::is(owner)], Verdict::Return, Origin::Flag(flag));
        }
    }

    fn owner_groups(&mut self) {
        let (groups, negated, variable) = match &self.config.owner_groups {
            OwnerGroups::AllBut(groups) => (groups, false, Variable::OwnerGroupsExclude),
            OwnerGroups::Only(groups) => (groups, true, Variable::OwnerGroups),
        };
        let owners = AnyOf::several(groups.iter().copied()).map(Field::OwnerGid);
        if owners.is_none() && !negated {
            return;
        }
        // No group's traffic is captured: the rule has no match.
        let matches = owners.into_iter().map(|field| Match { field, negated }).collect();
        self.add(matches, Verdict::Return, Origin::Variable(variable));
    }

    fn dns(&mut self) {
        let redirections = dns::redirection_rules(self.config);
        if !redirections.is_empty() {
            self.add(Vec::new(), Verdict::Jump(Chain::Dns), Origin::Flag(Flag::RedirectDns));
            self.rules.extend(redirections);
        }
    }

    fn loopback(&mut self) {
        for loopback in self.config.loopbacks() {
            let matches = vec![Match::is(Field::Destination(AnyOf::one(loopback)))];
            self.add(matches, Verdict::Return, Origin::Loopback);
        }
    }

    fn excluded_ranges(&mut self) {
        for ranges in per_family(self.config, &self.config.excluded_ranges) {
            let matches = vec![Match::is(Field::Destination(ranges))];
            self.add(matches, Verdict::Return, Origin::Flag(Flag::ServiceExcludeCidr));
        }
    }

    fn included(&mut self) {
        let capture = Verdict::Jump(Chain::Redirect);
        if let Some(ports) = AnyOf::several(self.config.outbound_ports.iter().copied()) {
            self.add(vec![tcp_to(ports)], capture, Origin::Flag(Flag::OutboundPorts));
        }
        let origin = Origin::Flag(Flag::ServiceCidr);
        match &self.config.outbound {
            Outbound::None => {}
            Outbound::All => self.add(Vec::new(), capture, origin),
            Outbound::Only(ranges) => {
                for ranges in per_family(self.config, ranges) {
                    let matches = vec![Match::is(Field::Destination(ranges))];
                    self.add(matches, capture, origin);
                }
            }
        }
    }

    fn add(&mut self, matches: Vec<Match>, verdict: Verdict, origin: Origin) {
        let chain = Chain::Outbound;
        self.rules.push(Rule { table: Table::Nat, chain, matches, verdict, origin });
    }
}

/// True if the user includes a loopback range. Then loopback traffic is captured too.
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
