//! Comparison of the kernel's rules with the messages that would install a plan.
//!
//! Any difference counts, including one in how a kernel lists the same rule: then the rules are
//! replaced, which is always safe.

use super::installed::{Installed, ReusableTable};
use super::set;
use super::set::Set;
use super::transaction::{chain_message, rule_message};
use crate::netlink::attribute_value;
use crate::netlink::dump::dump_inet;
use crate::netlink::error::KernelError;
use crate::netlink::message::{Attribute, Messages, attribute, attributes, received};
use crate::netlink::nf_tables::{
    CHAIN_HOOK, CHAIN_NAME, CHAIN_TABLE, ELEMENTS_SET, EXPRESSION_DATA, EXPRESSION_NAME,
    FIXED_LENGTH, GET_CHAIN, GET_ELEMENTS, GET_RULE, GET_SET, LOOKUP_FLAGS, LOOKUP_REGISTER,
    LOOKUP_SET, RULE_CHAIN, RULE_EXPRESSIONS, RULE_TABLE,
};
use crate::netlink::socket::Socket;
use crate::plan::{Chain, Plan, Table};

/// True if the kernel has the plan's tables, chains and rules, and nothing else in these tables.
pub(super) fn is_in_force(
    socket: &Socket,
    installed: &Installed,
    plan: &Plan,
) -> Result<bool, KernelError> {
    if installed.is_dormant || !plan.tables().eq(installed.tables.iter().copied()) {
        return Ok(false);
    }
    for table in plan.tables() {
        if !has_chains(plan, table, &chains(socket, table)?) {
            return Ok(false);
        }
        let rules = list(socket, GET_RULE, table, None)?;
        let Some(sets) = matching_rules(plan, table, &rules) else {
            return Ok(false);
        };
        for (name, set) in sets {
            if !set.is_listed(&list(socket, GET_ELEMENTS, table, Some(&name))?) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Returns the installed tables that can be kept: planned chains have the planned hook, and no
/// objects but rules refer to chains.
pub(super) fn reusable_tables(
    socket: &Socket,
    installed: &Installed,
    plan: &Plan,
) -> Result<Vec<ReusableTable>, KernelError> {
    let mut reusable = Vec::new();
    if installed.is_dormant {
        return Ok(reusable);
    }
    for table in plan.tables().filter(|table| installed.tables.contains(table)) {
        let sets = list(socket, GET_SET, table, None)?;
        let chains: Option<Vec<String>> = chains(socket, table)?
            .iter()
            .map(|listed| reusable_chain(plan, table, listed))
            .collect();
        if let Some(chains) = chains.filter(|_| sets.iter().all(|set| set::is_anonymous(set))) {
            reusable.push(ReusableTable { table, chains });
        }
    }
    Ok(reusable)
}

/// Returns the chain's name; `None` if the plan has a different chain of this name.
fn reusable_chain(plan: &Plan, table: Table, listed: &[u8]) -> Option<String> {
    let name = attribute_value::text(attribute(listed, CHAIN_NAME)?)?;
    let planned = plan.chains(table).find(|chain| chain.name() == name);
    planned.is_none_or(|chain| is_chain(table, chain, listed)).then(|| name.to_owned())
}

/// Lists the attributes of each chain or rule of a table, or of a set's elements.
fn list(
    socket: &Socket,
    kind: u16,
    table: Table,
    set: Option<&[u8]>,
) -> Result<Vec<Vec<u8>>, KernelError> {
    // The kernel lists the chains of all tables, but rules and sets of this table only.
    let listed = dump_inet(socket, kind, &|a| {
        a.text(RULE_TABLE, table.name());
        if let Some(name) = set {
            a.bytes(ELEMENTS_SET, name);
        }
    });
    listed.map_err(|errno| KernelError::ListRules(errno.into()))
}

/// Lists the chains of the table; the kernel lists those of all tables.
fn chains(socket: &Socket, table: Table) -> Result<Vec<Vec<u8>>, KernelError> {
    let name = with_zero(table.name());
    let mut listed = list(socket, GET_CHAIN, table, None)?;
    listed.retain(|chain| attribute(chain, CHAIN_TABLE) == Some(&*name));
    Ok(listed)
}

fn has_chains(plan: &Plan, table: Table, listed: &[Vec<u8>]) -> bool {
    let is_listed = |chain| listed.iter().any(|listed| is_chain(table, chain, listed));
    plan.chains(table).count() == listed.len() && plan.chains(table).all(is_listed)
}

/// True if the listed chain has this name and this hook.
fn is_chain(table: Table, chain: Chain, listed: &[u8]) -> bool {
    let is_base = attribute(listed, CHAIN_HOOK).is_some();
    is_base == chain.base(table).is_some()
        && is_part(&sent(&chain_message(table, chain)), listed, is_same_value)
}

/// Returns the sets of the listed rules by name, with their planned elements; `None` if the rules
/// are not those of the plan. The kernel lists the rules of a chain in order, and chains in any
/// order.
fn matching_rules(plan: &Plan, table: Table, listed: &[Vec<u8>]) -> Option<Vec<(Vec<u8>, Set)>> {
    if plan.rules.iter().filter(|rule| rule.table == table).count() != listed.len() {
        return None;
    }
    let mut found = Vec::new();
    for chain in plan.chains(table) {
        let name = with_zero(chain.name());
        let of_chain = |rule: &&Vec<u8>| attribute(rule, RULE_CHAIN) == Some(&*name);
        let mut listed = listed.iter().filter(of_chain);
        for rule in plan.rules.iter().filter(|rule| (rule.table, rule.chain) == (table, chain)) {
            let listed = listed.next()?;
            if !is_part(&sent(&rule_message(rule)), listed, is_same_in_rules) {
                return None;
            }
            found.extend(set_names(listed).into_iter().zip(set::sets(rule)));
        }
    }
    Some(found)
}

fn set_names(listed: &[u8]) -> Vec<Vec<u8>> {
    let expressions = attribute(listed, RULE_EXPRESSIONS).unwrap_or_default();
    let lookups = attributes(expressions).filter(|expression| is_lookup(expression.value));
    let name = |expression: Attribute| {
        attribute(attribute(expression.value, EXPRESSION_DATA)?, LOOKUP_SET).map(<[u8]>::to_vec)
    };
    lookups.filter_map(name).collect()
}

fn is_lookup(expression: &[u8]) -> bool {
    attribute(expression, EXPRESSION_NAME) == Some(&*with_zero("lookup"))
}

/// Returns the attributes of the last message; those before it are of sets.
fn sent(message: &Messages) -> Vec<u8> {
    let payload = received(message.as_bytes()).last().map(|message| message.payload);
    payload.and_then(|payload| payload.get(FIXED_LENGTH..)).unwrap_or_default().to_vec()
}

/// True if the listed attributes include all that were sent. The kernel lists more, such as handles
/// and use counts.
fn is_part(sent: &[u8], listed: &[u8], is_same: impl Fn(Attribute, &[u8]) -> bool) -> bool {
    attributes(sent)
        .all(|ours| attribute(listed, ours.kind).is_some_and(|theirs| is_same(ours, theirs)))
}

fn is_same_in_rules(sent: Attribute, listed: &[u8]) -> bool {
    if sent.kind == RULE_EXPRESSIONS {
        are_same_expressions(sent.value, listed)
    } else {
        is_same_value(sent, listed)
    }
}

fn are_same_expressions(sent: &[u8], listed: &[u8]) -> bool {
    let (ours, theirs) = (attributes(sent), attributes(listed));
    ours.clone().count() == theirs.clone().count()
        && ours.zip(theirs).all(|(ours, theirs)| is_same_expression(ours.value, theirs.value))
}

fn is_same_expression(sent: &[u8], listed: &[u8]) -> bool {
    let name = attribute(sent, EXPRESSION_NAME);
    // The counter's values differ.
    let counts = name == Some(&*with_zero("counter"));
    let data = |bytes| attribute(bytes, EXPRESSION_DATA).unwrap_or_default();
    if name == attribute(listed, EXPRESSION_NAME) && is_lookup(sent) {
        // The kernel names the set; its elements are compared separately.
        let part = |bytes, kind| attribute(data(bytes), kind);
        return [LOOKUP_REGISTER, LOOKUP_FLAGS]
            .iter()
            .all(|kind| part(sent, *kind) == part(listed, *kind));
    }
    name == attribute(listed, EXPRESSION_NAME) && (counts || are_same(data(sent), data(listed)))
}

fn are_same(sent: &[u8], listed: &[u8]) -> bool {
    attributes(sent).count() == attributes(listed).count() && is_part(sent, listed, is_same_value)
}

fn is_same_value(sent: Attribute, listed: &[u8]) -> bool {
    if sent.is_nested { are_same(sent.value, listed) } else { sent.value == listed }
}

fn with_zero(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}
