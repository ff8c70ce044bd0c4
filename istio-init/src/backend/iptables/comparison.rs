//! Line-by-line comparison of installed iptables rules with a plan.

use super::listing::{KERNELS_CHAINS, Listing, terms};
use crate::plan::{Chain, Plan, Table};
use crate::render::iptables::{chain_name, sections, table_name};
use crate::types::family::Family;
use crate::verify::{Side, differing};

/// A line of a listing. Lines with the same key are equal, however they are spelled.
#[derive(Clone, Debug)]
struct Line {
    key: Vec<String>,
    text: String,
}

impl PartialEq for Line {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

/// Compares lines of the plan with listed ones. Ignores rules that this program did not install.
pub(super) fn compared(plan: &Plan, listings: &[(Family, Listing)]) -> Vec<(Side, String)> {
    let sided = differing(&planned(plan), &installed(listings)).into_iter();
    sided.map(|(side, line)| (side, line.text)).collect()
}

fn planned(plan: &Plan) -> Vec<Line> {
    let mut lines = Vec::new();
    for family in [Family::V4, Family::V6] {
        for section in sections(plan, family) {
            lines.push(heading(format!("{family} table {}", table_name(section.table))));
            for chain in chains_in_order(|name| {
                section.chains.iter().any(|chain| chain == name)
                    || section.lines.iter().any(|line| line.chain == name)
            }) {
                lines.push(heading(format!("  chain {chain}")));
                let rules = section.lines.iter().filter(|line| line.chain == chain);
                lines.extend(rules.map(|line| rule(&line.rule)));
            }
        }
    }
    lines
}

fn installed(listings: &[(Family, Listing)]) -> Vec<Line> {
    let mut lines = Vec::new();
    // Same order as the planned lines.
    let places = [Family::V4, Family::V6]
        .into_iter()
        .flat_map(|family| [Table::Mangle, Table::Nat, Table::Raw].map(|table| (family, table)));
    let listed = places.filter_map(|(family, table)| {
        listings.iter().find(|(of, listing)| (*of, listing.table) == (family, table))
    });
    for (family, listing) in listed.filter(|(_, listing)| listing.has_own_rules()) {
        lines.push(heading(format!("{family} table {}", table_name(listing.table))));
        for chain in chains_in_order(|name| {
            listing.chains().any(|chain| chain == name)
                || listing.entry_rules().any(|(chain, _)| chain == name)
        }) {
            lines.push(heading(format!("  chain {chain}")));
            if KERNELS_CHAINS.contains(&&*chain) {
                let entry_rules = listing.entry_rules().filter(|(of, _)| *of == chain);
                lines.extend(entry_rules.map(|(_, text)| rule(text)));
            } else {
                lines.extend(listing.rules_of(&chain).map(rule));
            }
        }
        let elsewhere = listing.entry_rules().filter(|(chain, _)| !KERNELS_CHAINS.contains(chain));
        lines.extend(elsewhere.map(|(chain, text)| heading(format!("  -A {chain} {text}"))));
    }
    lines
}

fn chains_in_order(is_there: impl Fn(&str) -> bool) -> Vec<String> {
    Chain::ALL.into_iter().map(chain_name).filter(|name| is_there(name)).collect()
}

fn heading(text: String) -> Line {
    Line { key: vec![text.clone()], text }
}

fn rule(text: &str) -> Line {
    Line { key: terms(text), text: format!("    {text}") }
}
