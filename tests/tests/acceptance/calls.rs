//! What one service account asked of the API servers, from their audit logs.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use e2e::api_servers::ApiServers;
use serde_json::Value;

/// A request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) verb: String,
    pub(crate) resource: String,
    pub(crate) code: u64,
}

/// Every answered request of `account` since `since`, which is a time as audit logs have it.
pub(crate) fn since(servers: &ApiServers, account: &str, since: &str) -> Result<Vec<Call>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let events = servers.audit()?.into_iter().filter(|event| {
        event["user"]["username"] == *account
            && event["requestReceivedTimestamp"].as_str().is_some_and(|time| time >= since)
    });
    Ok(events
        .map(|event| Call {
            verb: text(&event["verb"]),
            resource: text(&event["objectRef"]["resource"]),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
        })
        .collect())
}

/// How many requests changed something, by resource.
pub(crate) fn writes(calls: &[Call]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for call in calls {
        let is_write = ["create", "update", "patch", "delete"].contains(&call.verb.as_str());
        if is_write && call.code < 300 {
            *counts.entry(call.resource.clone()).or_default() += 1;
        }
    }
    counts
}

/// What was asked for and refused for want of a right.
pub(crate) fn denied(calls: &[Call]) -> BTreeSet<(String, String)> {
    let denied = calls.iter().filter(|call| call.code == 403);
    denied.map(|call| (call.verb.clone(), call.resource.clone())).collect()
}

/// The verbs and resources that were asked for and had.
pub(crate) fn used(calls: &[Call]) -> BTreeSet<(String, String)> {
    let had = calls.iter().filter(|call| call.code < 400);
    had.map(|call| (call.verb.clone(), call.resource.clone())).collect()
}
