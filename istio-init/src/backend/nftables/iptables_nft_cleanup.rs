//! Removal of rules that iptables-nft installed for an earlier run, without that program.
//!
//! Tables of iptables-nft are ordinary `nf_tables` tables. Own chains are identified by name, rules
//! that jump to them by target, other own rules by comment. Everything else is foreign and is kept.

use std::fmt;

use rustix::io::Errno;

use super::expression::{CODE, CODE_CHAIN, GOTO, IMMEDIATE_VALUE, JUMP, VERDICT};
use super::iptables_tables;
use super::iptables_tables::Entry;
use crate::netlink::attribute_value::text;
use crate::netlink::message::{Attributes, attribute, attributes, family_number};
use crate::netlink::nf_tables::{
    CHAIN_HOOK, CHAIN_NAME, CHAIN_POLICY, CHAIN_TABLE, DELETE_CHAIN, DELETE_RULE, DELETE_TABLE,
    EXPRESSION_DATA, EXPRESSION_NAME, FIXED_LENGTH, GET_RULE, RULE_CHAIN, RULE_EXPRESSIONS,
    RULE_HANDLE, RULE_TABLE, RULE_USER_DATA, TABLE_NAME,
};
use crate::netlink::socket::Socket;
use crate::plan::Table;
use crate::render::iptables::{COMMENT, is_our_chain, table_name};
use crate::types::family::Family;

/// One step of a removal, in a table of iptables-nft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Removal {
    family: Family,
    table: Table,
    target: RemovalTarget,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum RemovalTarget {
    /// The rule of this number, in this chain.
    Rule(String, u64),
    /// All rules of this chain.
    Rules(String),
    /// This chain, which has no rules any more.
    Chain(String),
    /// The table, which has no foreign objects.
    Table,
}

/// Returns the steps that remove all own rules.
pub(super) fn removals(socket: &Socket) -> Result<Vec<Removal>, Errno> {
    let chains = iptables_tables::chains(socket)?;
    let mut removals = Vec::new();
    for (family, table) in iptables_tables::PLACES {
        let here = |chain: &&Entry| {
            chain.family() == Some(family) && chain.text(CHAIN_TABLE) == table_name(table)
        };
        let chains: Vec<&Entry> = chains.iter().filter(here).collect();
        if chains.is_empty() {
            continue;
        }
        let rules =
            iptables_tables::list(socket, GET_RULE, family_number(family), table_name(table))?;
        let targets = targets(&chains, &rules);
        if targets.is_empty() {
            continue;
        }
        let is_alone = has_only_own_objects(&chains, &rules)
            && iptables_tables::uses(socket, family, table)? == u32::try_from(chains.len()).ok();
        let targets = if is_alone { vec![RemovalTarget::Table] } else { targets };
        removals.extend(targets.into_iter().map(|target| Removal { family, table, target }));
    }
    Ok(removals)
}

/// Returns the own chains and rules of a table. Jumps to a chain come before the chain.
fn targets(chains: &[&Entry], rules: &[Entry]) -> Vec<RemovalTarget> {
    let ours = || chains.iter().map(|chain| chain.text(CHAIN_NAME)).filter(|n| is_our_chain(n));
    let entry_rules = rules.iter().filter(|rule| !is_in_own_chain(rule) && is_entry_rule(rule));
    let rule = |rule: &Entry| {
        let handle = rule.value(RULE_HANDLE)?.try_into().ok().map(u64::from_be_bytes)?;
        Some(RemovalTarget::Rule(rule.text(RULE_CHAIN), handle))
    };
    let entry_rules = entry_rules.filter_map(rule);
    entry_rules
        .chain(ours().map(RemovalTarget::Rules))
        .chain(ours().map(RemovalTarget::Chain))
        .collect()
}

/// True if the table has no foreign rule or chain, and the kernel's chains accept by default.
fn has_only_own_objects(chains: &[&Entry], rules: &[Entry]) -> bool {
    let accepts = |chain: &&Entry| {
        chain.value(CHAIN_HOOK).is_some() && chain.value(CHAIN_POLICY) == Some(&ACCEPT)
    };
    chains.iter().all(|chain| is_our_chain(&chain.text(CHAIN_NAME)) || accepts(chain))
        && rules.iter().all(|rule| is_in_own_chain(rule) || is_entry_rule(rule))
}

