//! Explanation of a packet as text and as JSON.

use super::chain_names::ChainNames;
use super::json;
use super::json::table_name;
use super::nft::condition_text;
use super::table::{aligned, conditions};
use crate::explain::{Explanation, Fate, Packet};
use crate::json::Json;
use crate::plan::Plan;
use crate::types::direction::Direction;

/// Renders text: the packet, a line per evaluated rule, and the result.
pub fn text(plan: &Plan, packet: &Packet, explanation: &Explanation, names: ChainNames) -> String {
    let mut text = format!("{}\n\n", packet_words(packet));
    let rows: Vec<[String; 5]> = explanation
        .steps
        .iter()
        .map(|step| {
            let rule = &plan.rules[step.rule];
            let number = step.rule + 1;
            let place = format!("{} {}", table_name(rule.table), names.name(rule.chain));
            let (what, why) = match step.failed {
                Some(index) => {
                    ("passes".to_owned(), format!("not {}", condition_text(&rule.matches[index])))
                }
                None => (names.verdict(rule.verdict), conditions(rule)),
            };
            [number.to_string(), place, what, rule.origin.to_string(), why]
        })
        .collect();
    text.push_str(&aligned(&rows));
    if !rows.is_empty() {
        text.push('\n');
    }
    let (verdict, cause) = (verdict_words(packet, explanation.fate), cause(plan, explanation));
    text.extend([verdict.as_str(), "\n", &cause, "\n"]);
    text
}

/// Renders JSON.
pub fn object(plan: &Plan, packet: &Packet, explanation: &Explanation) -> Json {
    let numbered = |index: usize| u64::try_from(index + 1).unwrap_or(u64::MAX);
    let steps = explanation.steps.iter().map(|step| {
        let failed = step.failed.map(|index| condition_text(&plan.rules[step.rule].matches[index]));
        Json::Object(vec![
            ("rule", Json::Number(numbered(step.rule))),
            ("met", Json::Bool(step.failed.is_none())),
            ("failed", failed.map_or(Json::Null, Json::Text)),
        ])
    });
    let (verdict, port) = match explanation.fate {
        Fate::Captured(port) => ("captured", Json::Number(port.get().into())),
        Fate::Direct => ("direct", Json::Null),
        Fate::Dropped => ("dropped", Json::Null),
    };
    let decided_by = explanation.decided_by;
    Json::Object(vec![
        ("packet", packet_object(packet)),
        ("verdict", Json::text(verdict)),
        ("port", port),
        ("originalDestination", Json::text(packet.destination)),
        ("words", Json::text(verdict_words(packet, explanation.fate))),
        (
            "decidedBy",
            decided_by.map_or(Json::Null, |index| json::rule(numbered(index), &plan.rules[index])),
        ),
        ("steps", Json::List(steps.collect())),
    ])
}

/// Returns the result as a sentence.
pub fn verdict_words(packet: &Packet, fate: Fate) -> String {
    let destination = packet.destination;
    match fate {
        Fate::Captured(port) => format!(
            "captured: it reaches port {port} of this pod; its original destination is \
             {destination}"
        ),
        Fate::Direct => format!("not captured: it goes to {destination}"),
        Fate::Dropped => "dropped".to_owned(),
    }
}

fn cause(plan: &Plan, explanation: &Explanation) -> String {
    match explanation.decided_by {
        Some(index) => {
            format!("because of rule {}, which comes from {}", index + 1, plan.rules[index].origin)
        }
        None => "because no rule matches".to_owned(),
    }
}

fn packet_words(packet: &Packet) -> String {
    let Packet { protocol, source, destination, interface, .. } = packet;
    let way = match packet.direction {
        Direction::In => "arriving at",
        Direction::Out => "leaving by",
    };
    let sender = packet.owner.map(|owner| format!(", sent by uid {} gid {}", owner.uid, owner.gid));
    let mark = (packet.mark != 0).then(|| format!(", with mark {}", packet.mark));
    let (sender, mark) = (sender.unwrap_or_default(), mark.unwrap_or_default());
    format!("{protocol} from {source} to {destination}, {way} {interface}{sender}{mark}")
}

fn packet_object(packet: &Packet) -> Json {
    let direction = match packet.direction {
        Direction::In => "in",
        Direction::Out => "out",
    };
    let owner = packet.owner;
    Json::Object(vec![
        ("direction", Json::text(direction)),
        ("protocol", Json::text(packet.protocol)),
        ("from", Json::text(packet.source)),
        ("to", Json::text(packet.destination)),
        ("interface", Json::text(&packet.interface)),
        ("uid", owner.map_or(Json::Null, |owner| Json::Number(owner.uid.get().into()))),
        ("gid", owner.map_or(Json::Null, |owner| Json::Number(owner.gid.get().into()))),
        ("mark", Json::Number(packet.mark.into())),
    ])
}
