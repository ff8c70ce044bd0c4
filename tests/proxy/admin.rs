//! Envoy's admin interface, on loopback.

use anyhow::Result;
use hyper::Method;

use crate::http::ask_loopback;

/// Whether Envoy takes connections; the error says what is missing.
pub(crate) async fn ready() -> Result<()> {
    ask_loopback(&Method::GET, PORT, "/ready").await.map(drop)
}

/// Lets Envoy close connections as they finish, and go on accepting until it is stopped.
pub(crate) async fn drain() -> Result<()> {
    ask_loopback(&Method::POST, PORT, "/drain_listeners?graceful&skip_exit").await.map(drop)
}

/// Envoy's statistics, for Prometheus.
pub(crate) async fn statistics() -> Result<String> {
    ask_loopback(&Method::GET, PORT, "/stats/prometheus").await
}

/// Its port.
pub(crate) const PORT: u16 = 15000;
