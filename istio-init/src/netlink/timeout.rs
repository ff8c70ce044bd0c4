//! Work that may never end, and how long it is waited for.

use std::io;
use std::thread;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Begins the work on a thread of its own. Fails where no thread can be made, as at the limit of a
/// user's or a pod's processes.
pub(crate) fn begin<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    thread::Builder::new().spawn(work)
}

/// Waits for the result of work; `None` if it does not end in time.
pub(crate) fn wait<T>(work: JoinHandle<T>) -> Option<T> {
    let deadline = Instant::now() + TIMEOUT;
    // A channel has a time limit of its own, and takes 10 kB of the program.
    while !work.is_finished() {
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    work.join().ok()
}

/// Longer than a program waits for a lock; then something else is wrong.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(35);
/// Shorter than a run of iptables.
pub(crate) const BETWEEN_LOOKS: Duration = Duration::from_micros(500);
