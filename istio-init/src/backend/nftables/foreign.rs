//! Chains of other owners in `nf_tables`, those of iptables-nft included.

use rustix::io::Errno;

use super::expression::{
    ACCEPT, CODE, CODE_CHAIN, DROP, GOTO, IMMEDIATE_VALUE, JUMP, RETURN, VERDICT, VERDICT_REGISTER,
};
use super::iptables_nft_cleanup::is_entry_rule;
use super::iptables_tables;
use super::iptables_tables::Entry;
use super::transaction::hook_number;
use crate::backend::Installer;
use crate::backend::foreign::{Effect, ForeignChain, can_decide, last_priority, target_effect};
use crate::netlink::attribute_value::{number, text};
use crate::netlink::error::KernelError;
use crate::netlink::message::{attribute, attributes, family_from_number};
use crate::netlink::nf_tables::{
    CHAIN_HOOK, CHAIN_NAME, CHAIN_POLICY, CHAIN_TABLE, EXPRESSION_DATA, EXPRESSION_NAME, GET_RULE,
    HOOK_NUMBER, HOOK_PRIORITY, INET, LOOKUP_TARGET, RULE_CHAIN, RULE_EXPRESSIONS,
};
use crate::netlink::socket::Socket;
use crate::plan::{Chain, Hook, Plan, Table};
use crate::render::iptables::{chain_name, families};
use crate::types::iptables_variant::Variant;

/// Returns the foreign chains that can decide before the rules of a plan.
pub fn foreign_chains(plan: &Plan) -> Result<Vec<ForeignChain>, KernelError> {
    let socket = match Socket::netfilter() {
        Err(error) if error.is_no_nf_tables() => return Ok(Vec::new()),
        socket => socket?,
    };
    read(&socket, plan).map_err(|errno| KernelError::ListRules(errno.into()))
}

fn read(socket: &Socket, plan: &Plan) -> Result<Vec<ForeignChain>, Errno> {
    let mut found = Vec::new();
    for listed in iptables_tables::chains(socket)? {
        let Some(chain) = early_chain(&listed, plan) else { continue };
        let number = listed.family_number();
        let rules = iptables_tables::list(socket, GET_RULE, number, &chain.table)?;
        let of_chain = |name: &str| {
            let name = name.to_owned();
            rules.iter().filter(move |rule| rule.text(RULE_CHAIN) == name)
        };
        let effects = |name: &str| {
            of_chain(name).take_while(|rule| !is_entry_rule(rule)).flat_map(effects).collect()
        };
        let is_shared = of_chain(&chain.chain).any(is_entry_rule);
        let drops_rest = !is_shared && listed.value(CHAIN_POLICY) == Some(&DROP.to_be_bytes());
        if drops_rest || can_decide(&effects, &chain.chain, is_shared) {
            found.push(chain);
        }
    }
    Ok(found)
}

/// Returns the chain if packets of the plan's families can pass it before the plan's last rules, and
/// it is not in an own table.
fn early_chain(listed: &Entry, plan: &Plan) -> Option<ForeignChain> {
    let base = listed.value(CHAIN_HOOK)?;
    let of_hook = number(base, HOOK_NUMBER)?;
    let hook =
        [Hook::Prerouting, Hook::Output].into_iter().find(|it| hook_number(*it) == of_hook)?;
    let priority = number(base, HOOK_PRIORITY)?.cast_signed();
    let (table, chain) = (listed.text(CHAIN_TABLE), listed.text(CHAIN_NAME));
    let is_inet = listed.family_number() == INET[0];
    let family = family_from_number(listed.family_number());
    let is_own = is_inet && Table::ALL.iter().any(|own| own.name() == table);
    let is_captured = is_inet || families(plan).contains(&family?);
    if is_own || !is_captured || priority > last_priority(plan, hook)? {
        return None;
    }
    let is_built_in = || [Chain::Prerouting, Chain::Output].map(chain_name).contains(&chain);
    let owner = if !is_inet && is_built_in() {
        Installer::Iptables(Variant::Nft)
    } else {
        Installer::Nftables
    };
    Some(ForeignChain { owner, family, table, chain, hook, priority })
}

/// Returns the effects of a rule's expressions.
fn effects(rule: &Entry) -> Vec<Effect> {
    let list = rule.value(RULE_EXPRESSIONS).unwrap_or_default();
    let effect = |expression: &[u8]| {
        let data = attribute(expression, EXPRESSION_DATA).unwrap_or_default();
        match attribute(expression, EXPRESSION_NAME).and_then(text)? {
            "immediate" => verdict(data),
            "lookup" if number(data, LOOKUP_TARGET) == Some(VERDICT_REGISTER) => {
                Some(Effect::Decide)
            }
            "fwd" | "nat" | "notrack" | "queue" | "redir" | "reject" | "tproxy" => {
                Some(Effect::Decide)
            }
            "target" => {
                let info = attribute(data, TARGET_INFO).unwrap_or_default();
                let flags = info.first_chunk().map_or(0, |bytes| u16::from_ne_bytes(*bytes));
                let is_untracked = flags & UNTRACKED != 0;
                target_effect(attribute(data, TARGET_NAME).and_then(text)?, is_untracked)
            }
            _ => None,
        }
    };
    attributes(list).filter_map(|expression| effect(expression.value)).collect()
}

fn verdict(data: &[u8]) -> Option<Effect> {
    let verdict = attribute(attribute(data, IMMEDIATE_VALUE)?, VERDICT)?;
    let chain = || attribute(verdict, CODE_CHAIN).and_then(text).map(str::to_owned);
    Some(match i32::from_be_bytes(attribute(verdict, CODE)?.try_into().ok()?) {
        DROP => Effect::Decide,
        ACCEPT => Effect::Accept,
        RETURN => Effect::Return,
        JUMP => Effect::Jump(chain()?),
        GOTO => Effect::Goto(chain()?),
        _ => return None,
    })
}

// NFTA_TARGET_….
const TARGET_NAME: u16 = 1;
const TARGET_INFO: u16 = 3;
/// `XT_CT_NOTRACK`.
const UNTRACKED: u16 = 1;
