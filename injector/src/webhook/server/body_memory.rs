//! Large bodies, and how much memory they may take together.
//!
//! A pod that the API server sends is some kilobytes long. A call of megabytes costs memory while it
//! is read, and many times as much once it is parsed: what whoever creates pods, or reaches the
//! port, could use to have the injector killed. So large bodies share room of their own while they
//! are read, take turns in being answered ([`Turns`]), and may hold so many values. Calls of usual
//! size wait for none of it.
//!
//! Room is taken as bytes come, since a length costs nothing to announce. Bodies that hold a part of
//! it and wait for more could wait for each other for ever; so as much as the longest body needs is
//! kept apart, for one at a time, which has enough to come to its end.

use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard, Semaphore, SemaphorePermit};

use super::turns::{Caller, Turn, Turns};

/// The room and the turns of large bodies.
#[derive(Debug)]
pub struct LargeBodies {
    /// In steps.
    shared: Semaphore,
    /// What is kept apart.
    last: Mutex<()>,
    turns: Arc<Turns>,
}

impl LargeBodies {
    /// Room for some bodies of `limit` bytes at a time, or for many that are shorter.
    pub fn new(limit: usize) -> Self {
        let shared = limit.div_ceil(STEP).saturating_mul(LARGEST_AT_A_TIME - 1);
        let shared = Semaphore::new(shared.min(Semaphore::MAX_PERMITS));
        Self { shared, last: Mutex::default(), turns: Turns::new(1) }
    }

    /// The room of a body of which nothing has come yet: enough for a small one.
    pub(in crate::webhook) fn room(&self) -> Room<'_> {
        Room { bodies: self, length: SMALL, shared: None, last: None }
    }

    /// Waits until it is the caller's turn to have a large body answered.
    pub(in crate::webhook) async fn turn(&self, caller: Caller) -> Turn {
        self.turns.take(caller).await
    }
}

/// Whether a review of this length may take long.
pub(in crate::webhook) fn is_expensive(length: usize) -> bool {
    length > SMALL
}

/// The room that one body takes, which is free again when this is dropped.
#[derive(Debug)]
pub(in crate::webhook) struct Room<'a> {
    bodies: &'a LargeBodies,
    /// In bytes.
    length: usize,
    shared: Option<SemaphorePermit<'a>>,
    last: Option<MutexGuard<'a, ()>>,
}

impl Room<'_> {
    /// Whether it is enough for as many bytes.
    pub(in crate::webhook) fn holds(&self, length: usize) -> bool {
        length <= self.length
    }

    /// Waits until it is a step longer, for as long as another body takes that needs all of what is
    /// kept apart.
    pub(in crate::webhook) async fn grow(&mut self) {
        if self.last.is_none() {
            match (self.bodies.shared.try_acquire(), &mut self.shared) {
                (Ok(step), Some(shared)) => shared.merge(step),
                (Ok(step), None) => self.shared = Some(step),
                (Err(_), _) => self.last = Some(self.bodies.last.lock().await),
            }
        }
        self.length = self.length.saturating_add(STEP);
    }
}

/// Whether JSON holds more values than any pod: each costs many times its length once it is parsed.
/// What is short is not counted.
pub(in crate::webhook) fn holds_too_many_values(json: &[u8]) -> bool {
    if json.len() <= COUNTED {
        return false;
    }
    let (mut containers, mut values) = (0_usize, 0_usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => containers += 1,
            b',' if !in_string => values += 1,
            _ => {}
        }
    }
    containers > CONTAINERS || values > VALUES
}

/// Bytes up to which a body is none of these: it costs little while it is read, and is answered at
/// once.
const SMALL: usize = 16 << 10;
/// Bytes by which room grows.
const STEP: usize = 64 << 10;
/// Bodies of the greatest length for which there is room.
const LARGEST_AT_A_TIME: usize = 4;
/// Bytes up to which values are not counted.
const COUNTED: usize = 64 << 10;
/// Objects and lists of a document.
const CONTAINERS: usize = 40_000;
/// What stands in them, but for the first of each.
const VALUES: usize = 250_000;

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn values_are_counted_and_not_what_strings_hold() {
        let list = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
        for (json, expected) in [
            (list("{\"a\":0}", 39_000), false),
            (list("{\"a\":0}", 41_000), true),
            (list("12", 249_000), false),
            (list("12", 252_000), true),
            (format!("[\"{}\"]", "\\\"{,[".repeat(600_000)), false),
            (list("[]", 30_000), false),
        ] {
            assert_eq!(holds_too_many_values(json.as_bytes()), expected, "{} bytes", json.len());
        }
    }

    #[tokio::test]
    async fn small_bodies_wait_for_no_large_one() {
        let bodies = LargeBodies::new(1 << 20);
        let _held = [filled(&bodies), filled(&bodies), filled(&bodies), filled(&bodies)];
        assert!(bodies.room().holds(SMALL));
        assert!(bodies.room().grow().now_or_never().is_none());
    }

    #[test]
    fn a_body_takes_room_for_what_has_come_of_it() {
        let bodies = LargeBodies::new(1 << 20);
        let mut begun: Vec<_> = (0..40).map(|_| bodies.room()).collect();
        for room in &mut begun {
            room.grow().now_or_never().unwrap();
        }
        assert!(filled(&bodies).last.is_some());
        drop(begun);
        assert!(filled(&bodies).last.is_none());
    }

    #[test]
    fn bodies_that_grow_together_all_come_to_their_end() {
        let bodies = LargeBodies::new(1 << 20);
        let mut growing: Vec<_> = (0..12).map(|_| bodies.room()).collect();
        let mut largest = 0;
        // Whatever waits is asked again in the next round.
        let mut rounds = 0..1000;
        while !growing.is_empty() {
            rounds.next().expect("bodies wait for each other");
            for room in &mut growing {
                let _ = room.grow().now_or_never();
            }
            largest = largest.max(growing.iter().map(taken).sum());
            growing.retain(|room| !room.holds(1 << 20));
        }
        assert_eq!(largest, LARGEST_AT_A_TIME << 20);
        assert_eq!(bodies.shared.available_permits(), 3 * (1 << 20) / STEP);
    }

    /// Room for a body of the greatest length.
    fn filled(bodies: &LargeBodies) -> Room<'_> {
        let mut room = bodies.room();
        while !room.holds(1 << 20) {
            room.grow().now_or_never().unwrap();
        }
        room
    }

    /// What a body has taken of the room there is.
    fn taken(room: &Room<'_>) -> usize {
        let shared = room.shared.as_ref().map_or(0, SemaphorePermit::num_permits);
        shared * STEP + room.last.as_ref().map_or(0, |_| 1 << 20)
    }
}
