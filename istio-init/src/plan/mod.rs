//! A configuration's rules, as data.
//!
//! [`plan`] is the only place that knows which rules a configuration needs, and why. Whoever
//! installs, prints or explains rules takes the [`Plan`].

mod any_of;
mod inbound;
mod local_delivery;
mod outbound;
mod rule;

pub use any_of::AnyOf;
pub use local_delivery::LocalDelivery;
pub use rule::{
    Base, Chain, ConnectionState, Field, Hook, Match, Origin, Protocol, Rule, Table, Verdict, Zone,
};

use crate::config::Config;
use crate::flag::Flag;
use crate::interface::InterfaceName;

/// The rules of a configuration. Rules of one chain apply in their order here; the first whose
/// matches all hold decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// All rules.
    pub rules: Vec<Rule>,
    /// Whether the loopback interface needs the address `::6`, the proxy's IPv6 source towards
    /// the application.
    pub passthrough_address: bool,
    /// How packets with a mark are routed, where rules set one for that.
    pub local_delivery: Option<LocalDelivery>,
}

impl Plan {
    /// The tables that have rules.
    pub fn tables(&self) -> impl Iterator<Item = Table> {
        Table::ALL.into_iter().filter(|table| self.rules.iter().any(|rule| rule.table == *table))
    }

    /// The chains of a table that have rules or are jumped to.
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
    let mut rules = excluded_interfaces(config);
    inbound::rules(config, &mut rules);
    outbound::rules(config, &mut rules);
    Plan { rules, passthrough_address: config.ipv6, local_delivery: None }
}

/// What these interfaces carry is left alone in both directions, before anything else is asked.
fn excluded_interfaces(config: &Config) -> Vec<Rule> {
    let leave_alone = |chain, field| Rule {
        table: Table::Nat,
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

/// The matches that keep a rule of a base chain to the captured families. Chains of our own are
/// only reached through such a rule, so their rules need none.
fn captured_families(config: &Config) -> Vec<Match> {
    match config.families() {
        [only] => vec![Match::is(Field::Family(*only))],
        _ => Vec::new(),
    }
}
