//! What one service account asked of the API servers, from their audit logs.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use jiff::Timestamp;
use serde_json::Value;

use crate::api_servers::{ApiServers, Audited};

/// A request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// As `get`.
    pub verb: String,
    /// In the plural, without its group.
    pub resource: String,
    /// The status of the answer.
    pub code: u64,
    /// Asked without consequence.
    dry_run: bool,
}

/// An instant, in the clock and in the audit logs.
#[derive(Debug, Default)]
pub struct Instant {
    /// As audit logs have it.
    time: String,
    audited: Audited,
}

impl Instant {
    /// The present one.
    pub fn now(servers: &ApiServers) -> Result<Self> {
        Ok(Self { time: format!("{:.6}", Timestamp::now()), audited: servers.audited()? })
    }
}

/// Every request of `account` that came since and was answered.
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

/// How many requests changed something, by resource.
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

/// What was asked for and refused for want of a right.
pub fn denied(calls: &[Call]) -> BTreeSet<(String, String)> {
    let denied = calls.iter().filter(|call| call.code == 403);
    denied.map(|call| (call.verb.clone(), call.resource.clone())).collect()
}

/// The verbs and resources that were asked for and had.
pub fn used(calls: &[Call]) -> BTreeSet<(String, String)> {
    let had = calls.iter().filter(|call| call.code < 400);
    had.map(|call| (call.verb.clone(), call.resource.clone())).collect()
}
