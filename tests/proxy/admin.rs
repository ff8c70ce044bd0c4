//! Envoy's admin interface, on loopback.

use anyhow::Result;
use hyper::Method;

use crate::http::ask_loopback;

/// Returns if Envoy accepts connections. The error says what is missing.
pub(crate) async fn ready() -> Result<()> {
    ask_loopback(&Method::GET, PORT, "/ready").await.map(drop)
}

/// Drains Envoy: it closes connections as they finish, and accepts new ones until it is stopped.
pub(crate) async fn drain() -> Result<()> {
    ask_loopback(&Method::POST, PORT, "/drain_listeners?graceful&skip_exit").await.map(drop)
}

/// Returns Envoy's statistics for Prometheus.
pub(crate) async fn statistics() -> Result<String> {
    ask_loopback(&Method::GET, PORT, "/stats/prometheus").await
}

/// The port of the admin interface.
pub(crate) const PORT: u16 = 15000;
