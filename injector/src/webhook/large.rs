//! Large bodies, and how much memory they may take together.
//!
//! A pod that the API server sends is some kilobytes long. A call of megabytes costs memory while it
//! is read, and many times as much once it is parsed: what whoever creates pods, or reaches the
//! port, could use to have the injector killed. So large bodies share room of their own while they
//! are read, take turns in being answered, and may hold so many values. Calls of usual size wait for
//! none of it.

use tokio::sync::{Mutex, MutexGuard, Semaphore, SemaphorePermit};

/// The room and the turns of large bodies.
#[derive(Debug)]
pub struct LargeBodies {
    /// In KiB.
    room: Semaphore,
    most: u32,
    turns: Mutex<()>,
}

impl LargeBodies {
    /// Room for some bodies of `limit` bytes at a time, or for many that are shorter.
    pub fn new(limit: usize) -> Self {
        let most = kib(limit).saturating_mul(LARGEST_AT_A_TIME);
        Self { room: Semaphore::new(most as usize), most, turns: Mutex::new(()) }
    }

    /// Waits for room for a body of at most `length` bytes; a small one needs none.
    pub(super) async fn room(&self, length: usize) -> Option<SemaphorePermit<'_>> {
        if length <= SMALL {
            return None;
        }
        self.room.acquire_many(kib(length).min(self.most)).await.ok()
    }

    /// Waits until no other large body is being answered; a small one does not wait.
    pub(super) async fn turn(&self, length: usize) -> Option<MutexGuard<'_, ()>> {
        if length <= SMALL { None } else { Some(self.turns.lock().await) }
    }
}

/// Whether JSON holds more values than any pod: each costs many times its length once it is parsed.
/// What is short is not counted.
pub(super) fn holds_too_many_values(json: &[u8]) -> bool {
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

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX)
}

/// Bytes up to which a body is none of these.
const SMALL: usize = 64 << 10;
/// Bodies of the greatest length that are read at a time.
const LARGEST_AT_A_TIME: u32 = 4;
/// Bytes up to which values are not counted.
const COUNTED: usize = 512 << 10;
/// Objects and lists of a document.
const CONTAINERS: usize = 100_000;
/// What stands in them, but for the first of each.
const VALUES: usize = 500_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_and_not_what_strings_hold() {
        let list = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
        for (json, expected) in [
            (list("{\"a\":0}", 99_000), false),
            (list("{\"a\":0}", 101_000), true),
            (list("12", 499_000), false),
            (list("12", 502_000), true),
            (format!("[\"{}\"]", "\\\"{,[".repeat(600_000)), false),
            (list("[]", 30_000), false),
        ] {
            assert_eq!(holds_too_many_values(json.as_bytes()), expected, "{} bytes", json.len());
        }
    }

    #[tokio::test]
    async fn small_bodies_wait_for_no_large_one() {
        let bodies = LargeBodies::new(1 << 20);
        let mut held = Vec::new();
        for _ in 0..LARGEST_AT_A_TIME {
            held.push(bodies.room(1 << 20).await.unwrap());
        }
        let _turn = bodies.turn(1 << 20).await.unwrap();
        assert!(bodies.room(SMALL).await.is_none() && bodies.turn(SMALL).await.is_none());
        assert!(bodies.room.try_acquire().is_err() && bodies.turns.try_lock().is_err());
    }
}
