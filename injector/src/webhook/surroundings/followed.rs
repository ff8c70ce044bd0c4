//! A value that a watch of the cluster keeps current, as far as the cluster lets it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::{Stream, StreamExt};
use kube::Resource;
use kube::runtime::watcher::{self, DefaultBackoff, Event};
use kube_access::with_causes;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use super::objects::{Key, Objects, Told};
use crate::webhook::metrics::Metrics;
use crate::webhook::watch_state::WatchState;

/// The latest value, and how its watch fares.
#[derive(Debug)]
pub(super) struct Followed<T> {
    value: ArcSwap<T>,
    state: watch::Sender<WatchState>,
    /// Until when reviews wait for the first answer.
    patience: Instant,
}

impl<T: Default> Default for Followed<T> {
    fn default() -> Self {
        Self {
            value: ArcSwap::default(),
            state: watch::Sender::default(),
            patience: Instant::now() + FIRST_ANSWER,
        }
    }
}

impl<T> Followed<T> {
    /// The latest value: the default until the watch has shown something.
    ///
    /// Right after the start, waits for the cluster's first answer, so that no pod is injected by
    /// the default only because it came early; not past `deadline`, and in the process's first
    /// seconds alone.
    pub(super) async fn latest(&self, deadline: Instant) -> Arc<T> {
        if *self.state.borrow() == WatchState::Pending {
            let mut state = self.state.subscribe();
            let told = state.wait_for(|state| *state != WatchState::Pending);
            let _ = timeout_at(deadline.min(self.patience), told).await;
        }
        self.value.load_full()
    }
}

/// What is followed, in words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject {
    /// The resource as RBAC and metrics name it.
    pub(super) resource: &'static str,
    /// What happens while it cannot be watched.
    pub(super) without: &'static str,
}

/// How a value is made from objects.
pub(super) struct Reading<K, V, T> {
    /// What is kept of an object.
    pub(super) keep: Box<dyn Fn(K) -> Option<V> + Send>,
    /// The value of all that is kept.
    pub(super) value: fn(&BTreeMap<Key, V>) -> T,
    /// Tells of a new value, given the one before it.
    pub(super) tell: fn(&T, &T, &Metrics),
}

/// Keeps `followed` current, for ever. `events` begins a watch.
///
/// A watch that cannot be had is tried again, at growing intervals of half a minute at most, and
/// told of once.
pub(super) async fn follow<K, V, T, S>(
    subject: Subject,
    events: impl Fn() -> S,
    reading: Reading<K, V, T>,
    followed: Arc<Followed<T>>,
    metrics: Arc<Metrics>,
) -> Infallible
where
    K: Resource,
    V: PartialEq,
    S: Stream<Item = Result<Event<K>, watcher::Error>>,
{
    let mut objects = Objects::default();
    let mut backoff = DefaultBackoff::default();
    let publish = |objects: &Objects<V>| {
        let value = Arc::new((reading.value)(objects.known()));
        let before = followed.value.swap(Arc::clone(&value));
        (reading.tell)(&before, &value, &metrics);
    };
    let enter = |state| {
        metrics.watch(subject.resource, state);
        followed.state.send_replace(state)
    };
    enter(WatchState::Pending);
    loop {
        let mut events = pin!(events());
        while let Some(event) = events.next().await {
            let error = match event {
                Ok(event) => {
                    if let Told::All { changed } = objects.apply(event, &reading.keep) {
                        if changed {
                            publish(&objects);
                        }
                        if enter(WatchState::Current) != WatchState::Current {
                            let objects = objects.known().len();
                            tracing::info!(resource = subject.resource, objects, "watching");
                        }
                    }
                    continue;
                }
                Err(error) => error,
            };
            let text = with_causes(&error);
            // A connection ends now and then; the next list shows whether something is wrong.
            if matches!(error, watcher::Error::WatchFailed(_) | watcher::Error::WatchError(_)) {
                tracing::debug!(resource = subject.resource, error = text, "watch ended");
                break;
            }
            let state = WatchState::of(&error);
            if state == WatchState::Absent && objects.clear() {
                publish(&objects);
            }
            if enter(state) != state {
                subject.tell(state, &text);
            }
            break;
        }
        sleep(backoff.next().unwrap_or(LAST_PAUSE)).await;
    }
}

impl Subject {
    fn tell(self, state: WatchState, error: &str) {
        let Self { resource, without } = self;
        match state {
            WatchState::Pending | WatchState::Current => {}
            WatchState::Absent => {
                tracing::info!(resource, without, "not installed; looked for again and again");
            }
            WatchState::Forbidden => {
                let hint = "grant the service account list and watch on it in the whole cluster";
                tracing::warn!(resource, without, error, hint, "may not be watched");
            }
            WatchState::Failing => {
                tracing::warn!(resource, error, "watch failed; what was known stays");
            }
        }
    }
}

/// For how long after the start reviews may wait for the first answer.
const FIRST_ANSWER: Duration = Duration::from_secs(5);

/// The pause between tries, if there were no other.
const LAST_PAUSE: Duration = Duration::from_secs(30);
