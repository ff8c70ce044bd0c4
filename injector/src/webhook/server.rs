//! The accept loop: connections within their limits, and their end.

use std::io::{self, ErrorKind};
use std::net::{self, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Router;
use rustls::ServerConfig;
use rustls::server::Acceptor;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::LazyConfigAcceptor;
use webhook_certs::serving::handshake_failure::HandshakeFailure;

use super::connection::{self, ConnectionError, Terms};
use super::limits::Limits;
use super::metrics::{Metrics, TIMEOUT};
use super::run_queue::{RunQueue, let_others_run};
use super::slots::{Slot, Slots, Source};
use super::stage::{self, Stage};

/// Binds a listener to an address, whose port may be chosen by the system.
///
/// The listener belongs to the current runtime.
pub(super) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let bind = |address: SocketAddr| {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    let is_all = address.ip().is_unspecified() && address.is_ipv6();
    match bind(address) {
        // `:PORT` means all addresses; a host without IPv6 has those of IPv4.
        Err(error) if is_all && error.kind() != ErrorKind::AddrInUse => {
            bind((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        bound => bound,
    }
}

/// A listener with what it serves.
pub struct Server {
    /// Bound already, so that readiness can be told before the first connection.
    pub listener: TcpListener,
    /// Runtime that serves connections, which need not be the one that accepts them.
    pub runtime: Handle,
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
                stages: stages.clone(),
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
                let (stream, peer) = accept(&listener).await;
                serve(stream, peer).await;
                // Else, where it is served by this thread, many more could be accepted, and displace
                // it, before its first turn.
                let_others_run().await;
            }
        };
        tokio::select! {
            biased;
            () = stage::ended(stages.clone()) => {}
            () = accepting => {}
        }
        let ending = async {
            // The kernel has connected them already, so their clients wait for an answer.
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

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // The client has gone away meanwhile.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            // No file descriptor is free, which is not cured by trying again at once.
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Closes the listener, and returns the connections that were still to be accepted.
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
    stages: watch::Receiver<Stage>,
    slot: Arc<Slot>,
    queue: RunQueue,
}

impl Connection {
    async fn serve(self, stream: net::TcpStream) {
        let Self { peer, tls, router, limits, metrics, stages, slot, queue } = self;
        let metrics = metrics.as_deref();
        let _counted = metrics.map(Counted::new);
        // Answers are small and wanted at once.
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
                // Probes and scrapes are seldom; more requests on one connection are a flood.
                _ => true,
            }
        };
        let terms = Terms {
            router,
            limits,
            peer,
            slot: Arc::clone(&slot),
            queue: queue.clone(),
            stages: stages.clone(),
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
                    () = slot.displaced() => return tracing::debug!(%peer, "made room"),
                    () = connection::ended(stages, &slot) => return,
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
/// Connections that the kernel keeps until they are accepted, where `net.core.somaxconn` allows as
/// many. When it is full, further clients try again after a second.
const BACKLOG: u32 = 4096;
