//! Plan as a table for people: one rule per line, in order.

use super::chain_names::ChainNames;
use super::json::table_name;
use super::nft;
use crate::plan::{Plan, Rule, TproxyRouting};

/// Renders the table with a header.
pub fn plan(plan: &Plan, names: ChainNames) -> String {
    let titles = ["#", "table", "chain", "verdict", "from", "packets"].map(str::to_owned);
    let numbered = (1..).zip(&plan.rules);
    let rows =
        std::iter::once(titles).chain(numbered.map(|(number, rule)| row(number, rule, names)));
    let mut text = aligned(&rows.collect::<Vec<_>>());
    if plan.passthrough_address {
        text.push_str("address ::6/128 on lo\n");
    }
    if let Some(TproxyRouting { mark, table, families }) = &plan.tproxy_routing {
        for family in families {
            let line =
                format!("{family} packets with mark {mark}: to this pod, by table {table}\n");
            text.push_str(&line);
        }
    }
    text
}

/// Renders the matches of a rule in nft's syntax; `all` if there is none.
pub fn conditions(rule: &Rule) -> String {
    let texts: Vec<String> = rule.matches.iter().map(nft::condition_text).collect();
    if texts.is_empty() { "all".to_owned() } else { texts.join(" ") }
}

/// Aligns the cells of rows. The last cell may be long.
pub fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] = std::array::from_fn(|column| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    });
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}  "));
        cells.collect::<String>().trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

fn row(number: usize, rule: &Rule, names: ChainNames) -> [String; 6] {
    [
        number.to_string(),
        table_name(rule.table).to_owned(),
        names.name(rule.chain),
        names.verdict(rule.verdict),
        rule.origin.to_string(),
        conditions(rule),
    ]
}
