//! Rules of a configuration, as data.
//!
//! [`plan`] alone decides which rules a configuration needs. Backends, renderers and explanations
//! take the [`Plan`].

mod any_of;
mod dns;
mod inbound;
mod outbound;
mod rule;
mod tproxy;
mod tproxy_routing;

pub use any_of::{AnyOf, Span};
pub use rule::{
    Base, Chain, ConnectionState, Field, Hook, Match, Origin, Rule, Table, Verdict, Zone,
    ZoneDirection,
};
pub use tproxy_routing::TproxyRouting;

use crate::args::flags::Flag;
use crate::config::{Config, Outbound};
use crate::types::cidr::Cidr;
use crate::types::family::Family;
use crate::types::interface::InterfaceName;
use crate::types::protocol::Protocol;

/// The rules of a configuration. Rules of one chain apply in their order here; the first whose
/// matches all hold decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// All rules.
    pub rules: Vec<Rule>,
    /// True if the loopback interface needs the address `::6`, the proxy's IPv6 source towards the
    /// application.
    pub passthrough_address: bool,
    /// Routing of packets that TPROXY rules mark.
    pub tproxy_routing: Option<TproxyRouting>,
}

impl Plan {
    /// Returns the tables that have rules.
    pub fn tables(&self) -> impl Iterator<Item = Table> {
        Table::ALL.into_iter().filter(|table| self.rules.iter().any(|rule| rule.table == *table))
    }

    /// Returns the chains of a table that have rules or are jumped to.
    pub fn chains(&self, table: Table) -> impl Iterator<Item = Chain> {
        Chain::ALL.into_iter().filter(move |chain| {
            self.rules
                .iter()
                .filter(|rule| rule.table == table)
                .any(|rule| rule.chain == *chain || rule.verdict == Verdict::Jump(*chain))
        })
    }
}

/// Plans the rules of a configuration.
pub fn plan(config: &Config) -> Plan {
    let mut rules = virtual_interfaces(config);
    rules.extend(excluded_interfaces(config, Table::Nat));
    inbound::rules(config, &mut rules);
    outbound::rules(config, &mut rules);
    tproxy::answer_rules(config, &mut rules);
    if tproxy::is_enabled(config) || config.drop_invalid {
        rules.extend(excluded_interfaces(config, Table::Mangle));
    }
    rules.extend(invalid_packets(config));
    tproxy::rules(config, &mut rules);
    dns::tracking_rules(config, &mut rules);
    Plan { rules, passthrough_address: config.ipv6, tproxy_routing: tproxy::tproxy_routing(config) }
}

/// Traffic that arrives on these interfaces comes from inside the pod, for example from a virtual
/// machine. It is captured as outbound traffic only, in the order of decisions of `outbound`. There
/// is no owner to decide by. DNS does not go to the DNS proxy, which answers on loopback alone.
fn virtual_interfaces(config: &Config) -> Vec<Rule> {
    let mut rules = Vec::new();
    for name in &config.virtual_interfaces {
        let mut add = |conditions: Vec<Match>, verdict, flag| {
            let arriving = Match::is(Field::InInterface(name.clone()));
            let matches = std::iter::once(arriving).chain(conditions).collect();
            let (table, chain) = (Table::Nat, Chain::Prerouting);
            rules.push(Rule { table, chain, matches, verdict, origin: Origin::Flag(flag) });
        };
        let capture = Verdict::Jump(Chain::Redirect);
        if let Some(ports) = AnyOf::several(config.excluded_outbound_ports.iter().copied()) {
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                let to_ports = Match::is(Field::DestinationPort(protocol, ports.clone()));
                add(vec![to_ports], Verdict::Return, Flag::LocalOutboundPortsExclude);
            }
        }
        let to = |ranges| vec![Match::is(Field::Destination(ranges))];
        for ranges in per_family(config, &config.excluded_ranges) {
            add(to(ranges), Verdict::Return, Flag::ServiceExcludeCidr);
        }
        if let Some(ports) = AnyOf::several(config.outbound_ports.iter().copied()) {
            let mut matches = captured_families(config);
            matches.push(inbound::tcp_to(ports));
            add(matches, capture, Flag::OutboundPorts);
        }
        match &config.outbound {
            Outbound::None => {}
            Outbound::All => add(captured_families(config), capture, Flag::KubeVirtInterfaces),
            Outbound::Only(ranges) => {
                for ranges in per_family(config, ranges) {
                    add(to(ranges), capture, Flag::KubeVirtInterfaces);
                }
            }
        }
        add(Vec::new(), Verdict::Return, Flag::KubeVirtInterfaces);
    }
    rules
}

/// Traffic of these interfaces bypasses capture in both directions, and is not dropped.
fn excluded_interfaces(config: &Config, table: Table) -> Vec<Rule> {
    let leave_alone = |chain, field| Rule {
        table,
        chain,
        matches: vec![Match::is(field)],
        verdict: Verdict::Return,
        origin: Origin::Flag(Flag::ExcludeInterfaces),
    };
    let both_directions = |name: &InterfaceName| {
        [
            leave_alone(Chain::Prerouting, Field::InInterface(name.clone())),
            leave_alone(Chain::Output, Field::OutInterface(name.clone())),
        ]
    };
    config.excluded_interfaces.iter().flat_map(both_directions).collect()
}

/// Packets without a connection, such as late ones, skip the nat table and would bypass the proxy.
fn invalid_packets(config: &Config) -> Vec<Rule> {
    if !config.drop_invalid {
        return Vec::new();
    }
    let rule = |chain, matches, verdict| Rule {
        table: Table::Mangle,
        chain,
        matches,
        verdict,
        origin: Origin::Flag(Flag::DropInvalid),
    };
    let mut matches = captured_families(config);
    matches.push(Match::is(Field::Connection(ConnectionState::Invalid)));
    vec![
        rule(Chain::Prerouting, matches, Verdict::Jump(Chain::Drop)),
        rule(Chain::Drop, Vec::new(), Verdict::Drop),
    ]
}

/// Returns the ranges of each captured family. Packets of other families do not reach own chains.
fn per_family<'a>(
    config: &'a Config,
    ranges: &'a [Cidr],
) -> impl Iterator<Item = AnyOf<Cidr>> + 'a {
    let of_family = |family: &Family| {
        AnyOf::several(ranges.iter().copied().filter(|range| range.family() == *family))
    };
    config.families().iter().filter_map(of_family)
}

/// Returns the matches that restrict a base chain's rule to the captured families. Rules of other
/// chains are reached only through such a rule.
fn captured_families(config: &Config) -> Vec<Match> {
    match config.families() {
        [only] => vec![Match::is(Field::Family(*only))],
        _ => Vec::new(),
    }
}
