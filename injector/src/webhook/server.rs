//! The accept loop: connections within their limits, and their end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Router;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use webhook_certs::serving::handshake_failure::HandshakeFailure;

use super::connection::{self, ConnectionError, Terms};
use super::limits::Limits;
use super::metrics::{Metrics, TIMEOUT};
use super::places::{Place, Places};
use super::stage::{self, Stage};

/// A listener with what it serves.
pub struct Server {
    /// Bound already, so that readiness can be told before the first connection.
    pub listener: TcpListener,
    /// What the next connection is negotiated by; `None` serves plain HTTP. Connections that were
    /// negotiated by another one end with their next answer.
    pub tls: Option<Arc<ArcSwap<ServerConfig>>>,
    /// What answers; requests have the address of their client as [`axum::extract::ConnectInfo`].
    pub router: Router,
    /// What one client may take.
    pub limits: Limits,
    /// Where connections are counted; `None` for a listener of no interest.
    pub metrics: Option<Arc<Metrics>>,
}

impl Server {
    /// Serves until the last stage; then no connection is accepted any more, idle ones are
    /// closed, and requests in flight are answered with `Connection: close`, for `grace` at most.
    pub async fn run(self, stages: watch::Receiver<Stage>, grace: Duration) {
        let Self { listener, tls, router, limits, metrics } = self;
        let places = Places::new(limits.connections);
        let mut end = std::pin::pin!(stage::ended(stages.clone()));
        let displaced = || {
            if let Some(metrics) = &metrics {
                metrics.displaced();
            }
        };
        loop {
            let accepting = async {
                let accepted = accept(&listener).await;
                (accepted, places.take(displaced).await)
            };
            let ((stream, peer), place) = tokio::select! {
                biased;
                () = &mut end => break,
                accepted = accepting => accepted,
            };
            let connection = Connection {
                peer,
                tls: tls.clone(),
                router: router.clone(),
                limits,
                metrics: metrics.clone(),
                stages: stages.clone(),
                place: Arc::new(place),
            };
            tokio::spawn(connection.serve(stream));
        }
        drop(listener);
        if timeout(grace, places.all_free()).await.is_err() {
            tracing::warn!("connections were still busy at the end of the grace period");
        }
    }
}

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
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
    tls: Option<Arc<ArcSwap<ServerConfig>>>,
    router: Router,
    limits: Limits,
    metrics: Option<Arc<Metrics>>,
    stages: watch::Receiver<Stage>,
    place: Arc<Place>,
}

impl Connection {
    async fn serve(self, stream: TcpStream) {
        let Self { peer, tls, router, limits, metrics, stages, place } = self;
        let metrics = metrics.as_deref();
        let _counted = metrics.map(Counted::new);
        // Answers are small and wanted at once.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "TCP_NODELAY is not set");
        }
        let config = tls.as_ref().map(|tls| tls.load_full());
        let is_last = {
            let config = config.clone();
            move || match (&tls, &config) {
                (Some(current), Some(own)) => !Arc::ptr_eq(&*current.load(), own),
                _ => false,
            }
        };
        let terms = Terms {
            router,
            limits,
            peer,
            place: Arc::clone(&place),
            stages: stages.clone(),
            is_last,
        };
        let served = match config {
            None => connection::serve(stream, terms).await,
            Some(config) => {
                let shaking = timeout(limits.handshake, TlsAcceptor::from(config).accept(stream));
                let shaken = tokio::select! {
                    shaken = shaking => shaken,
                    () = place.displaced() => return tracing::debug!(%peer, "made room"),
                    () = stage::ended(stages) => return,
                };
                match shaken {
                    Ok(Ok(stream)) => connection::serve(stream, terms).await,
                    Ok(Err(error)) => {
                        let cause = HandshakeFailure::of(&error).word();
                        tracing::debug!(%peer, %error, cause, "TLS handshake failed");
                        return metrics.map_or((), |metrics| metrics.handshake_failed(cause));
                    }
                    Err(_) => {
                        tracing::debug!(%peer, "TLS handshake took too long");
                        return metrics.map_or((), |metrics| metrics.handshake_failed(TIMEOUT));
                    }
                }
            }
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
