//! Comparison of installed rules with a plan.
//!
//! Both sides are written as lines in order: tables, chains, rules, the address `::6`, routes.

pub mod observed;

use crate::plan::{AnyOf, Base, Field, Hook, Match, Plan, Rule, Span, Table, TproxyRouting};
use crate::render::nft;
use crate::types::cidr::Cidr;
use crate::types::owner::UidRange;
use crate::types::port::PortRange;
use crate::verify::observed::{Observed, ObservedChain, ObservedRule};

/// Lines of both sides in one order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Lines with their side.
    pub lines: Vec<(Side, String)>,
}

/// Side of a comparison that has a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Both.
    Both,
    /// The plan only: the line is missing.
    Planned,
    /// The network namespace only: the line is unexpected.
    Installed,
}

impl Comparison {
    /// True if there is no difference.
    pub fn is_equal(&self) -> bool {
        self.lines.iter().all(|(side, _)| *side == Side::Both)
    }

    /// Returns the numbers of missing and of unexpected lines.
    pub fn counts(&self) -> (usize, usize) {
        let count = |wanted| self.lines.iter().filter(|(side, _)| *side == wanted).count();
        (count(Side::Planned), count(Side::Installed))
    }

    /// Renders a diff: `-` before missing lines, `+` before unexpected ones, with context.
    pub fn text(&self) -> String {
        let is_shown = |index: usize| {
            let end = (index + CONTEXT + 1).min(self.lines.len());
            let around = &self.lines[index.saturating_sub(CONTEXT)..end];
            let is_heading = !self.lines[index].1.starts_with(' ');
            is_heading || around.iter().any(|(side, _)| *side != Side::Both)
        };
        let mut text = String::new();
        let mut skipped = false;
        for (index, (side, line)) in self.lines.iter().enumerate() {
            if !is_shown(index) {
                skipped = true;
                continue;
            }
            if std::mem::take(&mut skipped) {
                text.push_str("   ...\n");
            }
            let sign = match side {
                Side::Both => ' ',
                Side::Planned => '-',
                Side::Installed => '+',
            };
            text.extend([sign.to_string().as_str(), " ", line, "\n"]);
        }
        text
    }
}

/// Returns lines for the address and routing that a plan needs.
pub fn planned_prerequisites(plan: &Plan) -> Vec<String> {
    prerequisite_lines(plan.passthrough_address, plan.tproxy_routing.as_slice(), &[])
}

/// Returns lines for the observed address and routing.
pub fn observed_prerequisites(observed: &Observed) -> Vec<String> {
    let Observed { passthrough_address, tproxy_routings, routeless, .. } = observed;
    prerequisite_lines(*passthrough_address, tproxy_routings, routeless)
}

/// Compares a plan with the observed rules.
pub fn compare(plan: &Plan, observed: &Observed) -> Comparison {
    Comparison { lines: differing(&planned_lines(plan), &observed_lines(observed)) }
}

fn planned_lines(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for table in plan.tables() {
        lines.push(table_line(table, false));
        for chain in plan.chains(table) {
            let base = chain.base(table).map(base_text);
            lines.push(chain_line(chain.name(), base.as_deref()));
            let rules = plan.rules.iter().filter(|rule| (rule.table, rule.chain) == (table, chain));
            lines.extend(rules.map(rule_line));
        }
    }
    lines.extend(planned_prerequisites(plan));
    lines
}

fn observed_lines(observed: &Observed) -> Vec<String> {
    let mut lines = Vec::new();
    for found in &observed.tables {
        lines.push(table_line(found.table, found.is_dormant));
        for ObservedChain { name, base, rules } in &found.chains {
            lines.push(chain_line(name, base.as_deref()));
            lines.extend(rules.iter().map(|rule| match rule {
                ObservedRule::Ours(rule) => rule_line(rule),
                ObservedRule::Foreign(text) => format!("    {text}"),
            }));
        }
    }
    lines.extend(observed_prerequisites(observed));
    lines
}

fn table_line(table: Table, is_dormant: bool) -> String {
    format!("table inet {}{}", table.name(), if is_dormant { ", dormant" } else { "" })
}

fn chain_line(name: &str, base: Option<&str>) -> String {
    match base {
        Some(base) => format!("  chain {name}: {base}"),
        None => format!("  chain {name}"),
    }
}

/// Renders hook and priority of a base chain in nft's syntax.
pub fn base_text(base: Base) -> String {
    let hook = match base.hook {
        Hook::Prerouting => "prerouting",
        Hook::Output => "output",
    };
    format!("type {} hook {hook} priority {}", base.kind, base.priority)
}

fn rule_line(rule: &Rule) -> String {
    let rule = canonical(rule);
    let conditions = rule.matches.iter().map(nft::condition_text);
    let verdict = nft::verdict_text(rule.verdict);
    let words: Vec<String> = conditions.chain([verdict]).collect();
    format!("    {} # {}", words.join(" "), rule.origin)
}

/// Removes conditions that a port or address implies, and sorts values: the kernel does not keep
/// either.
fn canonical(rule: &Rule) -> Rule {
    let mut matches: Vec<Match> = Vec::new();
    for condition in &rule.matches {
        if matches.last().is_some_and(|last| is_implied(last, condition)) {
            matches.pop();
        }
        matches.push(Match { field: sorted(&condition.field), negated: condition.negated });
    }
    Rule { matches, ..rule.clone() }
}

