//! Plan as a script for `nft -f`.

use std::fmt::Write as _;

use crate::plan::{
    AnyOf, Chain, ConnectionState, Field, Hook, Match, Plan, Rule, Span, Table, TproxyRouting,
    Verdict, ZoneDirection,
};
use crate::types::cidr::Cidr;
use crate::types::family::Family;
use crate::types::interface::InterfaceName;

/// Renders the script that replaces the rules of earlier runs with the plan in one transaction.
pub fn script(plan: &Plan) -> String {
    let mut lines = removal_lines();
    for table in plan.tables() {
        lines.push(format!("add table inet {}", table.name()));
        lines.extend(plan.chains(table).map(|chain| add_chain(table, chain)));
        lines.extend(plan.rules.iter().filter(|rule| rule.table == table).map(add_rule));
    }
    if plan.passthrough_address {
        lines.push("# also run: ip -6 address add ::6/128 dev lo nodad".to_owned());
    }
    lines.extend(plan.tproxy_routing.iter().flat_map(tproxy_routing));
    joined(lines)
}

/// Returns the command that adds a rule, with its origin as comment.
pub fn add_rule(rule: &Rule) -> String {
    let mut line = format!("add rule inet {} {}", rule.table.name(), rule.chain.name());
    for condition in &rule.matches {
        line.push(' ');
        line.push_str(&condition_text(condition));
    }
    // Writing to a string cannot fail.
    let _ = write!(line, " counter {} comment \"{}\"", rule_verdict_text(rule), rule.origin);
    line
}

/// `delete` fails on a missing table, so each is added first.
fn removal_lines() -> Vec<String> {
    let commands =
        |table: Table| ["add", "delete"].map(|verb| format!("{verb} table inet {}", table.name()));
    Table::ALL.into_iter().flat_map(commands).collect()
}

fn add_chain(table: Table, chain: Chain) -> String {
    let name = format!("add chain inet {} {}", table.name(), chain.name());
    let Some(base) = chain.base(table) else {
        return name;
    };
    let hook = match base.hook {
        Hook::Prerouting => "prerouting",
        Hook::Output => "output",
    };
    format!("{name} {{ type {} hook {hook} priority {} ; }}", base.kind, base.priority)
}

/// nft cannot configure routing, so this writes ip(8) commands as comments.
fn tproxy_routing(delivery: &TproxyRouting) -> Vec<String> {
    let TproxyRouting { mark, table, families } = delivery;
    let (priority, protocol) = (TproxyRouting::PRIORITY, TproxyRouting::PROTOCOL);
    let commands = |family: &Family| {
        let family = match family {
            Family::V4 => "-4",
            Family::V6 => "-6",
        };
        [
            format!(
                "# also run: ip {family} route add local default dev lo table {table} protocol \
                 {protocol}"
            ),
            format!(
                "# also run: ip {family} rule add fwmark {mark} lookup {table} \
                 priority {priority} protocol {protocol}"
            ),
        ]
    };
    families.iter().flat_map(commands).collect()
}

/// Renders a condition in nft's syntax.
pub fn condition_text(condition: &Match) -> String {
    let not = if condition.negated { "!= " } else { "" };
    match &condition.field {
        Field::Family(Family::V4) => format!("meta nfproto {not}ipv4"),
        Field::Family(Family::V6) => format!("meta nfproto {not}ipv6"),
        Field::Protocol(protocol) => format!("meta l4proto {not}{protocol}"),
        Field::SourcePort(protocol, ports) => {
            format!("{protocol} sport {not}{}", set_text(ports, numbers))
        }
        Field::DestinationPort(protocol, ports) => {
            format!("{protocol} dport {not}{}", set_text(ports, numbers))
        }
        Field::Source(ranges) => addresses_text("saddr", not, ranges),
        Field::Destination(ranges) => addresses_text("daddr", not, ranges),
        Field::InInterface(name) => format!("iifname {not}\"{}\"", interface_text(name)),
        Field::OutInterface(name) => format!("oifname {not}\"{}\"", interface_text(name)),
        Field::OwnerUid(uids) => format!("meta skuid {not}{}", set_text(uids, numbers)),
        Field::OwnerGid(gids) => format!("meta skgid {not}{}", set_text(gids, numbers)),
        Field::PacketMark(mark) => format!("meta mark {not}{mark}"),
        Field::ConnectionMark(mark) => format!("ct mark {not}{mark}"),
        Field::Connection(ConnectionState::Established) => {
            format!("ct state {not}established,related")
        }
        Field::Connection(ConnectionState::Invalid) => format!("ct state {not}invalid"),
    }
}

