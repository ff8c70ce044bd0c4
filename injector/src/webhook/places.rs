//! Places for connections, and who has to give one up when all are taken.
//!
//! A process that refused further connections while it holds idle ones would be shut off from API
//! servers by anybody who opens connections and does nothing. So the connection that does nothing
//! makes room: first the one that has waited longest without ever sending a request, in its
//! handshake or after it; where there is none, the one whose last answer was longest ago. Those
//! with a request on its way stay, each within the time that it has.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

/// The places of one listener.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    count: u32,
    waiting: Mutex<Waiting>,
    /// There is one more in `waiting`.
    joined: Notify,
}

/// The connections that wait for a request, in the order in which they make room.
#[derive(Debug, Default)]
struct Waiting {
    never_used: BTreeMap<Turn, Arc<Notify>>,
    used: BTreeMap<Turn, Arc<Notify>>,
    /// Tells apart what began at the same instant.
    next: u64,
}

/// Since when a connection waits; the first has waited longest.
type Turn = (Instant, u64);

impl Waiting {
    fn join(&mut self, was_used: bool, since: Instant, told: Arc<Notify>) -> Turn {
        self.next += 1;
        let turn = (since, self.next);
        if was_used { &mut self.used } else { &mut self.never_used }.insert(turn, told);
        turn
    }

    /// One that was displaced a moment ago has left already.
    fn leave(&mut self, turn: Turn) {
        if self.used.remove(&turn).is_none() {
            self.never_used.remove(&turn);
        }
    }

    /// Tells the first connection in turn to make room, unless it has only just begun to wait.
    fn displace(&mut self, now: Instant) -> Displaced {
        // One that was used stays even where it takes a moment until another may be displaced.
        let first = self.never_used.first_entry().or_else(|| self.used.first_entry());
        let Some(first) = first else { return Displaced::Nobody };
        let until = first.key().0 + SPARED;
        if until > now {
            return Displaced::NoneBefore(until);
        }
        first.remove().notify_one();
        Displaced::One
    }
}

impl Places {
    pub(super) fn new(count: usize) -> Arc<Self> {
        let count = count.min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            free: Arc::new(Semaphore::new(count)),
            count: u32::try_from(count).unwrap_or(u32::MAX),
            waiting: Mutex::default(),
            joined: Notify::new(),
        })
    }

    /// Takes a place. Where all are taken, it waits for one, and `displaced` hears of each
    /// connection that has to make room.
    pub(super) async fn take(self: &Arc<Self>, displaced: impl Fn()) -> Place {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Place::new(Arc::clone(self), permit);
        }
        let mut taking = std::pin::pin!(Arc::clone(&self.free).acquire_owned());
        loop {
            let joined = self.joined.notified();
            let until = match self.waiting().displace(Instant::now()) {
                // It may have a request just now after all, and keep its place for that long.
                Displaced::One => {
                    displaced();
                    Some(Instant::now() + SPARED)
                }
                Displaced::NoneBefore(instant) => Some(instant),
                Displaced::Nobody => None,
            };
            let changed = async {
                match until {
                    Some(instant) => sleep_until(instant).await,
                    None => joined.await,
                }
            };
            tokio::select! {
                taken = &mut taking => match taken {
                    Ok(permit) => return Place::new(Arc::clone(self), permit),
                    // It is never closed.
                    Err(_) => std::future::pending().await,
                },
                () = changed => {}
            }
        }
    }

    /// Completes when no place is taken.
    pub(super) async fn all_free(&self) {
        let _ = self.free.acquire_many(self.count).await;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Eq, PartialEq)]
enum Displaced {
    One,
    NoneBefore(Instant),
    Nobody,
}

/// The place of a connection, which is free again when this is dropped.
///
/// At first the connection waits, without having been used.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    told: Arc<Notify>,
    turn: Mutex<Option<Turn>>,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    fn new(places: Arc<Places>, permit: OwnedSemaphorePermit) -> Self {
        let place = Self { places, told: Arc::default(), turn: Mutex::default(), _permit: permit };
        place.wait(false);
        place
    }

    /// The connection has nothing to do.
    pub(super) fn wait(&self, was_used: bool) {
        let told = Arc::clone(&self.told);
        let turn = self.places.waiting().join(was_used, Instant::now(), told);
        *self.turn() = Some(turn);
        self.places.joined.notify_waiters();
    }

    /// The connection has a request.
    pub(super) fn work(&self) {
        if let Some(turn) = self.turn().take() {
            self.places.waiting().leave(turn);
        }
    }

    /// Completes when another connection needs the place.
    pub(super) async fn displaced(&self) {
        self.told.notified().await;
    }

    fn turn(&self) -> MutexGuard<'_, Option<Turn>> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.work();
    }
}

/// How long a connection may wait before it has to make room: more than a handshake takes, and more
/// than a client that has just had an answer needs to ask again.
const SPARED: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_never_asked_makes_room_first_and_who_works_stays() {
        let mut waiting = Waiting::default();
        let begin = Instant::now();
        let told: Vec<Arc<Notify>> = (0..5).map(|_| Arc::default()).collect();
        let second = Duration::from_secs(1);
        let mut join = |index: usize, was_used, after| {
            waiting.join(was_used, begin + after, Arc::clone(&told[index]))
        };
        join(0, true, second);
        let working = join(1, false, Duration::ZERO);
        join(2, true, Duration::ZERO);
        join(3, false, 9 * second);
        join(4, false, second);
        waiting.leave(working);

        let mut order = Vec::new();
        let mut now = begin + 9 * second;
        loop {
            match waiting.displace(now) {
                Displaced::One => order.extend(told.iter().position(|told| {
                    let mut notified = std::pin::pin!(told.notified());
                    notified.as_mut().enable()
                })),
                Displaced::NoneBefore(instant) => {
                    assert_eq!(instant, begin + 9 * second + SPARED);
                    now = instant;
                }
                Displaced::Nobody => break,
            }
        }
        assert_eq!(order, [4, 3, 2, 0]);
    }

    #[tokio::test]
    async fn a_place_that_is_given_back_displaces_nobody() {
        let places = Places::new(1);
        let first = places.take(|| {}).await;
        first.work();
        let (next, ()) = tokio::join!(places.take(|| panic!("somebody was displaced")), async {
            drop(first);
        });
        assert_eq!(places.free.available_permits(), 0);
        drop(next);
        places.all_free().await;
        assert_eq!(places.waiting().displace(Instant::now()), Displaced::Nobody);
    }
}
