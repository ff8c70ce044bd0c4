//! Listeners: accepting, handshakes, HTTP, and the end of connections.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Router;
use futures::TryFutureExt as _;
use http::Extensions;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use pilot_xds::streams::ConnectionCloser;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tower::ServiceExt as _;
use webhook_certs::serving::tcp_listener;

use crate::metrics::Count;
use crate::open_requests::OpenRequests;

/// Handshake of a connection.
pub trait Accept: Clone + Send + Sync + 'static {
    /// Stream of plaintext.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Finishes the handshake. What it learns of the client goes into `extensions`, which all
    /// requests of the connection have.
    fn accept(
        &self,
        tcp: TcpStream,
        extensions: &mut Extensions,
    ) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// Connections without a handshake.
#[derive(Clone, Copy, Debug)]
pub struct Plaintext;

impl Accept for Plaintext {
    type Stream = TcpStream;

    async fn accept(&self, tcp: TcpStream, _: &mut Extensions) -> io::Result<TcpStream> {
        Ok(tcp)
    }
}

/// Address of the client, in the extensions of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub SocketAddr);

/// Binds the address of a flag.
pub fn bind(flag: &str, address: SocketAddr) -> Result<TcpListener> {
    tcp_listener::bind(address).with_context(|| format!("{flag}: binding {address}"))
}

/// Limit of the connections of a listener.
#[derive(Debug)]
pub struct Limit {
    flag: String,
    free: Arc<Semaphore>,
    connections: usize,
    refused: Count,
    is_reached: bool,
}

impl Limit {
    /// Limit for the listener of a flag, which counts the connections beyond it.
    pub fn new(flag: &str, connections: usize, refused: Count) -> Self {
        let free = Arc::new(Semaphore::new(connections));
        Self { flag: flag.to_owned(), free, connections, refused, is_reached: false }
    }

    /// Admits a connection, which holds the permit. Warns when the limit is reached, not for each
    /// connection.
    fn admit(&mut self) -> Option<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok();
        let is_reached = permit.is_none();
        if is_reached {
            self.refused.inc();
        }
        if is_reached && !std::mem::replace(&mut self.is_reached, is_reached) {
            let Self { flag, connections, .. } = self;
            tracing::warn!(
                "{flag}: all {connections} connections are in use, and new ones are closed; hint: \
                 add replicas, or raise --maxConnections"
            );
        }
        self.is_reached &= is_reached;
        permit
    }
}

/// Serves until `stop` is true, then lets requests in flight end for a moment.
pub async fn serve<A: Accept>(
    listener: TcpListener,
    mut limit: Limit,
    accept: A,
    router: Router,
    mut stop: watch::Receiver<bool>,
) {
    let graceful = GracefulShutdown::new();
    let accepting = async {
        loop {
            let (tcp, client) = tcp_listener::accept(&listener).await;
            let Some(permit) = limit.admit() else { continue };
            let connection = Connection { tcp, client, accept: accept.clone() };
            let served = connection.serve(router.clone(), graceful.watcher());
            tokio::spawn(async move {
                served.await;
                drop(permit);
            });
        }
    };
    tokio::select! {
        // A sender that is gone has stopped too.
        _ = stop.wait_for(|stop| *stop) => {}
        () = accepting => {}
    }
    drop(listener);
    if timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::debug!("connections were still open at the end of the grace period");
    }
}

struct Connection<A> {
    tcp: TcpStream,
    client: SocketAddr,
    accept: A,
}

impl<A: Accept> Connection<A> {
    async fn serve(self, router: Router, watcher: Watcher) {
        let Self { tcp, client, accept } = self;
        let closer = ConnectionCloser::default();
        let mut extensions = Extensions::new();
        extensions.insert(ClientAddress(client));
        extensions.insert(closer.clone());
        // Fails on sockets that are closed already.
        let _ = tcp.set_nodelay(true);
        let stream = match timeout(HANDSHAKE, accept.accept(tcp, &mut extensions)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%client, %error, "handshake failed"),
            Err(_) => return tracing::debug!(%client, "handshake timed out"),
        };
        let requests = Arc::new(OpenRequests::new());
        let opened = Arc::clone(&requests);
        let service = service_fn(move |mut request: http::Request<Incoming>| {
            request.extensions_mut().extend(extensions.clone());
            let open = opened.open();
            router.clone().oneshot(request).map_ok(|response| open.until_sent(response))
        });
        let builder = builder();
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let connection = watcher.watch(connection.into_owned());
        tokio::select! {
            () = closer.closed() => {}
            () = requests.unused() => tracing::debug!(%client, "closed: no request in time"),
            ended = connection => if let Err(error) = ended {
                tracing::debug!(%client, error, "connection broke");
            },
        }
    }
}

/// Settings of HTTP. A stream of xDS has one frame in flight: small windows keep many streams
/// small.
fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(PING_INTERVAL))
        .keep_alive_timeout(PING_TIMEOUT)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(STREAMS);
    builder
}

const HANDSHAKE: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_secs(3);
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
const STREAMS: u32 = 64;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn connection_beyond_the_limit_is_closed() {
        let listener = bind("--grpcAddr", "127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let refused = Count::default();
        let limit = Limit::new("--grpcAddr", 1, refused.clone());
        let serving = tokio::spawn(serve(listener, limit, Plaintext, Router::new(), stopped));
        let first = TcpStream::connect(address).await.unwrap();
        let closed = async || {
            let mut second = TcpStream::connect(address).await.unwrap();
            let read = timeout(Duration::from_millis(100), second.read(&mut [0])).await;
            matches!(read, Ok(Ok(0) | Err(_)))
        };
        let mut second = TcpStream::connect(address).await.unwrap();
        assert!(matches!(second.read(&mut [0]).await, Ok(0) | Err(_)), "the second is closed");
        assert_eq!(refused.get(), 1);
        drop(first);
        let admitted = async { while closed().await {} };
        timeout(Duration::from_secs(30), admitted).await.expect("the place is free again");
        stop.send_replace(true);
        serving.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn connection_without_a_request_is_closed() {
        let listener = bind("--grpcAddr", "127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let (_stop, stopped) = watch::channel(false);
        let limit = Limit::new("--grpcAddr", 1, Count::default());
        tokio::spawn(serve(listener, limit, Plaintext, Router::new(), stopped));
        for sent in [&b""[..], b"GET / HT", b"PRI * HTTP/2.0\r\n", PREFACE] {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(sent).await.unwrap();
            let read = timeout(Duration::from_secs(60), client.read_to_end(&mut Vec::new())).await;
            read.expect("the connection is closed").unwrap();
        }
    }

    /// Begin of HTTP/2 with empty settings.
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
}