/// Renders a verdict in nft's syntax.
pub fn verdict_text(verdict: Verdict) -> String {
    match verdict {
        Verdict::Return => "return".to_owned(),
        Verdict::Jump(chain) => format!("jump {}", chain.name()),
        Verdict::RedirectTo(port) => format!("redirect to :{port}"),
        Verdict::Accept => "accept".to_owned(),
        Verdict::Drop => "drop".to_owned(),
        Verdict::DeliverTo(port, mark) => {
            format!("tproxy to :{port} meta mark set {mark} accept")
        }
        Verdict::SetPacketMark(mark) => format!("meta mark set {mark}"),
        Verdict::SaveMark => "ct mark set meta mark".to_owned(),
        Verdict::RestoreMark => "meta mark set ct mark".to_owned(),
        Verdict::TrackIn(zone, ZoneDirection::Original) => {
            format!("ct original zone set {}", zone.number())
        }
        Verdict::TrackIn(zone, ZoneDirection::Both) => format!("ct zone set {}", zone.number()),
    }
}

/// nft needs the family in a `tproxy` statement, although the matches imply it.
fn rule_verdict_text(rule: &Rule) -> String {
    let text = verdict_text(rule.verdict);
    match (rule.verdict, rule.family()) {
        (Verdict::DeliverTo(..), Some(family)) => {
            text.replacen("tproxy", &format!("tproxy {}", address_text(family)), 1)
        }
        _ => text,
    }
}

fn addresses_text(side: &str, not: &str, ranges: &AnyOf<Cidr>) -> String {
    let family = ranges.first().family();
    let span = |lowest, highest| addresses_span(family, lowest, highest);
    format!("{} {side} {not}{}", address_text(family), set_text(ranges, span))
}

/// Merges overlapping elements, since nft rejects them.
fn set_text<T: Span>(values: &AnyOf<T>, span: impl Fn(u128, u128) -> String) -> String {
    let merged = values.merged();
    let texts: Vec<String> =
        merged.into_iter().map(|(lowest, highest)| span(lowest, highest)).collect();
    match &*texts {
        [one] => one.clone(),
        several => format!("{{ {} }}", several.join(", ")),
    }
}

fn numbers(lowest: u128, highest: u128) -> String {
    if lowest == highest { lowest.to_string() } else { format!("{lowest}-{highest}") }
}

/// Renders a prefix if possible, else a range.
fn addresses_span(family: Family, lowest: u128, highest: u128) -> String {
    let address = |bits| family.address_of(bits);
    let size = lowest ^ highest;
    let is_prefix = size & size.wrapping_add(1) == 0 && lowest & size == 0;
    if is_prefix {
        let length = u32::from(family.address_bits()) - size.count_ones();
        format!("{}/{length}", address(lowest))
    } else {
        format!("{}-{}", address(lowest), address(highest))
    }
}

fn address_text(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}

fn interface_text(name: &InterfaceName) -> String {
    format!("{}{}", name.name(), if name.is_prefix() { "*" } else { "" })
}

fn joined(lines: Vec<String>) -> String {
    lines.into_iter().map(|line| line + "\n").collect()
}
