//! Work that may never end, and how long it is waited for.

use std::io;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// Begins the work on a thread of its own; the receiver gets its result. Fails where no thread can
/// be made, as at the limit of a user's or a pod's processes.
pub(crate) fn begin<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Receiver<T>> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        // There is no receiver after the deadline.
        let _ = sender.send(work());
    })?;
    Ok(receiver)
}

/// Longer than a program waits for a lock; then something else is wrong.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(35);
