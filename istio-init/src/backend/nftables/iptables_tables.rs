//! Tables of iptables in a network namespace, found without running iptables.
//!
//! iptables creates a table when it lists it, and a legacy table exists as long as the namespace.
//! So only existing tables are listed.

use std::fs;

use rustix::io::Errno;

use crate::netlink::dump::dump;
use crate::netlink::message::{
    ERROR, Header, Messages, attribute, family_from_number, family_number, outcome, received,
};
use crate::netlink::nf_tables::{
    CHAIN_TABLE, FIXED_LENGTH, GET_CHAIN, GET_TABLE, RULE_TABLE, TABLE_NAME, TABLE_USES,
    is_no_nf_tables, message_type,
};
use crate::netlink::socket::{RECEIVE_BUFFER, Socket};
use crate::plan::Table;
use crate::render::iptables::table_name;
use crate::types::family::Family;
use crate::types::iptables_variant::Variant;

/// Tables of iptables in this namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tables {
    pub(crate) existing: Vec<(Variant, Family, Table)>,
    /// True if the kernel has `nf_tables`.
    pub(crate) answers: bool,
}

impl Tables {
    /// Reads from the kernel. Without `nf_tables`, there are only legacy tables.
    pub(crate) fn read(socket: Option<&Socket>) -> Result<Self, Errno> {
        let mut tables = Self::default();
        match socket.map(|socket| list(socket, GET_CHAIN, UNSPECIFIED, "")) {
            Some(Ok(chains)) => {
                tables.answers = true;
                tables.add_nf_tables(&chains);
            }
            Some(Err(errno)) if !is_no_nf_tables(errno) => return Err(errno),
            _ => {}
        }
        for (family, file) in LEGACY_NAMES {
            // Readable by root only, like iptables-legacy itself.
            let names = fs::read_to_string(file).unwrap_or_default();
            let named = |table: &Table| names.lines().any(|name| name == table_name(*table));
            let found = Table::ALL.into_iter().filter(named);
            tables.existing.extend(found.map(|table| (Variant::Legacy, family, table)));
        }
        Ok(tables)
    }

    /// Returns the tables that a variant has in a family.
    pub(crate) fn in_family(
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
            let of = chain.text(CHAIN_TABLE);
            let Some(table) = Table::ALL.into_iter().find(|table| table_name(*table) == of) else {
                continue;
            };
            let entry = (Variant::Nft, family, table);
            if !self.existing.contains(&entry) {
                self.existing.push(entry);
            }
        }
    }
}

/// Lists the `nf_tables` chains of all families; empty if the kernel has no `nf_tables`.
pub(crate) fn chains(socket: &Socket) -> Result<Vec<Entry>, Errno> {
    match list(socket, GET_CHAIN, UNSPECIFIED, "") {
        Err(errno) if is_no_nf_tables(errno) => Ok(Vec::new()),
        listed => listed,
    }
}

/// Returns a table's use count: chains, sets and other objects.
pub(crate) fn uses(socket: &Socket, family: Family, table: Table) -> Result<Option<u32>, Errno> {
    let mut request = Messages::default();
    let header = Header { kind: message_type(GET_TABLE), flags: 0, sequence: 1 };
    request
        .push(header, &[family_number(family), 0, 0, 0], |a| a.text(TABLE_NAME, table_name(table)));
    socket.send(request.as_bytes())?;
    let mut buffer = vec![0; RECEIVE_BUFFER];
    let Some(answer) = received(socket.receive(&mut buffer)?).next() else { return Ok(None) };
    if answer.kind == ERROR {
        outcome(answer.payload)?;
    }
    let uses = attribute(answer.payload.get(FIXED_LENGTH..).unwrap_or_default(), TABLE_USES);
    Ok(uses.and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes))
}

/// A chain or a rule, as the kernel lists it.
pub(crate) struct Entry(Vec<u8>);

impl Entry {
    pub(crate) fn family(&self) -> Option<Family> {
        family_from_number(self.family_number())
    }

    /// Returns the family's number, which is neither IPv4's nor IPv6's for tables of both.
    pub(crate) fn family_number(&self) -> u8 {
        self.0.first().copied().unwrap_or(UNSPECIFIED)
    }

    pub(crate) fn value(&self, kind: u16) -> Option<&[u8]> {
        attribute(self.0.get(FIXED_LENGTH..)?, kind)
    }

    /// Returns a zero-terminated text attribute.
    pub(crate) fn text(&self, kind: u16) -> String {
        let value = self.value(kind).unwrap_or_default();
        String::from_utf8_lossy(value.strip_suffix(&[0]).unwrap_or(value)).into_owned()
    }
}

/// Returns the chains or the rules of a table, or of all tables.
pub(crate) fn list(
    socket: &Socket,
    kind: u16,
    family: u8,
    table: &str,
) -> Result<Vec<Entry>, Errno> {
    let listed = dump(socket, message_type(kind), &[family, 0, 0, 0], &|a| {
        if !table.is_empty() {
            a.text(RULE_TABLE, table);
        }
    })?;
    Ok(listed.into_iter().map(Entry).collect())
}

/// The tables that a plan can have something in.
pub(crate) const PLACES: [(Family, Table); 6] = [
    (Family::V4, Table::Nat),
    (Family::V4, Table::Mangle),
    (Family::V4, Table::Raw),
    (Family::V6, Table::Nat),
    (Family::V6, Table::Mangle),
    (Family::V6, Table::Raw),
];
const LEGACY_NAMES: [(Family, &str); 2] =
    [(Family::V4, "/proc/net/ip_tables_names"), (Family::V6, "/proc/net/ip6_tables_names")];
/// `NFPROTO_UNSPEC`.
const UNSPECIFIED: u8 = 0;
