//! Threads with a runtime of their own.

use std::{io, thread};

use tokio::runtime::{Builder, Handle};

/// Starts a thread for tasks that no other task of the process may delay. The kernel gives it its
/// share of the CPU, however many requests wait in the main runtime. The thread lasts as long as
/// the process.
pub(in crate::webhook) fn start(name: &str) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let run = move || runtime.block_on(std::future::pending::<()>());
    thread::Builder::new().name(name.to_owned()).spawn(run)?;
    Ok(handle)
}
