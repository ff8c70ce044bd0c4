//! The running control plane: its listeners and its parts.

use anyhow::{Context as _, Result};
use axum::Router;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::args::DiscoveryArgs;
use crate::listener::{self, Plaintext};

/// Serves until SIGTERM or SIGINT.
pub async fn run(args: DiscoveryArgs) -> Result<()> {
    let mut terminated = signal(SignalKind::terminate()).context("handling SIGTERM")?;
    let mut interrupted = signal(SignalKind::interrupt()).context("handling SIGINT")?;
    let (stop, stopped) = watch::channel(false);
    let mut listeners = JoinSet::new();
    if let Some(address) = args.grpc_addr.get() {
        let listener = listener::bind("--grpcAddr", address)?;
        tracing::info!(address = %listener.local_addr()?, "serving gRPC in plaintext");
        listeners.spawn(listener::serve(listener, Plaintext, Router::new(), stopped.clone()));
    }
    tokio::select! {
        _ = terminated.recv() => tracing::info!("SIGTERM: shutting down"),
        _ = interrupted.recv() => tracing::info!("SIGINT: shutting down"),
    }
    stop.send_replace(true);
    while listeners.join_next().await.is_some() {}
    Ok(())
}
