//! Work that may never end, and how long it is waited for.

use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// Begins with the work; what is received is its result.
pub(super) fn begin<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // Nobody listens after the deadline.
        let _ = sender.send(work());
    });
    receiver
}

/// Longer than a program waits for a lock; then something else is wrong.
pub(super) const PATIENCE: Duration = Duration::from_secs(35);
