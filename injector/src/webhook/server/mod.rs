//! Accept loop: limits on connections, and their end at shutdown.

pub mod body_memory;
pub(crate) mod connection;
pub(crate) mod connection_slots;
pub(crate) mod file_limit;
pub mod limits;
pub(crate) mod own_thread;
pub(crate) mod run_queue;
pub mod shutdown;
pub(crate) mod signals;
pub mod turns;

use std::net::{self, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Router;
use rustls::ServerConfig;
use rustls::server::Acceptor;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use webhook_certs::serving::handshake_failure::HandshakeFailure;
use webhook_certs::serving::tcp_listener::{self, BACKLOG};

use self::connection::{ConnectionError, Terms};
use self::connection_slots::{Slot, Slots, Source};
use self::limits::Limits;
use self::run_queue::{RunQueue, let_others_run};
use self::shutdown::ShutdownPhase;
use super::telemetry::metrics::{Metrics, TIMEOUT};

/// Listener with its routes, TLS configuration and limits.
pub struct Server {
    /// Listener, already bound, so that the process can be ready before the first connection.
    pub listener: TcpListener,
    /// Runtime that serves connections; another one may accept them.
    pub runtime: Handle,
    /// TLS configuration of new connections; `None` serves plain HTTP. A connection with an
    /// outdated configuration closes after its next response.
    pub tls: Option<Arc<ArcSwap<ServerConfig>>>,
    /// Routes. Requests carry the client's address as [`axum::extract::ConnectInfo`].
    pub router: Router,
    /// Limits of the listener and of its connections.
    pub limits: Limits,
    /// Metrics of the connections; `None` does not count them.
    pub metrics: Option<Arc<Metrics>>,
}

impl Server {
    /// Serves until [`ShutdownPhase::Ended`]. Then no further connection is accepted, idle ones are
    /// closed, and requests in flight are answered with `Connection: close`, for `grace` at most.
    pub async fn run(self, phases: watch::Receiver<ShutdownPhase>, grace: Duration) {
        let Self { listener, runtime, tls, router, limits, metrics } = self;
        let slots = Slots::new(limits.connections);
        let queue = RunQueue::new(runtime.metrics().num_workers());
        let serve = async |stream: TcpStream, peer: SocketAddr| {
            let displaced = || {
                if let Some(metrics) = &metrics {
                    metrics.displaced();
                }
            };
            let slot = slots.take(Source::from(peer.ip()), displaced).await;
            let connection = Connection {
                peer,
                tls: tls.clone(),
                router: router.clone(),
                limits,
                metrics: metrics.clone(),
                phases: phases.clone(),
                slot: Arc::new(slot),
                queue: queue.clone(),
            };
            match stream.into_std() {
                Ok(stream) => drop(runtime.spawn(connection.serve(stream))),
                Err(error) => tracing::debug!(%peer, %error, "connection broke"),
            }
        };
        let accepting = async {
            loop {
                let (stream, peer) = tcp_listener::accept(&listener).await;
                serve(stream, peer).await;
                // Otherwise a thread that both accepts and serves could accept many more
                // connections, and displace this one, before its first poll.
                let_others_run().await;
            }
        };
        tokio::select! {
            biased;
            () = shutdown::ended(phases.clone()) => {}
            () = accepting => {}
        }
        let ending = async {
            // The kernel has already established these connections, so their clients wait for a
            // response.
            for (stream, peer) in waiting(listener) {
                serve(stream, peer).await;
            }
            slots.all_free().await;
        };
        if timeout(grace, ending).await.is_err() {
            tracing::warn!("connections were still busy at the end of the grace period");
        }
    }
}

/// Closes the listener. Returns the connections that were still to be accepted.
fn waiting(listener: TcpListener) -> Vec<(TcpStream, SocketAddr)> {
    let Ok(listener) = listener.into_std() else { return Vec::new() };
    let accepted = std::iter::from_fn(|| listener.accept().ok());
    let opened = accepted.filter_map(|(stream, peer)| {
        stream.set_nonblocking(true).ok()?;
        Some((TcpStream::from_std(stream).ok()?, peer))
    });
    opened.take(BACKLOG as usize).collect()
}

struct Connection {
    peer: SocketAddr,
    tls: Option<Arc<ArcSwap<ServerConfig>>>,
    router: Router,
    limits: Limits,
    metrics: Option<Arc<Metrics>>,
    phases: watch::Receiver<ShutdownPhase>,
    slot: Arc<Slot>,
    queue: RunQueue,
}

impl Connection {
    async fn serve(self, stream: net::TcpStream) {
        let Self { peer, tls, router, limits, metrics, phases, slot, queue } = self;
        let metrics = metrics.as_deref();
        let _counted = metrics.map(Counted::new);
        // Responses are small and must not be delayed.
        let stream = match stream.set_nodelay(true).and_then(|()| TcpStream::from_std(stream)) {
            Ok(stream) => stream,
            Err(error) => return tracing::debug!(%peer, %error, "connection broke"),
        };
        let source = Source::from(peer.ip());
        let config = tls.as_ref().map(|tls| tls.load_full());
        let is_last = {
            let config = config.clone();
            move || match (&tls, &config) {
                (Some(current), Some(own)) => !Arc::ptr_eq(&*current.load(), own),
                // Probes and scrapes are rare; more requests on one connection are a flood.
                _ => true,
            }
        };
        let terms = Terms {
            router,
            limits,
            peer,
            slot: Arc::clone(&slot),
            queue: queue.clone(),
            phases: phases.clone(),
            is_last,
        };
        let served = match config {
            None => connection::serve(stream, terms).await,
            Some(config) => {
                let shaking = timeout(limits.handshake, async {
                    let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
                    slot.step();
                    queue.run(source, hello.into_stream(config)).await
                });
                let shaken = tokio::select! {
                    shaken = shaking => shaken,
                    () = slot.displaced() => return tracing::debug!(%peer, "displaced: its slot is needed"),
                    () = connection::ended(phases, &slot) => return,
                };
                match shaken {
                    Ok(Ok(stream)) => {
                        slot.step();
                        connection::serve(stream, terms).await
                    }
                    Ok(Err(error)) => {
                        let cause = HandshakeFailure::from_error(&error).word();
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

/// Counter of a connection while it lives.
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
