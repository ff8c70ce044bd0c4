//! Value kept up to date by a cluster watch.

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

use crate::cluster::store::{Key, Objects, StoreUpdate};
use crate::webhook::telemetry::metrics::Metrics;
use crate::webhook::telemetry::watch_state::WatchState;

/// Latest value, and the state of its watch.
#[derive(Debug)]
pub(super) struct Followed<T> {
    value: ArcSwap<T>,
    state: watch::Sender<WatchState>,
    /// End of the time in which reviews wait for the first result.
    first_answer_deadline: Instant,
}

impl<T: Default> Default for Followed<T> {
    fn default() -> Self {
        Self {
            value: ArcSwap::default(),
            state: watch::Sender::default(),
            first_answer_deadline: Instant::now() + FIRST_ANSWER,
        }
    }
}

impl<T> Followed<T> {
    /// Returns the latest value; the default until the watch has delivered one.
    ///
    /// Right after the start it waits for the cluster's first response, so that an early pod is not
    /// injected with the default. It waits until `deadline` at most, and only in the first seconds
    /// of the process.
    pub(super) async fn latest(&self, deadline: Instant) -> Arc<T> {
        if *self.state.borrow() == WatchState::Pending {
            let mut state = self.state.subscribe();
            let answered = state.wait_for(|state| *state != WatchState::Pending);
            let _ = timeout_at(deadline.min(self.first_answer_deadline), answered).await;
        }
        self.value.load_full()
    }
}

/// Name and purpose of a watch, for logs and metrics.
#[derive(Clone, Copy, Debug)]
pub(super) struct WatchedResource {
    /// Name of the resource in RBAC and metrics.
    pub(super) resource: &'static str,
    /// Consequence of a missing watch, in words.
    pub(super) without: &'static str,
}

/// Functions that build a value from objects.
pub(super) struct Reading<K, V, T> {
    /// Returns the data to keep of an object.
    pub(super) keep: Box<dyn Fn(K) -> Option<V> + Send>,
    /// Returns the value of all kept data.
    pub(super) value: fn(&BTreeMap<Key, V>) -> T,
    /// Reports a new value (second argument), given the previous one (first argument).
    pub(super) tell: fn(&T, &T, &Metrics),
}

/// Keeps `followed` up to date, for ever. `events` starts a watch.
///
/// A failed watch is retried at growing intervals of half a minute at most, and logged once.
pub(super) async fn follow<K, V, T, S>(
    subject: WatchedResource,
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
                    if let StoreUpdate::All { changed } = objects.apply(event, &reading.keep) {
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
            // Connections end now and then; the next list shows whether there is an error.
            if matches!(error, watcher::Error::WatchFailed(_) | watcher::Error::WatchError(_)) {
                tracing::debug!(resource = subject.resource, error = text, "watch ended");
                break;
            }
            let state = WatchState::from_error(&error);
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

impl WatchedResource {
    fn tell(self, state: WatchState, error: &str) {
        let Self { resource, without } = self;
        match state {
            WatchState::Pending | WatchState::Current => {}
            WatchState::Absent => {
                tracing::info!(resource, without, "not installed; retrying");
            }
            WatchState::Forbidden => {
                let hint = "grant the service account list and watch on it in the whole cluster";
                tracing::warn!(resource, without, error, hint, "watch is forbidden");
            }
            WatchState::Failing => {
                tracing::warn!(resource, error, "watch failed; the last known state stays");
            }
        }
    }
}

/// Time after the start in which reviews may wait for the first result.
const FIRST_ANSWER: Duration = Duration::from_secs(5);

/// Pause between attempts, in case the backoff returns none.
const LAST_PAUSE: Duration = Duration::from_secs(30);
