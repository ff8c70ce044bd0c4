//! `pilot-agent proxy`: runs Envoy and serves the status port.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use crate::app::App;
use crate::arguments::Proxy;
use crate::environment::Pod;
use crate::envoy::Envoy;
use crate::status::Status;

/// Runs Envoy until a signal ends both. The exit of Envoy without a signal is an error.
pub(crate) async fn run(proxy: &Proxy) -> Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(proxy.agent_log_level.0)
        .with_target(false)
        .with_ansi(false)
        .init();
    let mut terminate = signal(SignalKind::terminate()).context("waiting for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("waiting for SIGINT")?;
    let pod = Pod::current()?;
    let mut envoy = Envoy::start(proxy, &pod)?;
    if let Some(port) = pod.status_port {
        let app = App::new(pod.app_probes, pod.address)?;
        let status = Status::bind(port, pod.families, app).await?;
        tokio::spawn(Arc::new(status).serve());
    }
    let asked_by = tokio::select! {
        ended = envoy.end() => bail!("Envoy ended by itself: {}", ended?),
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    };
    tracing::info!("{asked_by}: Envoy is asked to end");
    envoy.terminate()?;
    let ended = envoy.end().await?;
    tracing::info!("Envoy ended: {ended}");
    Ok(())
}
