//! Limits on connections and on the duration of their phases.

use std::time::Duration;

/// Limits of a listener and of its connections.
///
/// Each phase of a connection has its own timeout, which distinguishes a slow client from an idle
/// one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Largest number of connections. A further one displaces a connection that waits for its
    /// client, or waits itself if there is no such connection.
    pub connections: usize,
    /// Time from accepting a connection to the end of its TLS handshake.
    pub handshake: Duration,
    /// Time from the first byte of a request to the end of its head.
    pub head: Duration,
    /// Time from the end of a request's head to its response. The handler has a shorter time limit
    /// of its own; this one is for a handler that is stuck.
    pub review: Duration,
    /// Time from a response until its last byte is written.
    pub reply: Duration,
    /// Time between requests, and before the first one. It is more than the 90 s after which API
    /// servers close an idle connection: if the server closed it first, a call could already be on
    /// its way.
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
