//! Plan as input for `iptables-restore --noflush`, one text per address family.
//!
//! Tables, chains and rules equal those of Istio's iptables backend, in its order. Where a plan has
//! a shorter equivalent rule, Istio's longer form is written, since tools may expect it. Rules in
//! the kernel's chains that do not jump to own chains have a comment, which is the only way for a
//! later run to identify them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::plan::{
    AnyOf, Chain, ConnectionState, Field, Match, Origin, Plan, Rule, Table, Verdict, ZoneDirection,
};
use crate::types::family::Family;
use crate::types::interface::InterfaceName;
use crate::types::port::PortRange;
use crate::types::protocol::Protocol;

/// Planned content of one table in one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The table.
    pub table: Table,
    /// Own chains, by their names in iptables.
    pub chains: Vec<String>,
    /// Rules in order.
    pub lines: Vec<Line>,
}

/// A rule in iptables' syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Name of the chain in iptables.
    pub chain: String,
    /// Rule without `-A` and the chain's name.
    pub rule: String,
    /// Setting that the rule comes from.
    pub origin: Origin,
}

/// Returns the captured families, for which the kernel's chains have jumps.
pub fn families(plan: &Plan) -> Vec<Family> {
    let begins = |rule: &&Rule, family| {
        rule.chain.base(rule.table).is_some()
            && matches!(rule.verdict, Verdict::Jump(_))
            && is_of(rule, family)
    };
    let is_captured = |family: &Family| plan.rules.iter().any(|rule| begins(&rule, *family));
    [Family::V4, Family::V6].into_iter().filter(is_captured).collect()
}

/// Returns the plan's tables of one family, sorted by name; empty for a family that is not
/// captured.
pub fn sections(plan: &Plan, family: Family) -> Vec<Section> {
    if !families(plan).contains(&family) {
        return Vec::new();
    }
    let mut tables: Vec<Table> = plan.tables().collect();
    tables.sort_unstable_by_key(|table| table_name(*table));
    let section = |table| section(plan, table, family);
    tables.into_iter().map(section).filter(|section| !section.lines.is_empty()).collect()
}

/// Returns the text that installs the plan in one family without earlier rules.
pub fn text(plan: &Plan, family: Family) -> String {
    let mut text = String::new();
    for section in sections(plan, family) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "* {}", table_name(section.table));
        for chain in &section.chains {
            let _ = writeln!(text, ":{chain} - [0:0]");
        }
        for line in &section.lines {
            let _ = writeln!(text, "-A {} {}", line.chain, line.rule);
        }
        text.push_str("COMMIT\n");
    }
    text
}

/// Renders the texts of all families, each under a comment with its program.
pub fn script(plan: &Plan) -> String {
    let mut script = String::new();
    for family in families(plan) {
        let _ = write!(script, "# {} --noflush\n{}", restore_name(family), text(plan, family));
    }
    if plan.passthrough_address {
        script.push_str("# also run: ip -6 address add ::6/128 dev lo nodad\n");
    }
    script
}

/// Returns a table's name in iptables.
pub fn table_name(table: Table) -> &'static str {
    match table {
        Table::Nat => "nat",
        Table::Mangle => "mangle",
        Table::Raw => "raw",
    }
}

/// Returns a chain's name in iptables: `istio-inbound` is `ISTIO_INBOUND`, `prerouting` is
/// `PREROUTING`.
pub fn chain_name(chain: Chain) -> String {
    chain.name().to_ascii_uppercase().replace('-', "_")
}

/// True if this is the name of a plan's chain, not of a built-in one.
pub fn is_our_chain(name: &str) -> bool {
    let is_ours = |chain: &Chain| chain.base(Table::Nat).is_none() && chain_name(*chain) == name;
    Chain::ALL.iter().any(is_ours)
}

/// Prefix of the comment on rules that cannot be identified otherwise.
pub const COMMENT: &str = "istio-init ";

fn restore_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "iptables-restore",
        Family::V6 => "ip6tables-restore",
    }
}

fn section(plan: &Plan, table: Table, family: Family) -> Section {
    let of_here = |rule: &&Rule| rule.table == table && is_of(rule, family);
    let rules = plan.rules.iter().filter(of_here).flat_map(one_for_each_value).collect();
    let rules = in_istios_form(rules);
    let lines: Vec<Line> = rules.iter().map(line).collect();
    let jumps = rules.iter().filter_map(|rule| match rule.verdict {
        Verdict::Jump(chain) => Some(chain_name(chain)),
        _ => None,
    });
    let mut seen = BTreeSet::new();
    let named = lines.iter().map(|line| line.chain.clone()).chain(jumps);
    let chains = named.filter(|name| is_our_chain(name) && seen.insert(name.clone())).collect();
    Section { table, chains, lines }
}

