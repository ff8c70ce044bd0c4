//! Result of the latest round, shared with the metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use jiff::Timestamp;

use crate::report::tally::{Counts, Tally};

/// Latest result, and counters of Events.
#[derive(Clone, Debug, Default)]
pub(in crate::webhook) struct SharedReport(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    latest: ArcSwap<ReportState>,
    events: AtomicU64,
    event_failures: AtomicU64,
}

/// Result of a round.
#[derive(Clone, Debug)]
pub(super) struct ReportState {
    /// State, one of [`ReportState::STATES`].
    pub(super) state: &'static str,
    /// Counts by namespace, from the latest complete round.
    pub(super) namespaces: Vec<(String, Counts)>,
    /// Number of pods in that round.
    pub(super) pods: u64,
    /// Time when that round was complete.
    pub(super) completed: Option<Timestamp>,
}

impl ReportState {
    pub(super) const PENDING: &str = "pending";
    pub(super) const CURRENT: &str = "current";
    pub(super) const FORBIDDEN: &str = "forbidden";
    pub(super) const FAILING: &str = "failing";
    pub(super) const STATES: [&str; 4] =
        [Self::PENDING, Self::CURRENT, Self::FORBIDDEN, Self::FAILING];
}

impl Default for ReportState {
    fn default() -> Self {
        Self { state: Self::PENDING, namespaces: Vec::new(), pods: 0, completed: None }
    }
}

impl SharedReport {
    /// Records a complete round. Returns true if the state was not current before.
    pub(in crate::webhook) fn completed(&self, tally: &Tally, now: Timestamp) -> bool {
        let latest = ReportState {
            state: ReportState::CURRENT,
            namespaces: tally.namespaces(NAMESPACES),
            pods: tally.pods,
            completed: Some(now),
        };
        self.0.latest.swap(Arc::new(latest)).state != ReportState::CURRENT
    }

    /// Records an incomplete round, and keeps the counts of the last complete one. Returns true if
    /// the state has changed.
    pub(super) fn failed(&self, state: &'static str) -> bool {
        let before = self.latest();
        self.0.latest.store(Arc::new(ReportState { state, ..ReportState::clone(&before) }));
        before.state != state
    }

    /// Counts a written Event.
    pub(super) fn event(&self) {
        self.0.events.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an Event that could not be written.
    pub(super) fn event_failed(&self) {
        self.0.event_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the latest result.
    pub(super) fn latest(&self) -> Arc<ReportState> {
        self.0.latest.load_full()
    }

    /// Returns the number of written Events, and of those that could not be written.
    pub(super) fn events(&self) -> [u64; 2] {
        [&self.0.events, &self.0.event_failures].map(|counter| counter.load(Ordering::Relaxed))
    }
}

/// Largest number of namespaces with a series of their own.
const NAMESPACES: usize = 100;
