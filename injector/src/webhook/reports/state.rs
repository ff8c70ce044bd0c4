//! What the latest round has told, for whoever asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use jiff::Timestamp;

use crate::report::tally::{Counts, Tally};

/// The latest told, shared with the metrics.
#[derive(Clone, Debug, Default)]
pub(super) struct Telling(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    told: ArcSwap<Told>,
    events: AtomicU64,
    event_failures: AtomicU64,
}

/// What a round has told.
#[derive(Clone, Debug)]
pub(super) struct Told {
    /// One of [`Told::STATES`].
    pub(super) state: &'static str,
    /// By namespace, of the latest complete round.
    pub(super) namespaces: Vec<(String, Counts)>,
    /// How many pods that looked at.
    pub(super) pods: u64,
    /// When it was complete.
    pub(super) completed: Option<Timestamp>,
}

impl Told {
    pub(super) const PENDING: &str = "pending";
    pub(super) const CURRENT: &str = "current";
    pub(super) const FORBIDDEN: &str = "forbidden";
    pub(super) const FAILING: &str = "failing";
    pub(super) const STATES: [&str; 4] =
        [Self::PENDING, Self::CURRENT, Self::FORBIDDEN, Self::FAILING];
}

impl Default for Told {
    fn default() -> Self {
        Self { state: Self::PENDING, namespaces: Vec::new(), pods: 0, completed: None }
    }
}

impl Telling {
    /// Takes a complete round; whether the one before was none.
    pub(super) fn completed(&self, tally: &Tally, now: Timestamp) -> bool {
        let told = Told {
            state: Told::CURRENT,
            namespaces: tally.namespaces(NAMESPACES),
            pods: tally.pods,
            completed: Some(now),
        };
        self.0.told.swap(Arc::new(told)).state != Told::CURRENT
    }

    /// Takes a round that could not be completed, and keeps what the last complete one told;
    /// whether that is news.
    pub(super) fn failed(&self, state: &'static str) -> bool {
        let before = self.told();
        self.0.told.store(Arc::new(Told { state, ..Told::clone(&before) }));
        before.state != state
    }

    /// An Event was written.
    pub(super) fn event(&self) {
        self.0.events.fetch_add(1, Ordering::Relaxed);
    }

    /// An Event could not be written.
    pub(super) fn event_failed(&self) {
        self.0.event_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// The latest.
    pub(super) fn told(&self) -> Arc<Told> {
        self.0.told.load_full()
    }

    /// How many Events were written, and how many could not be.
    pub(super) fn events(&self) -> [u64; 2] {
        [&self.0.events, &self.0.event_failures].map(|counter| counter.load(Ordering::Relaxed))
    }
}

/// Namespaces with a series of their own.
const NAMESPACES: usize = 100;
