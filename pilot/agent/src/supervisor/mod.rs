//! Supervision of Envoy: epochs, hot restarts, drain, shutdown.
//!
//! [`machine`] decides and knows neither clock nor process. [`Supervisor`] carries its actions out.

mod abandoned;
mod bootstrap_files;
mod cgroup;
mod command;
mod connections;
pub mod envoy_child;
mod error_output;
mod executor;
mod guard;
pub mod machine;
pub mod metrics;
mod options;
mod parent_socket;
mod preconditions;
mod process;
mod revisions;
mod running_envoy;
mod shared_memory;
mod timers;
mod validation;

use std::io;
use std::sync::Arc;

use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use executor::Executor;
pub use machine::Exit;
use machine::{Event, Revision};
pub use metrics::Metrics;
pub use options::{Desired, Options};
use running_envoy::Ended;

use crate::health::Health;

/// Supervisor of Envoy.
#[derive(Debug)]
pub struct Supervisor {
    options: Options,
    health: Arc<Health>,
    metrics: Metrics,
    serving: watch::Sender<Option<u32>>,
}

/// Message of a task.
#[derive(Debug)]
enum Message {
    /// An event of the machine.
    Event(Event),
    /// The control plane is reachable, which a bootstrap needs.
    Reachable(Revision),
    /// The process of an epoch has ended.
    Ended(Ended),
}

/// Request of the status port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Request {
    /// `POST /drain`: drains and keeps serving; SIGTERM then ends at once.
    Drain,
    /// `POST /quitquitquit`: ends without draining.
    Quit,
}

/// Error of supervision itself.
#[derive(Debug, Error)]
pub enum SupervisorError {
    /// A signal handler could not be installed.
    #[error("handling {0}")]
    Signal(&'static str, #[source] io::Error),
}

impl Supervisor {
    /// Returns a supervisor that reports conditions to `health` and the serving epoch to `serving`.
    pub fn new(
        options: Options,
        health: Arc<Health>,
        metrics: Metrics,
        serving: watch::Sender<Option<u32>>,
    ) -> Self {
        Self { options, health, metrics, serving }
    }

    /// Runs Envoy with the desired bootstrap until SIGTERM, SIGINT, a request, or an exit of Envoy.
    /// No process of Envoy is left afterwards.
    ///
    /// Poll it on a thread that lives as long as the process, such as the thread of a
    /// current-thread runtime: Envoy ends with the thread that started it.
    pub async fn run(
        self,
        mut desired: watch::Receiver<Arc<Desired>>,
        mut requests: mpsc::Receiver<Request>,
    ) -> Result<Exit, SupervisorError> {
        let handle =
            |kind, name| signal(kind).map_err(|error| SupervisorError::Signal(name, error));
        let mut terminate = handle(SignalKind::terminate(), "SIGTERM")?;
        let mut interrupt = handle(SignalKind::interrupt(), "SIGINT")?;
        let mut child = handle(SignalKind::child(), "SIGCHLD")?;
        let (sender, mut messages) = mpsc::unbounded_channel();
        let first = Arc::clone(&desired.borrow_and_update());
        let Self { options, health, metrics, serving } = self;
        let mut executor = Executor::new(options, &first, health, metrics, serving, sender);
        executor.desire(&first);
        loop {
            if let Some(exit) = executor.take_exit() {
                return Ok(exit);
            }
            tokio::select! {
                Some(message) = messages.recv() => executor.receive(message),
                timer = executor.next_timer() => executor.send(Event::Timer(timer)),
                _ = terminate.recv() => executor.send(Event::Terminate),
                _ = interrupt.recv() => executor.send(Event::Terminate),
                _ = child.recv() => executor.reap_orphans(),
                Ok(()) = desired.changed() => executor.desire(&desired.borrow_and_update()),
                Some(request) = requests.recv() => executor.send(match request {
                    Request::Drain => Event::DrainRequested,
                    Request::Quit => Event::Quit,
                }),
            }
        }
    }
}
