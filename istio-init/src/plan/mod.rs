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
/// machine. It is captured as outbound traffic only.
fn virtual_interfaces(config: &Config) -> Vec<Rule> {
    let rule = |matches, verdict| Rule {
        table: Table::Nat,
        chain: Chain::Prerouting,
        matches,
        verdict,
        origin: Origin::Flag(Flag::KubeVirtInterfaces),
    };
    let mut rules = Vec::new();
    for name in &config.virtual_interfaces {
        let arriving = || Match::is(Field::InInterface(name.clone()));
        let destinations = match &config.outbound {
            Outbound::None => Vec::new(),
            Outbound::All => vec![captured_families(config)],
            Outbound::Only(ranges) => {
                let ranges = per_family(config, ranges).map(Field::Destination);
                ranges.map(|field| vec![Match::is(field)]).collect()
            }
        };
        for mut matches in destinations {
            matches.insert(0, arriving());
            rules.push(rule(matches, Verdict::Jump(Chain::Redirect)));
        }
        rules.push(rule(vec![arriving()], Verdict::Return));
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
