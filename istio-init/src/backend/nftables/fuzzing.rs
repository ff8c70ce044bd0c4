//! Parsers of netlink messages, for fuzz targets.

use super::decode;
use super::transaction::rule_message;
use super::{readback, set};
use crate::netlink::message::{attribute, outcome, received};
use crate::netlink::nf_tables::FIXED_LENGTH;
use crate::netlink::{address, route};
use crate::plan::{Rule, Table};
use crate::verify::observed::ObservedRule;

/// Parses received bytes as every kind of message; returns the rules.
pub fn rules(bytes: &[u8]) -> Vec<ObservedRule> {
    let payloads: Vec<&[u8]> = received(bytes).map(|message| message.payload).collect();
    for payload in &payloads {
        let _ = outcome(payload);
        let _ = (address::address(payload), route::local_route(payload));
        let _ = (route::policy_rule(payload), readback::base(payload));
    }
    let listed: Vec<Vec<u8>> =
        payloads.iter().filter_map(|payload| payload.get(FIXED_LENGTH..)).map(Vec::from).collect();
    let elements = readback::elements_of(&listed);
    let sets = |_: &str| Some(elements.clone());
    listed.iter().map(|rule| decode::rule(Table::Nat, rule, &sets)).collect()
}

/// Decodes the message that adds a rule; `None` if the rule needs sets.
pub fn written_and_read(rule: &Rule) -> Option<ObservedRule> {
    if !set::sets(rule).is_empty() {
        return None;
    }
    let message = message_of(rule);
    let payload = received(&message).next()?.payload;
    Some(decode::rule(rule.table, payload.get(FIXED_LENGTH..)?, &|_| None))
}

/// Returns the message that adds a rule.
pub fn message_of(rule: &Rule) -> Vec<u8> {
    rule_message(rule).as_bytes().to_vec()
}

/// Reads the value of an attribute.
pub fn attribute_of(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attribute(bytes, kind)
}
