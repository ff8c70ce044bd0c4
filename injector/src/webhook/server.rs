//! The accept loop: connections within their limits, and their end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::connection::{self, ConnectionError};
use super::limits::Limits;
use super::metrics::Metrics;

/// A listener with what it serves.
pub struct Server {
    /// Bound already, so that readiness can be told before the first connection.
    pub listener: TcpListener,
    /// `None` serves plain HTTP.
    pub tls: Option<TlsAcceptor>,
    /// What answers.
    pub router: Router,
    /// What one client may take.
    pub limits: Limits,
    /// Where connections are counted; `None` for a listener of no interest.
    pub metrics: Option<Arc<Metrics>>,
}

impl Server {
    /// Serves until `stop` completes; then no connection is accepted any more, idle ones are
    /// closed, and requests in flight are answered with `Connection: close`, for `grace` at most.
    pub async fn run(self, stop: impl Future<Output = ()>, grace: Duration) {
        let Self { listener, tls, router, limits, metrics } = self;
        let graceful = GracefulShutdown::new();
        let places = Arc::new(Semaphore::new(limits.connections));
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
                accepted = accept(&listener, &places) => accepted,
            };
            let (stream, peer, place) = accepted;
            let connection = Connection {
                peer,
                tls: tls.clone(),
                router: router.clone(),
                limits,
                metrics: metrics.clone(),
                watcher: graceful.watcher(),
            };
            tokio::spawn(async move {
                connection.serve(stream).await;
                drop(place);
            });
        }
        drop(listener);
        if timeout(grace, graceful.shutdown()).await.is_err() {
            tracing::warn!("connections were still busy at the end of the grace period");
        }
    }
}

/// Waits for a free place, then for a connection. Further connections stay in the listener's
/// queue meanwhile.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    loop {
        let Ok(place) = Arc::clone(places).acquire_owned().await else {
            // The semaphore is never closed.
            return std::future::pending().await;
        };
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, place),
            // A connection that broke before it was accepted, or no file descriptor is free;
            // neither is cured by trying again at once.
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

struct Connection {
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: Limits,
    metrics: Option<Arc<Metrics>>,
    watcher: Watcher,
}

impl Connection {
    async fn serve(self, stream: TcpStream) {
        let Self { peer, tls, router, limits, metrics, watcher } = self;
        let metrics = metrics.as_deref();
        let _counted = metrics.map(Counted::new);
        // Answers are small and wanted at once.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "TCP_NODELAY is not set");
        }
        let served = match tls {
            None => connection::serve(stream, router, limits, watcher).await,
            Some(tls) => match timeout(limits.handshake, tls.accept(stream)).await {
                Ok(Ok(stream)) => connection::serve(stream, router, limits, watcher).await,
                Ok(Err(error)) => {
                    tracing::debug!(%peer, %error, "TLS handshake failed");
                    return metrics.map_or((), |metrics| metrics.handshake_failed("error"));
                }
                Err(_) => {
                    tracing::debug!(%peer, "TLS handshake took too long");
                    return metrics.map_or((), |metrics| metrics.handshake_failed("timeout"));
                }
            },
        };
        match served {
            Ok(()) => {}
            Err(ConnectionError::Http(error)) => {
                tracing::debug!(%peer, %error, "connection broke");
            }
            Err(ConnectionError::Expired(phase)) => {
                tracing::debug!(%peer, phase = phase.word(), "connection took too long");
                if let Some(metrics) = metrics {
                    metrics.connection_expired(phase.word());
                }
            }
        }
    }
}

/// Counts a connection while it lives.
struct Counted<'a>(&'a Metrics);

impl<'a> Counted<'a> {
    fn new(metrics: &'a Metrics) -> Self {
        metrics.connections.inc();
        Self(metrics)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.connections.dec();
    }
}

const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