fn is_in_own_chain(rule: &Entry) -> bool {
    is_our_chain(&rule.text(RULE_CHAIN))
}

/// True if the rule jumps to an own chain or has the own comment.
pub(super) fn is_entry_rule(rule: &Entry) -> bool {
    let list = rule.value(RULE_EXPRESSIONS).unwrap_or_default();
    let of_us = attributes(list).any(|element| {
        let data = attribute(element.value, EXPRESSION_DATA).unwrap_or_default();
        match attribute(element.value, EXPRESSION_NAME).and_then(text) {
            Some("immediate") => target(data).is_some_and(is_our_chain),
            Some("match") => {
                attribute(data, MATCH_NAME).and_then(text) == Some("comment")
                    && attribute(data, MATCH_INFO)
                        .is_some_and(|info| info.starts_with(COMMENT.as_bytes()))
            }
            _ => false,
        }
    });
    // Other versions store the comment as user data: type 0, length, text.
    let user_data = rule.value(RULE_USER_DATA).unwrap_or_default();
    of_us || matches!(user_data, [0, _, text @ ..] if text.starts_with(COMMENT.as_bytes()))
}

/// Returns the chain that an `immediate` expression jumps to.
fn target(data: &[u8]) -> Option<&str> {
    let verdict = attribute(attribute(data, IMMEDIATE_VALUE)?, VERDICT)?;
    let code = i32::from_be_bytes(attribute(verdict, CODE)?.try_into().ok()?);
    matches!(code, JUMP | GOTO).then(|| attribute(verdict, CODE_CHAIN).and_then(text)).flatten()
}

impl Removal {
    /// Returns the kind of its message.
    pub(super) fn kind(&self) -> u16 {
        match self.target {
            RemovalTarget::Rule(..) | RemovalTarget::Rules(_) => DELETE_RULE,
            RemovalTarget::Chain(_) => DELETE_CHAIN,
            RemovalTarget::Table => DELETE_TABLE,
        }
    }

    /// Returns the fixed part of its message.
    pub(super) fn fixed(&self) -> [u8; FIXED_LENGTH] {
        [family_number(self.family), 0, 0, 0]
    }

    /// Returns the attributes of its message.
    pub(super) fn encode(&self, attributes: &mut Attributes) {
        let table = table_name(self.table);
        match &self.target {
            RemovalTarget::Rule(chain, handle) => {
                attributes.text(RULE_TABLE, table);
                attributes.text(RULE_CHAIN, chain);
                attributes.bytes(RULE_HANDLE, &handle.to_be_bytes());
            }
            RemovalTarget::Rules(chain) => {
                attributes.text(RULE_TABLE, table);
                attributes.text(RULE_CHAIN, chain);
            }
            RemovalTarget::Chain(chain) => {
                attributes.text(CHAIN_TABLE, table);
                attributes.text(CHAIN_NAME, chain);
            }
            RemovalTarget::Table => attributes.text(TABLE_NAME, table),
        }
    }
}

/// Writes the nft command.
impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = if self.family == Family::V4 { "ip" } else { "ip6" };
        let table = table_name(self.table);
        match &self.target {
            RemovalTarget::Rule(chain, handle) => {
                write!(f, "delete rule {family} {table} {chain} handle {handle}")
            }
            RemovalTarget::Rules(chain) => write!(f, "flush chain {family} {table} {chain}"),
            RemovalTarget::Chain(chain) => write!(f, "delete chain {family} {table} {chain}"),
            RemovalTarget::Table => write!(f, "delete table {family} {table}"),
        }
    }
}

// NFTA_MATCH_….
const MATCH_NAME: u16 = 1;
const MATCH_INFO: u16 = 3;
/// `NF_ACCEPT`.
const ACCEPT: [u8; 4] = [0, 0, 0, 1];
