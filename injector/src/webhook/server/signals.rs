//! Signals that end the server, and ignored signals.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Handlers for SIGTERM (sent by the kubelet), for SIGINT and SIGQUIT (sent by a terminal), and for
/// others that would end the process by default.
pub(in crate::webhook) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hangup: Signal,
    user1: Signal,
    user2: Signal,
}

impl Signals {
    /// Installs the handlers. From now on these signals do not end the process by themselves.
    pub(in crate::webhook) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    /// Waits for the next signal that ends the server, and returns its name. SIGHUP, SIGUSR1 and
    /// SIGUSR2 are only logged: other programs reload or dump on them, but this one follows files
    /// and `ConfigMap`s without a signal.
    pub(in crate::webhook) async fn next(&mut self) -> &'static str {
        loop {
            let ignored = tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.quit.recv() => return "SIGQUIT",
                _ = self.hangup.recv() => "SIGHUP",
                _ = self.user1.recv() => "SIGUSR1",
                _ = self.user2.recv() => "SIGUSR2",
            };
            tracing::info!(signal = ignored, "signal ignored");
        }
    }
}
