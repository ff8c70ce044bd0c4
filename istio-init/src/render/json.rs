//! Plan as JSON, by `docs/plan.schema.json`.

use crate::json::Json;
use crate::plan::{
    AnyOf, ConnectionState, Field, Match, Origin, Plan, Rule, Table, TproxyRouting, Verdict,
    ZoneDirection,
};

/// Renders the plan.
pub fn plan(plan: &Plan) -> Json {
    let rules = (1..).zip(&plan.rules).map(|(number, planned)| rule(number, planned));
    Json::Object(vec![
        ("version", Json::Number(1)),
        ("rules", Json::List(rules.collect())),
        ("passthroughAddress", Json::Bool(plan.passthrough_address)),
        ("localDelivery", plan.tproxy_routing.as_ref().map_or(Json::Null, tproxy_routing)),
    ])
}

/// Renders a rule with its number.
pub fn rule(number: u64, rule: &Rule) -> Json {
    Json::Object(vec![
        ("number", Json::Number(number)),
        ("table", Json::text(table_name(rule.table))),
        ("chain", Json::text(rule.chain.name())),
        ("matches", Json::List(rule.matches.iter().map(condition).collect())),
        ("verdict", verdict(rule.verdict)),
        ("origin", origin(rule.origin)),
    ])
}

/// Renders the setting that a rule comes from.
pub fn origin(origin: Origin) -> Json {
    let kind = match origin {
        Origin::Flag(_) => "flag",
        Origin::Variable(_) => "variable",
        Origin::Loopback | Origin::Capture => "capture",
    };
    Json::Object(vec![("kind", Json::text(kind)), ("name", Json::text(origin))])
}

/// Returns the table's name without this program's prefix.
pub fn table_name(table: Table) -> &'static str {
    match table {
        Table::Nat => "nat",
        Table::Mangle => "mangle",
        Table::Raw => "raw",
    }
}

fn condition(condition: &Match) -> Json {
    let (field, protocol, values) = match &condition.field {
        Field::Family(family) => ("family", None, vec![Json::text(family)]),
        Field::Protocol(protocol) => ("protocol", None, vec![Json::text(protocol)]),
        Field::SourcePort(protocol, ports) => ("sourcePort", Some(*protocol), texts(ports)),
        Field::DestinationPort(protocol, ports) => {
            ("destinationPort", Some(*protocol), texts(ports))
        }
        Field::Source(ranges) => ("source", None, texts(ranges)),
        Field::Destination(ranges) => ("destination", None, texts(ranges)),
        Field::InInterface(name) => ("inInterface", None, vec![Json::text(name)]),
        Field::OutInterface(name) => ("outInterface", None, vec![Json::text(name)]),
        Field::OwnerUid(uids) => ("ownerUid", None, texts(uids)),
        Field::OwnerGid(gids) => ("ownerGid", None, texts(gids)),
        Field::PacketMark(mark) => ("packetMark", None, vec![Json::text(mark)]),
        Field::ConnectionMark(mark) => ("connectionMark", None, vec![Json::text(mark)]),
        Field::Connection(state) => {
            let state = match state {
                ConnectionState::Established => "begun",
                ConnectionState::Invalid => "invalid",
            };
            ("connection", None, vec![Json::text(state)])
        }
    };
    let mut members = vec![("field", Json::text(field))];
    members.extend(protocol.map(|protocol| ("protocol", Json::text(protocol))));
    members.extend([("not", Json::Bool(condition.negated)), ("values", Json::List(values))]);
    Json::Object(members)
}

fn verdict(verdict: Verdict) -> Json {
    let mark = |mark: crate::types::mark::Mark| ("mark", Json::Number(mark.get().into()));
    let port = |port: crate::types::port::Port| ("port", Json::Number(port.get().into()));
    let (kind, members) = match verdict {
        Verdict::Return => ("return", Vec::new()),
        Verdict::Jump(chain) => ("jump", vec![("chain", Json::text(chain.name()))]),
        Verdict::RedirectTo(to) => ("redirect", vec![port(to)]),
        Verdict::Accept => ("accept", Vec::new()),
        Verdict::Drop => ("drop", Vec::new()),
        Verdict::DeliverTo(to, with) => ("deliver", vec![port(to), mark(with)]),
        Verdict::SetPacketMark(with) => ("setPacketMark", vec![mark(with)]),
        Verdict::SaveMark => ("saveMark", Vec::new()),
        Verdict::RestoreMark => ("restoreMark", Vec::new()),
        Verdict::TrackIn(zone, direction) => {
            let direction = match direction {
                ZoneDirection::Original => "original",
                ZoneDirection::Both => "both",
            };
            let zone = ("zone", Json::Number(zone.number().into()));
            ("trackIn", vec![zone, ("direction", Json::text(direction))])
        }
    };
    let mut object = vec![("kind", Json::text(kind))];
    object.extend(members);
    Json::Object(object)
}

fn tproxy_routing(delivery: &TproxyRouting) -> Json {
    Json::Object(vec![
        ("mark", Json::Number(delivery.mark.get().into())),
        ("routingTable", Json::Number(delivery.table.get().into())),
        ("priority", Json::Number(TproxyRouting::PRIORITY.into())),
        ("families", Json::List(delivery.families.iter().map(Json::text).collect())),
    ])
}

fn texts<T: std::fmt::Display>(values: &AnyOf<T>) -> Vec<Json> {
    values.values().iter().map(Json::text).collect()
}
