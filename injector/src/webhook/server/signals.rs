//! Signals that end the server, and those that change nothing.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM, which the kubelet sends, SIGINT and SIGQUIT, which a terminal does, and others that would
/// end the process by default.
pub(in crate::webhook) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hangup: Signal,
    user1: Signal,
    user2: Signal,
}

impl Signals {
    /// From now on these signals no longer end the process by themselves.
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

    /// Waits for the next signal to end and returns its name. Signals that other programs reload or
    /// dump by are logged: files and `ConfigMap`s are followed without.
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
