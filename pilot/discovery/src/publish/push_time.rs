//! Times of published states, for metrics.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Times of the oldest state that a stream has not taken. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct PushTime(Arc<Mutex<Option<Push>>>);

/// Times of a published state.
#[derive(Clone, Copy, Debug)]
pub struct Push {
    /// Arrival of the change.
    pub changed: Instant,
    /// End of the generation.
    pub published: Instant,
}

impl PushTime {
    /// Publishes a state. It merges with one that was not taken.
    pub(super) fn publish(&self, changed: Instant) {
        self.lock().get_or_insert(Push { changed, published: Instant::now() });
    }

    /// Takes the states that were published.
    pub fn take(&self) -> Option<Push> {
        self.lock().take()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Push>> {
        // Each change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
