//! Capture setup read from a network namespace.

use std::fmt;

use thiserror::Error;

use crate::plan::{Chain, Plan, Rule, Table, TproxyRouting};

/// Observed capture setup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Own tables, in the order of [`Table::ALL`].
    pub tables: Vec<ObservedTable>,
    /// True if the loopback interface has the address `::6`.
    pub passthrough_address: bool,
    /// Mark and table of own policy rules, with the families that have the rule and the route.
    pub tproxy_routings: Vec<TproxyRouting>,
    /// Mark and table of own policy rules, with the families that have the rule but no route.
    pub routeless: Vec<TproxyRouting>,
}

/// An own table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedTable {
    /// Table.
    pub table: Table,
    /// True if the table is dormant: its rules have no effect.
    pub is_dormant: bool,
    /// Chains; those of plans first, in the order of [`Chain::ALL`].
    pub chains: Vec<ObservedChain>,
}

/// A chain of an own table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedChain {
    /// Name.
    pub name: String,
    /// Type, hook and priority of a base chain in nft's syntax; `None` for other chains.
    pub base: Option<String>,
    /// Rules in order.
    pub rules: Vec<ObservedRule>,
}

/// An observed rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObservedRule {
    /// Rule that a plan can express.
    Ours(Rule),
    /// Foreign rule, described as far as it is known.
    Foreign(String),
}

/// Error: the installed rules are not a plan.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotAPlan {
    /// No rules are installed.
    #[error(
        "no rules of istio-init are installed in this network namespace; \
         hint: omit --from-kernel to use the rules that the flags define"
    )]
    Nothing,
    /// Several backends have installed rules.
    #[error(
        "rules are installed by {} at once; \
         hint: `istio-init verify --reconcile` keeps those of one backend", .0.join(" and by ")
    )]
    Several(Vec<String>),
    /// An own table contains a foreign rule.
    #[error(
        "table {table}, chain {chain}: foreign rule: {rule}; \
         hint: `istio-init verify` shows what differs, `--reconcile` repairs it"
    )]
    Foreign {
        /// The table's name.
        table: &'static str,
        /// The chain's name.
        chain: String,
        /// Description of the rule.
        rule: String,
    },
    /// A table is dormant.
    #[error(
        "table {0} is dormant; \
         hint: `istio-init verify --reconcile` repairs it"
    )]
    Dormant(&'static str),
}

impl Observed {
    /// Returns the observed rules as a plan.
    pub fn plan(&self) -> Result<Plan, NotAPlan> {
        if self.tables.is_empty() {
            return Err(NotAPlan::Nothing);
        }
        let mut rules = Vec::new();
        for table in &self.tables {
            if table.is_dormant {
                return Err(NotAPlan::Dormant(table.table.name()));
            }
            for chain in &table.chains {
                for found in &chain.rules {
                    match found {
                        ObservedRule::Ours(rule) => rules.push(rule.clone()),
                        ObservedRule::Foreign(rule) => {
                            return Err(NotAPlan::Foreign {
                                table: table.table.name(),
                                chain: chain.name.clone(),
                                rule: rule.clone(),
                            });
                        }
                    }
                }
            }
        }
        Ok(Plan {
            rules,
            passthrough_address: self.passthrough_address,
            tproxy_routing: self.tproxy_routings.first().cloned(),
        })
    }
}

/// Returns the chain of this name.
pub fn chain_named(name: &str) -> Option<Chain> {
    Chain::ALL.into_iter().find(|chain| chain.name() == name)
}

impl fmt::Display for ObservedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(rule) => f.write_str(&crate::render::nft::add_rule(rule)),
            Self::Foreign(text) => f.write_str(text),
        }
    }
}