/// True if packets of the family can match the rule.
fn is_of(rule: &Rule, family: Family) -> bool {
    rule.matches.iter().all(|condition| match &condition.field {
        Field::Family(only) => (*only == family) != condition.negated,
        Field::Source(ranges) | Field::Destination(ranges) => ranges.first().family() == family,
        _ => true,
    })
}

/// Expands a rule with several values, since iptables has no sets. A negated match stays in one
/// rule, which excludes all values.
fn one_for_each_value(rule: &Rule) -> Vec<Rule> {
    let mut rules = vec![Rule { matches: Vec::new(), ..rule.clone() }];
    for condition in &rule.matches {
        let choices = if condition.negated {
            vec![condition.field.clone()]
        } else {
            single_values(&condition.field)
        };
        let with = |rule: &Rule, field: &Field| {
            let mut rule = rule.clone();
            rule.matches.push(Match { field: field.clone(), negated: condition.negated });
            rule
        };
        rules = rules
            .iter()
            .flat_map(|rule| choices.iter().map(move |field| with(rule, field)))
            .collect();
    }
    rules
}

fn single_values(field: &Field) -> Vec<Field> {
    fn each<T: Copy>(values: &AnyOf<T>, field: impl Fn(AnyOf<T>) -> Field) -> Vec<Field> {
        values.values().iter().map(|value| field(AnyOf::one(*value))).collect()
    }
    match field {
        Field::SourcePort(protocol, ports) => each(ports, |one| Field::SourcePort(*protocol, one)),
        Field::DestinationPort(protocol, ports) => {
            each(ports, |one| Field::DestinationPort(*protocol, one))
        }
        Field::Source(ranges) => each(ranges, Field::Source),
        Field::Destination(ranges) => each(ranges, Field::Destination),
        Field::OwnerUid(users) => each(users, Field::OwnerUid),
        Field::OwnerGid(groups) => each(groups, Field::OwnerGid),
        other => vec![other.clone()],
    }
}

/// Rewrites the rules of a single proxy user in Istio's form, which names the user in the rule for
/// loopback traffic as well. The same for a single group, although no packet reaches that rule.
fn in_istios_form(mut rules: Vec<Rule>) -> Vec<Rule> {
    let Some(place) = rules.iter().position(leaves_loopback_alone) else {
        return rules;
    };
    let is_of_group = |rule: &Rule| {
        let is_group = |condition: &Match| matches!(condition.field, Field::OwnerGid(_));
        matches!(rule.verdict, Verdict::Jump(_)) && rule.matches.iter().any(is_group)
    };
    let Some(user @ Field::OwnerUid(_)) = rules.get(place + 1).and_then(owner_left_alone) else {
        return rules;
    };
    let calls_of_group = rules[place + 2..].iter().take_while(|rule| is_of_group(rule)).count();
    let of_group = place + 2 + calls_of_group;
    let Some(group @ Field::OwnerGid(_)) = rules.get(of_group).and_then(owner_left_alone) else {
        return rules;
    };
    let (origin_of_user, origin) = (rules[place + 1].origin, rules[of_group].origin);
    let is_alike = |rule: &&Rule| rule.origin == origin && rule.verdict == Verdict::Return;
    let left_alone = rules[place].clone();
    if rules.iter().filter(is_alike).count() == 1 {
        let is_call = |rule: &&Rule| {
            rule.origin == origin_of_user && rule.matches.contains(&Match::is(user.clone()))
        };
        let as_group = |mut rule: Rule| {
            rule.matches.retain(|condition| condition.field != user);
            rule.matches.push(Match::is(group.clone()));
            Rule { origin, ..rule }
        };
        let calls = rules[..place].iter().filter(is_call).cloned().map(as_group);
        let mut twins: Vec<Rule> = if calls_of_group == 0 { calls.collect() } else { Vec::new() };
        twins.push(unless(left_alone.clone(), &group));
        rules.splice(of_group..of_group, twins);
    }
    rules[place] = unless(left_alone, &user);
    rules
}

/// True if the rule excludes loopback traffic from capture; with DNS capture, except DNS.
fn leaves_loopback_alone(rule: &Rule) -> bool {
    let lo = Match::is(Field::OutInterface(InterfaceName::loopback()));
    rule.origin == Origin::Loopback
        && rule.verdict == Verdict::Return
        && match &*rule.matches {
            [first] => *first == lo,
            [first, second] => {
                *first == lo
                    && second.negated
                    && matches!(second.field, Field::DestinationPort(Protocol::Tcp, _))
            }
            _ => false,
        }
}

/// Returns the owner if the rule does nothing but exclude it from capture.
fn owner_left_alone(rule: &Rule) -> Option<Field> {
    match &*rule.matches {
        [only] if rule.verdict == Verdict::Return && !only.negated => Some(only.field.clone()),
        _ => None,
    }
}

fn unless(mut rule: Rule, owner: &Field) -> Rule {
    rule.matches.push(Match::is_not(owner.clone()));
    rule
}

