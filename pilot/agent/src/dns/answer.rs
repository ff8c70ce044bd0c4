//! Decides about each query: an answer from the table, or forwarding.

use hickory_proto::op::ResponseCode;

use super::message::{Family, InvalidQuery, Query, Transport};
use super::search::NameRules;
use super::table::Table;

/// Knowledge that answers come from.
#[derive(Clone, Copy, Debug)]
pub struct Knowledge<'a> {
    /// Name table; `None` until the control plane has sent one.
    pub table: Option<&'a Table>,
    /// Rules that map names to hosts.
    pub rules: &'a NameRules,
    /// True if queries are forwarded before the first table.
    pub forwards_before_table: bool,
}

/// Handling of a message.
#[derive(Debug)]
pub enum Decision<'a> {
    /// Send this answer.
    Answer(Vec<u8>),
    /// Forward the query.
    Forward(Query<'a>),
    /// Send nothing.
    Ignore,
}

/// Decides about a message. The addresses in an answer are rotated by `rotation`.
pub fn decide<'a>(
    message: &'a [u8],
    knowledge: Knowledge<'_>,
    transport: Transport,
    rotation: usize,
) -> Decision<'a> {
    let query = match Query::parse(message) {
        Ok(query) => query,
        Err(InvalidQuery::Ignored) => return Decision::Ignore,
        Err(InvalidQuery::Malformed(answer)) => return Decision::Answer(answer),
    };
    let Some(table) = knowledge.table else {
        return if knowledge.forwards_before_table {
            Decision::Forward(query)
        } else {
            Decision::Answer(query.failure(ResponseCode::ServFail))
        };
    };
    let Some(family) = query.family else { return Decision::Forward(query) };
    let found = query.name.as_deref().and_then(|name| knowledge.rules.find(table, name));
    let Some(found) = found else { return Decision::Forward(query) };
    if query.has_unknown_edns() {
        return Decision::Answer(query.failure(ResponseCode::BADVERS));
    }
    let is_asked = |address: &&std::net::IpAddr| address.is_ipv4() == (family == Family::V4);
    let mut addresses: Vec<_> = found.addresses.iter().filter(is_asked).copied().collect();
    let shift = rotation.checked_rem(addresses.len()).unwrap_or_default();
    addresses.rotate_left(shift);
    let limit = query.limit(transport);
    Decision::Answer(query.addresses(&addresses, found.expanded_from, limit))
}

#[cfg(test)]
mod tests;
