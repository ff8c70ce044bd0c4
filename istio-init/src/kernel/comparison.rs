//! Whether the kernel has a plan's rules already.
//!
//! What the kernel lists is compared with what a transaction would send. Anything that differs,
//! be it only how another kernel lists the same rule, counts as a difference: then the rules are
//! replaced, which is right in any case.

use rustix::io::Errno;

use super::KernelError;
use super::installed::Installed;
use super::message::{
    Attribute, DONE, DUMP, ERROR, Header, INTERRUPTED, Messages, attribute, attributes, outcome,
    received,
};
use super::nf_tables::{
    CHAIN_HOOK, CHAIN_TABLE, ELEMENTS_SET, EXPRESSION_DATA, EXPRESSION_NAME, FIXED_LENGTH,
    GET_CHAIN, GET_ELEMENTS, GET_RULE, INET, LOOKUP_FLAGS, LOOKUP_REGISTER, LOOKUP_SET, RULE_CHAIN,
    RULE_EXPRESSIONS, RULE_TABLE, message_type,
};
use super::set::{self, Set};
use super::socket::{RECEIVE_BUFFER, Socket};
use super::transaction::{chain_message, rule_message};
use crate::plan::{Chain, Plan, Table};

/// Whether the plan's tables are there, with its chains and rules, and nothing else in them.
pub(super) fn is_in_force(
    socket: &Socket,
    installed: &Installed,
    plan: &Plan,
) -> Result<bool, KernelError> {
    if installed.is_dormant || !plan.tables().eq(installed.tables.iter().copied()) {
        return Ok(false);
    }
    for table in plan.tables() {
        let list = |kind, set: Option<&[u8]>| {
            list(socket, kind, table, set).map_err(|errno| KernelError::ListRules(errno.into()))
        };
        if !has_chains(plan, table, &list(GET_CHAIN, None)?) {
            return Ok(false);
        }
        let Some(sets) = matching_rules(plan, table, &list(GET_RULE, None)?) else {
            return Ok(false);
        };
        for (name, set) in sets {
            if !set.is_listed(&list(GET_ELEMENTS, Some(&name))?) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// The attributes of each chain or rule of a table, or of the elements of a set; none when they
/// change in the meantime.
fn list(
    socket: &Socket,
    kind: u16,
    table: Table,
    set: Option<&[u8]>,
) -> Result<Vec<Vec<u8>>, Errno> {
    let mut request = Messages::default();
    let header = Header { kind: message_type(kind), flags: DUMP, sequence: 1 };
    // The kernel lists all chains of the family, but the rules of this table alone.
    request.push(header, &INET, |a| {
        a.text(RULE_TABLE, table.name());
        if let Some(name) = set {
            a.bytes(ELEMENTS_SET, name);
        }
    });
    socket.send(request.as_bytes())?;
    let mut listed = Vec::new();
    let mut is_interrupted = false;
    let mut buffer = vec![0; RECEIVE_BUFFER];
    loop {
        for message in received(socket.receive(&mut buffer)?) {
            is_interrupted |= message.flags & INTERRUPTED != 0;
            match message.kind {
                DONE if is_interrupted => return Ok(Vec::new()),
                DONE => return Ok(listed),
                ERROR => outcome(message.payload)?,
                _ => listed.extend(message.payload.get(FIXED_LENGTH..).map(<[u8]>::to_vec)),
            }
        }
    }
}

fn has_chains(plan: &Plan, table: Table, listed: &[Vec<u8>]) -> bool {
    let name = with_zero(table.name());
    let of_this_table = |chain: &&Vec<u8>| attribute(chain, CHAIN_TABLE) == Some(&*name);
    let listed: Vec<&Vec<u8>> = listed.iter().filter(of_this_table).collect();
    let is_listed = |chain: Chain| {
        let is_same = |listed: &Vec<u8>| {
            let is_base = attribute(listed, CHAIN_HOOK).is_some();
            is_base == chain.base(table).is_some()
                && is_part(&sent(&chain_message(table, chain)), listed, is_same_value)
        };
        listed.iter().copied().any(is_same)
    };
    plan.chains(table).count() == listed.len() && plan.chains(table).all(is_listed)
}

/// The sets of the listed rules by name, with what is to be in them; `None` when the rules are
/// not those of the plan. Rules of one chain are listed in their order; chains are in any.
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

/// The attributes of the last message; those before it are of sets.
fn sent(message: &Messages) -> Vec<u8> {
    let payload = received(message.as_bytes()).last().map(|message| message.payload);
    payload.and_then(|payload| payload.get(FIXED_LENGTH..)).unwrap_or_default().to_vec()
}

/// Whether all that was sent is listed. The kernel lists more, such as handles and uses.
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
    // A counter has counted.
    let counts = name == Some(&*with_zero("counter"));
    let data = |bytes| attribute(bytes, EXPRESSION_DATA).unwrap_or_default();
    if name == attribute(listed, EXPRESSION_NAME) && is_lookup(sent) {
        // The kernel names the set; what is in it is compared apart.
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