fn sorted(field: &Field) -> Field {
    match field {
        Field::SourcePort(protocol, ports) => Field::SourcePort(*protocol, joined_ports(ports)),
        Field::DestinationPort(protocol, ports) => {
            Field::DestinationPort(*protocol, joined_ports(ports))
        }
        Field::Source(ranges) => Field::Source(joined_ranges(ranges)),
        Field::Destination(ranges) => Field::Destination(joined_ranges(ranges)),
        Field::OwnerUid(uids) => Field::OwnerUid(joined_users(uids)),
        Field::OwnerGid(gids) => Field::OwnerGid(in_order(gids)),
        other => other.clone(),
    }
}

fn in_order<T: Copy + Ord>(values: &AnyOf<T>) -> AnyOf<T> {
    let mut sorted = values.values().to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    AnyOf::several(sorted).unwrap_or_else(|| values.clone())
}

/// Merges overlapping and adjacent values.
fn joined<T: Span + Clone>(values: &AnyOf<T>, ranges: impl Fn(u128, u128) -> Vec<T>) -> AnyOf<T> {
    let mut joined: Vec<(u128, u128)> = Vec::new();
    for (lowest, highest) in values.merged() {
        match joined.last_mut() {
            Some(before) if lowest <= before.1.saturating_add(1) => before.1 = highest,
            _ => joined.push((lowest, highest)),
        }
    }
    let ranges = joined.into_iter().flat_map(|(lowest, highest)| ranges(lowest, highest));
    AnyOf::several(ranges).unwrap_or_else(|| values.clone())
}

fn joined_ports(ports: &AnyOf<PortRange>) -> AnyOf<PortRange> {
    joined(ports, |lowest, highest| Vec::from_iter(format!("{lowest}-{highest}").parse()))
}

fn joined_users(uids: &AnyOf<UidRange>) -> AnyOf<UidRange> {
    let user = |number: u128| number.to_string().parse().ok();
    let range = |lowest, highest| UidRange::new(user(lowest)?, user(highest)?);
    joined(uids, |lowest, highest| Vec::from_iter(range(lowest, highest)))
}

fn joined_ranges(ranges: &AnyOf<Cidr>) -> AnyOf<Cidr> {
    let family = ranges.first().family();
    joined(ranges, |lowest, highest| {
        Cidr::covering(family.address_of(lowest), family.address_of(highest))
    })
}

fn is_implied(earlier: &Match, later: &Match) -> bool {
    !earlier.negated
        && match (&earlier.field, &later.field) {
            (
                Field::Protocol(protocol),
                Field::SourcePort(of_port, _) | Field::DestinationPort(of_port, _),
            ) => protocol == of_port,
            (Field::Family(family), Field::Source(ranges) | Field::Destination(ranges)) => {
                *family == ranges.first().family()
            }
            _ => false,
        }
}

fn prerequisite_lines(
    passthrough: bool,
    deliveries: &[TproxyRouting],
    routeless: &[TproxyRouting],
) -> Vec<String> {
    let mut lines = Vec::new();
    if passthrough {
        lines.push("address ::6/128 on lo".to_owned());
    }
    for (deliveries, route) in [(deliveries, "local route"), (routeless, "no route")] {
        for TproxyRouting { mark, table, families } in deliveries {
            lines.extend(
                families
                    .iter()
                    .map(|family| format!("{family} rule: mark {mark} to table {table}, {route}")),
            );
        }
    }
    lines
}

/// Computes a diff along the longest common subsequence. Common lines are spelled as planned.
pub fn differing<T: PartialEq + Clone>(planned: &[T], installed: &[T]) -> Vec<(Side, T)> {
    let is_same = |row: usize, column: usize| planned[row] == installed[column];
    let sides = sides(planned.len(), installed.len(), &is_same);
    let mut rests = (planned.iter(), installed.iter());
    let mut lines = Vec::new();
    for side in sides {
        let line = match side {
            Side::Both => {
                rests.1.next();
                rests.0.next()
            }
            Side::Planned => rests.0.next(),
            Side::Installed => rests.1.next(),
        };
        lines.extend(line.map(|line| (side, line.clone())));
    }
    lines
}

/// Returns the side of each line, for this many planned and installed ones.
fn sides(rows: usize, columns: usize, is_same: &dyn Fn(usize, usize) -> bool) -> Vec<Side> {
    // The table below is large for a thousand rules, and usually there is no difference.
    if rows == columns && (0..rows).all(|index| is_same(index, index)) {
        return vec![Side::Both; rows];
    }
    // common[r][c]: length of the longest common subsequence of the rests from r and c.
    let mut common = vec![vec![0_u32; columns + 1]; rows + 1];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            common[row][column] = if is_same(row, column) {
                common[row + 1][column + 1] + 1
            } else {
                common[row + 1][column].max(common[row][column + 1])
            };
        }
    }
    let (mut row, mut column) = (0, 0);
    let mut sides = Vec::new();
    while row < rows || column < columns {
        if row < rows && column < columns && is_same(row, column) {
            sides.push(Side::Both);
            (row, column) = (row + 1, column + 1);
        } else if column == columns
            || (row < rows && common[row + 1][column] >= common[row][column + 1])
        {
            sides.push(Side::Planned);
            row += 1;
        } else {
            sides.push(Side::Installed);
            column += 1;
        }
    }
    sides
}

const CONTEXT: usize = 1;
