//! Body budget: limit on the memory of large request bodies.
//!
//! A review from the API server is some kilobytes long. A call of megabytes costs memory while it
//! is read, and many times as much once it is parsed. A user who creates pods, or a client that
//! reaches the port, could use this to exhaust the injector's memory. Large bodies therefore share
//! a separate budget while they are read. They take turns in being answered ([`Turns`]), and the
//! number of their JSON values is limited. Calls of usual size wait for none of this.
//!
//! Budget is taken as bytes arrive, because announcing a length costs the client nothing. Bodies
//! that hold a part of the budget and wait for more could deadlock. A reserve as large as the
//! longest body is therefore kept for one body at a time, which can then be read to its end.

use std::io;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{Mutex, MutexGuard, Semaphore, SemaphorePermit};

use super::own_thread;
use super::turns::{Caller, Turn, Turns};

/// Budget and turns of large bodies.
#[derive(Debug)]
pub struct BodyBudget {
    /// Budget for all bodies, in steps of [`STEP`] bytes.
    shared: Semaphore,
    /// Reserve for one body.
    last: Mutex<()>,
    turns: Arc<Turns>,
    /// Thread that answers large bodies. There is only one, because each thread's allocator keeps
    /// the memory of its largest review.
    thread: Handle,
}

impl BodyBudget {
    /// Returns a budget for four bodies of `limit` bytes at a time, or for many shorter ones.
    /// Starts the thread that answers them.
    pub fn new(limit: usize) -> io::Result<Self> {
        let shared = limit.div_ceil(STEP).saturating_mul(LARGEST_AT_A_TIME - 1);
        let shared = Semaphore::new(shared.min(Semaphore::MAX_PERMITS));
        let thread = own_thread::start("large-reviews")?;
        Ok(Self { shared, last: Mutex::default(), turns: Turns::new(1), thread })
    }

    /// Returns the budget of a body of which nothing has arrived yet: enough for a small one.
    pub(in crate::webhook) fn reserve(&self) -> BodyReservation<'_> {
        BodyReservation { bodies: self, length: SMALL, shared: None, last: None }
    }

    /// Returns the thread that computes the answers to large bodies, and serves nothing else.
    pub(in crate::webhook) fn thread(&self) -> &Handle {
        &self.thread
    }

    /// Waits for the caller's turn to have a large body answered.
    pub(in crate::webhook) async fn turn(&self, caller: Caller) -> Turn {
        self.turns.take(caller).await
    }
}

/// True if answering a review of this length may take long.
pub(in crate::webhook) fn is_expensive(length: usize) -> bool {
    length > SMALL
}

/// Budget that one body holds, released on drop.
#[derive(Debug)]
pub(in crate::webhook) struct BodyReservation<'a> {
    bodies: &'a BodyBudget,
    /// Budget in bytes.
    length: usize,
    shared: Option<SemaphorePermit<'a>>,
    last: Option<MutexGuard<'a, ()>>,
}

impl BodyReservation<'_> {
    /// True if the budget covers `length` bytes.
    pub(in crate::webhook) fn holds(&self, length: usize) -> bool {
        length <= self.length
    }

    /// Grows the budget by one step. If the shared budget is used up, it waits while another body
    /// holds the reserve.
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

/// True if the JSON text contains more values than any pod. Each value costs many times its length
/// once it is parsed. Values of short text are not counted.
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

/// Largest small body in bytes. It costs little memory while it is read, and the serving thread
/// answers it.
const SMALL: usize = 16 << 10;
/// Step of budget growth in bytes.
const STEP: usize = 64 << 10;
/// Number of bodies of the greatest length that fit the budget.
const LARGEST_AT_A_TIME: usize = 4;
/// Length in bytes up to which values are not counted.
const COUNTED: usize = 64 << 10;
/// Largest number of objects and lists in a document.
const CONTAINERS: usize = 20_000;
/// Largest number of values in these objects and lists, without the first of each.
const VALUES: usize = 100_000;

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn json_values_are_counted_outside_strings_only() {
        let list = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
        for (json, expected) in [
            (list("{\"a\":0}", 19_000), false),
            (list("{\"a\":0}", 21_000), true),
            (list("12", 99_000), false),
            (list("12", 102_000), true),
            (format!("[\"{}\"]", "\\\"{,[".repeat(600_000)), false),
            (list("[]", 15_000), false),
        ] {
            assert_eq!(holds_too_many_values(json.as_bytes()), expected, "{} bytes", json.len());
        }
    }

    #[tokio::test]
    async fn small_bodies_do_not_wait_for_large_ones() {
        let bodies = BodyBudget::new(1 << 20).unwrap();
        let _held = [filled(&bodies), filled(&bodies), filled(&bodies), filled(&bodies)];
        assert!(bodies.reserve().holds(SMALL));
        assert!(bodies.reserve().grow().now_or_never().is_none());
    }

    #[test]
    fn body_reserves_memory_for_received_bytes_only() {
        let bodies = BodyBudget::new(1 << 20).unwrap();
        let mut begun: Vec<_> = (0..40).map(|_| bodies.reserve()).collect();
        for reservation in &mut begun {
            reservation.grow().now_or_never().unwrap();
        }
        assert!(filled(&bodies).last.is_some());
        drop(begun);
        assert!(filled(&bodies).last.is_none());
    }

    #[test]
    fn bodies_growing_together_all_complete() {
        let bodies = BodyBudget::new(1 << 20).unwrap();
        let mut growing: Vec<_> = (0..12).map(|_| bodies.reserve()).collect();
        let mut largest = 0;
        // Every waiting body is polled again in the next round.
        let mut rounds = 0..1000;
        while !growing.is_empty() {
            rounds.next().expect("bodies wait for each other");
            for reservation in &mut growing {
                let _ = reservation.grow().now_or_never();
            }
            largest = largest.max(growing.iter().map(taken).sum());
            growing.retain(|reservation| !reservation.holds(1 << 20));
        }
        assert_eq!(largest, LARGEST_AT_A_TIME << 20);
        assert_eq!(bodies.shared.available_permits(), 3 * (1 << 20) / STEP);
    }

    /// Returns the budget of a body of the greatest length.
    fn filled(bodies: &BodyBudget) -> BodyReservation<'_> {
        let mut reservation = bodies.reserve();
        while !reservation.holds(1 << 20) {
            reservation.grow().now_or_never().unwrap();
        }
        reservation
    }

    /// Returns the bytes that a body holds of the shared budget and the reserve.
    fn taken(reservation: &BodyReservation<'_>) -> usize {
        let shared = reservation.shared.as_ref().map_or(0, SemaphorePermit::num_permits);
        shared * STEP + reservation.last.as_ref().map_or(0, |_| 1 << 20)
    }
}
