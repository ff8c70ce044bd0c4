//! Requests of one service account, from the API servers' audit logs.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use jiff::Timestamp;
use serde_json::Value;

use crate::api_servers::{ApiServers, Audited};

/// An answered request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The verb, such as `get`.
    pub verb: String,
    /// The resource in the plural, without its group.
    pub resource: String,
    /// The status of the answer.
    pub code: u64,
    /// True for a dry run.
    dry_run: bool,
}

/// A point in time, by the clock and in the audit logs.
#[derive(Debug, Default)]
pub struct Instant {
    /// The time in the format of audit logs.
    time: String,
    audited: Audited,
}

impl Instant {
    /// Returns the current time.
    pub fn now(servers: &ApiServers) -> Result<Self> {
        Ok(Self { time: format!("{:.6}", Timestamp::now()), audited: servers.audited()? })
    }
}

/// Returns every answered request of `account` since then.
pub fn since(servers: &ApiServers, account: &str, since: &Instant) -> Result<Vec<Call>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let received = "requestReceivedTimestamp";
    let events = servers.audit_since(&since.audited)?.into_iter().filter(|event| {
        event["user"]["username"] == *account
            && event[received].as_str().is_some_and(|time| time >= since.time.as_str())
    });
    Ok(events
        .map(|event| Call {
            verb: text(&event["verb"]),
            resource: text(&event["objectRef"]["resource"]),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
            dry_run: event["requestURI"].as_str().is_some_and(|uri| uri.contains("dryRun=")),
        })
        .collect())
}

/// Returns the number of writing requests by resource.
pub fn writes(calls: &[Call]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for call in calls {
        let is_write = ["create", "update", "patch", "delete"].contains(&call.verb.as_str());
        if is_write && !call.dry_run && call.code < 300 {
            *counts.entry(call.resource.clone()).or_default() += 1;
        }
    }
    counts
}

/// Returns the verbs and resources that were denied.
pub fn denied(calls: &[Call]) -> BTreeSet<(String, String)> {
    let denied = calls.iter().filter(|call| call.code == 403);
    denied.map(|call| (call.verb.clone(), call.resource.clone())).collect()
}

/// Returns the verbs and resources that were requested and granted.
pub fn used(calls: &[Call]) -> BTreeSet<(String, String)> {
    let had = calls.iter().filter(|call| call.code < 400);
    had.map(|call| (call.verb.clone(), call.resource.clone())).collect()
}
