//! Parsers of iptables listings, for fuzz targets.

use super::listing::{Change, Listing, terms};
use super::parse;
use crate::plan::Table;
use crate::types::family::Family;
use crate::verify::observed::ObservedTable;

/// Parses listings: family, table, and the output of `iptables -S`.
///
/// Returns the tables, and the foreign rules that are left out.
pub fn observed(listings: &[(Family, Table, String)]) -> (Vec<ObservedTable>, Vec<String>) {
    let listings = listings.iter().map(|(family, table, text)| (*family, listing(*table, text)));
    parse::observed(&listings.collect::<Vec<_>>())
}

/// Returns the input for `iptables-restore` that removes this program's rules.
pub fn removal(table: Table, text: &str) -> String {
    Change::between(&[&listing(table, text)], &[]).text
}

/// Returns a rule's conditions and target in the normal form used for comparison.
pub fn compared(rule: &str) -> Vec<String> {
    terms(rule)
}

fn listing(table: Table, text: &str) -> Listing {
    Listing { table, lines: text.lines().map(str::to_owned).collect() }
}
