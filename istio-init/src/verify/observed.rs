//! What a network namespace has of capture, as it was read back.

use std::fmt;

use thiserror::Error;

use crate::plan::{Chain, Plan, Rule, Table, TproxyRouting};

/// All that a plan can bring about, as found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Those of our tables that there are, in the order of [`Table::ALL`].
    pub tables: Vec<ObservedTable>,
    /// Whether the loopback interface has the address `::6`.
    pub passthrough_address: bool,
    /// How marked packets are routed: each mark and table for which there are a policy rule of ours
    /// and a route, in the families that have both.
    pub tproxy_routings: Vec<TproxyRouting>,
    /// The same, in the families that have the policy rule and no route.
    pub routeless: Vec<TproxyRouting>,
}

/// One of our tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedTable {
    /// Which.
    pub table: Table,
    /// Whether somebody switched it off: then no rule of it counts.
    pub is_dormant: bool,
    /// Its chains, those of plans first and in the order of [`Chain::ALL`].
    pub chains: Vec<ObservedChain>,
}

/// A chain of one of our tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedChain {
    /// Its name.
    pub name: String,
    /// Where in the kernel it begins, as nft writes it; nothing for a chain that is jumped to.
    pub base: Option<String>,
    /// Its rules in their order.
    pub rules: Vec<ObservedRule>,
}

/// A rule that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObservedRule {
    /// One that a plan could have.
    Ours(Rule),
    /// One that no plan has: what is known of it.
    Foreign(String),
}

/// Rules that cannot be asked, since not all of them are known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotAPlan {
    /// There are none.
    #[error(
        "no rules of istio-init are installed in this network namespace\n\
         hint: without --from-kernel, the rules that the flags ask for are asked"
    )]
    Nothing,
    /// There are rules by several backends.
    #[error(
        "rules are installed by {} at once\n\
         hint: `istio-init verify --reconcile` leaves those of one", .0.join(" and by ")
    )]
    Several(Vec<String>),
    /// Somebody put a rule of another kind into our tables.
    #[error(
        "table {table}, chain {chain}: a rule is not one of istio-init's: {rule}\n\
         hint: `istio-init verify` shows what differs, `--reconcile` repairs it"
    )]
    Foreign {
        /// The table's name.
        table: &'static str,
        /// The chain's name.
        chain: String,
        /// What is known of the rule.
        rule: String,
    },
    /// Somebody switched a table off.
    #[error(
        "table {0} is dormant: somebody switched it off\n\
         hint: `istio-init verify --reconcile` repairs it"
    )]
    Dormant(&'static str),
}

impl Observed {
    /// What was found, as a plan.
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

/// The chain of plans that has this name.
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