fn line(rule: &Rule) -> Line {
    // Istio's order: interface, addresses, protocol with its ports, and the rest.
    let mut matches: Vec<&Match> = rule.matches.iter().collect();
    matches.sort_by_key(|condition| match condition.field {
        Field::Family(_) | Field::InInterface(_) | Field::OutInterface(_) => 0,
        Field::Source(_) | Field::Destination(_) => 1,
        Field::Protocol(_) => 2,
        Field::SourcePort(..) | Field::DestinationPort(..) => 3,
        _ => 4,
    });
    let mut words: Vec<String> = Vec::new();
    let mut named = None;
    for condition in matches {
        if let Field::SourcePort(protocol, _) | Field::DestinationPort(protocol, _) =
            &condition.field
            && named != Some(*protocol)
        {
            // The protocol is written once, before its ports.
            words.push(format!("-p {protocol}"));
            named = Some(*protocol);
        }
        if let Field::Protocol(protocol) = &condition.field {
            named = Some(*protocol);
        }
        words.extend(condition_words(condition));
    }
    if rule.chain.base(rule.table).is_some() && !matches!(rule.verdict, Verdict::Jump(_)) {
        words.push(format!("-m comment --comment \"{COMMENT}{}\"", rule.origin));
    }
    words.push(verdict_text(rule.verdict));
    Line { chain: chain_name(rule.chain), rule: words.join(" "), origin: rule.origin }
}

fn condition_words(condition: &Match) -> Vec<String> {
    let not = if condition.negated { "! " } else { "" };
    let each = |option: &str, values: Vec<String>| {
        values.into_iter().map(|value| format!("{option} {value}")).collect()
    };
    match &condition.field {
        Field::Family(_) => Vec::new(),
        Field::Protocol(protocol) => vec![format!("{not}-p {protocol}")],
        Field::SourcePort(_, ports) => ports_words(not, "sport", ports),
        Field::DestinationPort(_, ports) => ports_words(not, "dport", ports),
        Field::Source(ranges) => each(&format!("{not}-s"), texts(ranges)),
        Field::Destination(ranges) => each(&format!("{not}-d"), texts(ranges)),
        Field::InInterface(name) => vec![format!("{not}-i {name}")],
        Field::OutInterface(name) => vec![format!("{not}-o {name}")],
        Field::OwnerUid(users) => each(&format!("-m owner {not}--uid-owner"), texts(users)),
        Field::OwnerGid(groups) => each(&format!("-m owner {not}--gid-owner"), texts(groups)),
        Field::PacketMark(mark) => vec![format!("-m mark {not}--mark {mark}")],
        Field::ConnectionMark(mark) => vec![format!("-m connmark {not}--mark {mark}")],
        Field::Connection(state) => {
            let state = match state {
                ConnectionState::Established => "RELATED,ESTABLISHED",
                ConnectionState::Invalid => "INVALID",
            };
            vec![format!("-m conntrack {not}--ctstate {state}")]
        }
    }
}

fn ports_words(not: &str, option: &str, ports: &AnyOf<PortRange>) -> Vec<String> {
    // iptables writes a range with a colon.
    let texts: Vec<String> = texts(ports).iter().map(|text| text.replace('-', ":")).collect();
    if let [only] = &*texts {
        return vec![format!("{not}--{option} {only}")];
    }
    // A range counts as two ports.
    let lists = texts.chunks(MOST_PORTS / 2).map(|ports| ports.join(","));
    lists.map(|list| format!("-m multiport {not}--{option}s {list}")).collect()
}

fn texts<T: ToString>(values: &AnyOf<T>) -> Vec<String> {
    values.values().iter().map(T::to_string).collect()
}

fn verdict_text(verdict: Verdict) -> String {
    let text = match verdict {
        Verdict::Return => "RETURN".to_owned(),
        Verdict::Jump(chain) => chain_name(chain),
        Verdict::RedirectTo(port) => format!("REDIRECT --to-ports {port}"),
        Verdict::Accept => "ACCEPT".to_owned(),
        Verdict::Drop => "DROP".to_owned(),
        Verdict::DeliverTo(port, mark) => {
            format!("TPROXY --tproxy-mark {mark}/0xffffffff --on-port {port}")
        }
        Verdict::SetPacketMark(mark) => format!("MARK --set-mark {mark}"),
        Verdict::SaveMark => "CONNMARK --save-mark".to_owned(),
        Verdict::RestoreMark => "CONNMARK --restore-mark".to_owned(),
        Verdict::TrackIn(zone, ZoneDirection::Original) => {
            format!("CT --zone-orig {}", zone.number())
        }
        Verdict::TrackIn(zone, ZoneDirection::Both) => format!("CT --zone {}", zone.number()),
    };
    format!("-j {text}")
}

/// Limit of one `multiport` match.
const MOST_PORTS: usize = 15;
