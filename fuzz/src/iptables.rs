//! Output of `iptables -S`.

use istio_init::backend::iptables::fuzzing::{compared, observed, removal};
use istio_init::plan::{Plan, Rule, Table};
use istio_init::render::iptables::{families, is_our_chain, sections, table_name};
use istio_init::types::family::Family;
use istio_init::verify::observed::{Observed, ObservedRule};

use crate::plans;

/// Fuzzes listings, each after a line such as `* v4 nat`.
pub fn listings(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut listings: Vec<(Family, Table, String)> = Vec::new();
    for line in text.lines().take(MOST_LINES) {
        match line.strip_prefix("* ").and_then(header) {
            Some((family, table)) => listings.push((family, table, String::new())),
            None => {
                if let Some((_, _, text)) = listings.last_mut() {
                    *text += &[line, "\n"].concat();
                }
            }
        }
    }
    for (_, table, text) in &listings {
        keeps_foreign_rules(text, &removal(*table, text));
    }
    let Some(found) = planned(&listings) else { return };
    plans::check(&found);
    // A part of the parsed rules may be unreachable; the rendered plan is complete.
    let Some(whole) = planned(&written(&found)) else { return };
    let again = planned(&written(&whole)).map(|plan| in_order(plan.rules));
    assert_eq!(again, Some(in_order(whole.rules)), "what is installed is read as something else");
}

fn header(words: &str) -> Option<(Family, Table)> {
    let (family, table) = words.split_once(' ')?;
    let family = match family {
        "v4" => Family::V4,
        "v6" => Family::V6,
        _ => return None,
    };
    Some((family, Table::ALL.into_iter().find(|it| table_name(*it) == table)?))
}

/// Each line removes an own listed rule, or creates, empties or removes an own chain.
fn keeps_foreign_rules(listed: &str, removal: &str) {
    for line in removal.lines() {
        let chain = line.strip_prefix(':').and_then(|line| line.strip_suffix(" - [0:0]"));
        let is_ours = if let Some(chain) = chain.or_else(|| line.strip_prefix("-X ")) {
            is_our_chain(chain) && listed.lines().any(|line| line == format!("-N {chain}"))
        } else if let Some(rule) = line.strip_prefix("-D ") {
            listed.lines().any(|line| line == format!("-A {rule}"))
        } else {
            line == "COMMIT" || line.starts_with("* ")
        };
        assert!(is_ours, "{line:?}");
    }
}

fn planned(listings: &[(Family, Table, String)]) -> Option<Plan> {
    let (tables, _) = observed(listings);
    for rule in tables.iter().flat_map(|table| &table.chains).flat_map(|chain| &chain.rules) {
        if let ObservedRule::Foreign(text) = rule {
            let _ = compared(text);
        }
    }
    Observed { tables, ..Observed::default() }.plan().ok()
}

/// Sorts the conditions of each rule, since iptables has its own order.
fn in_order(mut rules: Vec<Rule>) -> Vec<Rule> {
    for rule in &mut rules {
        rule.matches.sort_by_key(|condition| format!("{condition:?}"));
    }
    rules
}

/// Renders a plan as iptables lists it.
fn written(plan: &Plan) -> Vec<(Family, Table, String)> {
    let mut listings = Vec::new();
    for family in families(plan) {
        for section in sections(plan, family) {
            let chains = section.chains.iter().map(|chain| format!("-N {chain}\n"));
            let rules =
                section.lines.iter().map(|line| format!("-A {} {}\n", line.chain, line.rule));
            listings.push((family, section.table, chains.chain(rules).collect()));
        }
    }
    listings
}

const MOST_LINES: usize = 200;
