//! How much one client may ask of the server, and for how long.

use std::time::Duration;

/// The limits of a listener and of its connections.
///
/// Each phase of a connection has its own time, so that a slow client is told from an idle one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Connections at a time; further ones wait in the listener's queue.
    pub connections: usize,
    /// From accepting a connection to the end of its TLS handshake.
    pub handshake: Duration,
    /// From the first byte of a request to the end of its head.
    pub head: Duration,
    /// From the end of a request's head to its answer. The handler has its own, shorter time;
    /// this one is for a handler that is stuck.
    pub review: Duration,
    /// From an answer to its last byte being taken.
    pub reply: Duration,
    /// Between requests, and before the first. More than the 90 s after which API servers close an
    /// idle connection themselves: a call may be on its way to a server that closes it.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            handshake: Duration::from_secs(5),
            head: Duration::from_secs(5),
            review: Duration::from_secs(15),
            reply: Duration::from_secs(5),
            idle: Duration::from_secs(120),
        }
    }
}
