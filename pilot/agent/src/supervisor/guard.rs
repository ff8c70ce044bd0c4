//! Observation of an Envoy that starts.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::sleep;

use super::Message;
use super::machine::Event;
use crate::admin::Admin;

/// Sends [`Event::Responding`] and [`Event::Live`] of an epoch.
///
/// During a hot restart, parent and child have the same admin port: the parent answers until the
/// child has parsed its bootstrap. So an answer counts only with the child's epoch.
pub(super) async fn observe(admin: Admin, epoch: u32, messages: UnboundedSender<Message>) {
    let mut responded = false;
    loop {
        if let Some(is_live) = state(&admin, epoch).await {
            if !std::mem::replace(&mut responded, true) {
                // The receiver ends with supervision.
                let _ = messages.send(Message::Event(Event::Responding(epoch)));
            }
            if is_live {
                let _ = messages.send(Message::Event(Event::Live(epoch)));
                return;
            }
        }
        sleep(INTERVAL).await;
    }
}

/// Returns if the epoch is live; `None` if it does not answer.
///
/// Its workers take over the listeners when they start. Before, Envoy waits for the first clusters
/// and listeners of the control plane.
async fn state(admin: &Admin, epoch: u32) -> Option<bool> {
    let info = admin.get("/server_info").await.ok()?;
    let info: Value = serde_json::from_str(&info).ok()?;
    let answering = info.pointer("/command_line_options/restart_epoch").and_then(Value::as_u64);
    if answering.unwrap_or_default() != u64::from(epoch) {
        return None;
    }
    if info.get("state").and_then(Value::as_str) != Some("LIVE") {
        return Some(false);
    }
    let stats = admin.stats("^listener_manager.workers_started$").await.ok()?;
    // The statistics of the bootstrap may omit the gauge.
    Some(stats.get("listener_manager.workers_started").is_none_or(|started| started == 1))
}

const INTERVAL: Duration = Duration::from_millis(50);
