//! Reads back what is installed: our tables with their chains and rules, and the address `::6`.

use rustix::io::Errno;

use super::decode;
use super::installed::Installed;
use crate::netlink::attribute_value;
use crate::netlink::attribute_value::Element;
use crate::netlink::dump::dump_inet;
use crate::netlink::error::KernelError;
use crate::netlink::message::{Attributes, attribute, attributes};
use crate::netlink::nf_tables::{
    CHAIN_HOOK, CHAIN_NAME, CHAIN_POLICY, CHAIN_TABLE, CHAIN_TYPE, ELEMENT_FLAGS, ELEMENT_KEY,
    ELEMENTS, ELEMENTS_SET, ELEMENTS_TABLE, GET_CHAIN, GET_ELEMENTS, GET_RULE, HOOK_NUMBER,
    HOOK_PRIORITY, RULE_CHAIN, RULE_TABLE, VALUE,
};
use crate::netlink::socket::Socket;
use crate::plan::{Chain, Table};
use crate::verify::observed::{Observed, ObservedChain, ObservedTable};

/// Reads the capture setup of this network namespace.
pub fn observe() -> Result<Observed, KernelError> {
    let socket = Socket::netfilter()?;
    let installed = Installed::read(&socket)?;
    let tables = installed.tables.iter().map(|table| read_table(&socket, *table, &installed));
    let tables =
        tables.collect::<Result<_, _>>().map_err(|errno| KernelError::ListRules(errno.into()))?;
    crate::backend::prerequisites::observe_with(tables)
}

/// True if the namespace has own tables.
pub fn has_tables() -> Result<bool, KernelError> {
    match Socket::netfilter().and_then(|socket| Installed::read(&socket)) {
        Err(error) if error.is_no_nf_tables() => Ok(false),
        installed => Ok(!installed?.tables.is_empty()),
    }
}

/// True if iptables-nft has rules of an earlier run.
pub fn has_iptables_nft_rules() -> Result<bool, KernelError> {
    match Socket::netfilter().and_then(|socket| super::iptables_nft_removals(&socket)) {
        Err(error) if error.is_no_nf_tables() => Ok(false),
        leftovers => Ok(!leftovers?.is_empty()),
    }
}

fn read_table(
    socket: &Socket,
    table: Table,
    installed: &Installed,
) -> Result<ObservedTable, Errno> {
    let name = |a: &mut Attributes| a.text(RULE_TABLE, table.name());
    let chains = dump_inet(socket, GET_CHAIN, &name)?;
    let rules = dump_inet(socket, GET_RULE, &name)?;
    let sets = |set: &str| elements(socket, table, set).ok();
    let is_here = |chain: &&Vec<u8>| text_of(chain, CHAIN_TABLE) == Some(table.name());
    let mut chains: Vec<ObservedChain> = chains
        .iter()
        .filter(is_here)
        .filter_map(|chain| {
            let name = text_of(chain, CHAIN_NAME)?;
            let of_chain = |rule: &&Vec<u8>| text_of(rule, RULE_CHAIN) == Some(name);
            let rules = rules.iter().filter(of_chain);
            let rules = rules.map(|rule| decode::rule(table, rule, &sets)).collect();
            Some(ObservedChain { name: name.to_owned(), base: base(chain), rules })
        })
        .collect();
    let place = |name: &str| Chain::ALL.iter().position(|chain| chain.name() == name);
    chains.sort_by_key(|chain| place(&chain.name).unwrap_or(usize::MAX));
    Ok(ObservedTable { table, is_dormant: installed.is_dormant, chains })
}

/// Returns type, hook and priority of a base chain in nft's syntax, and its policy if it drops.
pub(super) fn base(chain: &[u8]) -> Option<String> {
    let hook = attribute(chain, CHAIN_HOOK)?;
    let kind = text_of(chain, CHAIN_TYPE).unwrap_or("?");
    let place = match attribute_value::number(hook, HOOK_NUMBER) {
        Some(0) => "prerouting".to_owned(),
        Some(3) => "output".to_owned(),
        other => format!("{other:?}"),
    };
    let priority = attribute_value::number(hook, HOOK_PRIORITY).map_or(0, u32::cast_signed);
    let policy = match attribute_value::number(chain, CHAIN_POLICY) {
        Some(0) => "; policy drop",
        _ => "",
    };
    Some(format!("type {kind} hook {place} priority {priority}{policy}"))
}

fn elements(socket: &Socket, table: Table, set: &str) -> Result<Vec<Element>, Errno> {
    let messages = dump_inet(socket, GET_ELEMENTS, &|a| {
        a.text(ELEMENTS_TABLE, table.name());
        a.text(ELEMENTS_SET, set);
    })?;
    Ok(elements_of(&messages))
}

/// Parses the elements of a set. For ranges, the kernel lists the first value of each and the value
/// after its last.
pub(super) fn elements_of(messages: &[Vec<u8>]) -> Vec<Element> {
    let mut listed: Vec<(Vec<u8>, bool)> = messages
        .iter()
        .filter_map(|message| attribute(message, ELEMENTS))
        .flat_map(attributes)
        .filter_map(|element| {
            let key = attribute(attribute(element.value, ELEMENT_KEY)?, VALUE)?;
            let flags = attribute_value::number(element.value, ELEMENT_FLAGS).unwrap_or(0);
            Some((key.to_vec(), flags & ELEMENT_ENDS != 0))
        })
        .collect();
    if !listed.iter().any(|(_, ends)| *ends) {
        return listed.into_iter().map(|(key, _)| (key.clone(), key)).collect();
    }
    // At the same key, one range ends before the next begins.
    listed.sort_by(|(one, one_ends), (other, other_ends)| {
        one.cmp(other).then(other_ends.cmp(one_ends))
    });
    let mut ranges = Vec::new();
    let mut begun: Option<Vec<u8>> = None;
    for (key, ends) in listed {
        if ends {
            ranges.extend(begun.take().map(|first| (first, before(&key))));
        } else {
            begun = Some(key);
        }
    }
    ranges.extend(begun.map(|first| (first.clone(), vec![0xff; first.len()])));
    ranges
}

/// Returns the preceding number.
fn before(key: &[u8]) -> Vec<u8> {
    let mut key = key.to_vec();
    for byte in key.iter_mut().rev() {
        let (less, borrows) = byte.overflowing_sub(1);
        *byte = less;
        if !borrows {
            break;
        }
    }
    key
}

fn text_of(attributes: &[u8], kind: u16) -> Option<&str> {
    attribute(attributes, kind).and_then(attribute_value::text)
}

/// `NFT_SET_ELEM_INTERVAL_END`.
const ELEMENT_ENDS: u32 = 1;
