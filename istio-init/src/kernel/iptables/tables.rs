//! Which tables of iptables a namespace has, told by reading alone.
//!
//! Listing a table by iptables makes it when it is not there, and a legacy table stays for as
//! long as the namespace. So only tables are listed that exist.

use std::fs;

use rustix::io::Errno;

use super::tools::Variant;
use crate::family::Family;
use crate::kernel::message::{
    ACK, DONE, DUMP, ERROR, Header, Messages, attribute, outcome, received,
};
use crate::kernel::nf_tables::{
    BATCH, BATCH_BEGIN, BATCH_END, CHAIN_HOOK, CHAIN_NAME, CHAIN_POLICY, CHAIN_TABLE, DELETE_TABLE,
    FIXED_LENGTH, GET_CHAIN, GET_RULE, RULE_TABLE, TABLE_NAME, message_type,
};
use crate::kernel::socket::{RECEIVE_BUFFER, Socket};
use crate::plan::Table;
use crate::render::iptables::{is_our_chain, table_name};

/// Tables of iptables in this namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tables {
    pub(super) existing: Vec<(Variant, Family, Table)>,
    /// Chains of ours in `nf_tables`, as `ip nat ISTIO_OUTPUT`.
    pub(super) our_chains: Vec<String>,
    /// Whether `nf_tables` answers at all.
    pub(super) answers: bool,
}

impl Tables {
    /// Asks the kernel.
    pub(super) fn read(socket: &Socket) -> Result<Self, Errno> {
        let mut tables = Self::default();
        match list(socket, GET_CHAIN, UNSPECIFIED, "") {
            Ok(chains) => {
                tables.answers = true;
                tables.add_nf_tables(&chains);
            }
            // Without nf_tables, or without the capability to ask, there is nothing to find there.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::PROTONOSUPPORT) => {}
            Err(errno) => return Err(errno),
        }
        for (family, file) in LEGACY_NAMES {
            // Only the administrator may read it, as only he may run iptables-legacy.
            let names = fs::read_to_string(file).unwrap_or_default();
            let named = |table: &Table| names.lines().any(|name| name == table_name(*table));
            let found = Table::ALL.into_iter().filter(named);
            tables.existing.extend(found.map(|table| (Variant::Legacy, family, table)));
        }
        Ok(tables)
    }

    /// The tables that a variant has in a family.
    pub(super) fn of(
        &self,
        variant: Variant,
        family: Family,
    ) -> impl Iterator<Item = Table> + use<'_> {
        let is_of = move |(of, ip, table): &(Variant, Family, Table)| {
            (*of == variant && *ip == family).then_some(*table)
        };
        self.existing.iter().filter_map(is_of)
    }

    fn add_nf_tables(&mut self, chains: &[Entry]) {
        for chain in chains {
            let Some(family) = chain.family() else { continue };
            let (name, of) = (chain.text(CHAIN_NAME), chain.text(CHAIN_TABLE));
            let Some(table) = Table::ALL.into_iter().find(|table| table_name(*table) == of) else {
                continue;
            };
            let entry = (Variant::Nft, family, table);
            if !self.existing.contains(&entry) {
                self.existing.push(entry);
            }
            if is_our_chain(&name) {
                let ip = if family == Family::V4 { "ip" } else { "ip6" };
                self.our_chains.push(format!("{ip} {of} {name}"));
            }
        }
    }
}

/// Removes a table that iptables-nft made and that holds nothing but the kernel's chains. They
/// accept everything, as no table does. Others may change it meanwhile: then it stays.
pub(super) fn remove_if_empty(socket: &Socket, family: Family, table: Table) -> Result<(), Errno> {
    let name = table_name(table);
    let accepts = |chain: &Entry| {
        chain.value(CHAIN_HOOK).is_some() && chain.value(CHAIN_POLICY) == Some(&ACCEPT)
    };
    let chains = list(socket, GET_CHAIN, number(family), name)?;
    let chains: Vec<Entry> =
        chains.into_iter().filter(|chain| chain.text(CHAIN_TABLE) == name).collect();
    let is_empty =
        chains.iter().all(accepts) && list(socket, GET_RULE, number(family), name)?.is_empty();
    if !is_empty {
        return Ok(());
    }
    let mut messages = Messages::default();
    let batch = |kind| Header { kind, flags: 0, sequence: 0 };
    messages.push(batch(BATCH_BEGIN), &BATCH, |_| {});
    let header = Header { kind: message_type(DELETE_TABLE), flags: ACK, sequence: 1 };
    messages.push(header, &[number(family), 0, 0, 0], |a| a.text(TABLE_NAME, name));
    messages.push(batch(BATCH_END), &BATCH, |_| {});
    socket.send(messages.as_bytes())?;
    let mut buffer = vec![0; RECEIVE_BUFFER];
    for answer in received(socket.receive(&mut buffer)?).filter(|answer| answer.kind == ERROR) {
        match outcome(answer.payload) {
            Ok(()) | Err(Errno::NOENT | Errno::BUSY) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// A chain or a rule, as the kernel lists it.
struct Entry(Vec<u8>);

impl Entry {
    fn family(&self) -> Option<Family> {
        match self.0.first() {
            Some(&IPV4) => Some(Family::V4),
            Some(&IPV6) => Some(Family::V6),
            _ => None,
        }
    }

    fn value(&self, kind: u16) -> Option<&[u8]> {
        attribute(self.0.get(FIXED_LENGTH..)?, kind)
    }

    /// An attribute of text, without its final zero.
    fn text(&self, kind: u16) -> String {
        let value = self.value(kind).unwrap_or_default();
        String::from_utf8_lossy(value.strip_suffix(&[0]).unwrap_or(value)).into_owned()
    }
}

fn list(socket: &Socket, kind: u16, family: u8, table: &str) -> Result<Vec<Entry>, Errno> {
    let mut request = Messages::default();
    let header = Header { kind: message_type(kind), flags: DUMP, sequence: 1 };
    request.push(header, &[family, 0, 0, 0], |a| {
        if !table.is_empty() {
            a.text(RULE_TABLE, table);
        }
    });
    socket.send(request.as_bytes())?;
    let mut entries = Vec::new();
    let mut buffer = vec![0; RECEIVE_BUFFER];
    loop {
        for message in received(socket.receive(&mut buffer)?) {
            match message.kind {
                DONE => return Ok(entries),
                ERROR => outcome(message.payload)?,
                _ => entries.push(Entry(message.payload.to_vec())),
            }
        }
    }
}

fn number(family: Family) -> u8 {
    match family {
        Family::V4 => IPV4,
        Family::V6 => IPV6,
    }
}

/// Whether the process is the administrator's.
pub(super) fn is_administrator() -> bool {
    rustix::process::geteuid().is_root()
}

const LEGACY_NAMES: [(Family, &str); 2] =
    [(Family::V4, "/proc/net/ip_tables_names"), (Family::V6, "/proc/net/ip6_tables_names")];
/// `NF_ACCEPT`.
const ACCEPT: [u8; 4] = [0, 0, 0, 1];
// NFPROTO_….
const UNSPECIFIED: u8 = 0;
const IPV4: u8 = 2;
const IPV6: u8 = 10;
