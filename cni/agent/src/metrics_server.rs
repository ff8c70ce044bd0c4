//! HTTP server of the metrics.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::metrics::Metrics;
use crate::retry::until_ok;

/// Answers `GET /metrics` on all addresses of the node, for as long as the program runs. Waits for a
/// port that another program has, such as the agent before this one.
pub async fn serve(port: u16, metrics: Arc<Metrics>) {
    let listener = until_ok(|| async move {
        bind(port).await.map_err(|error| {
            format!("--monitoring-port {port}: {error}; there are no metrics until it is free")
        })
    })
    .await;
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let metrics = metrics.clone();
        tokio::spawn(async move {
            let _slot = slot;
            let service = service_fn(|request| {
                let answer = answer(&request, &metrics);
                async { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .keep_alive(false)
                .max_buf_size(MOST_BYTES)
                .serve_connection(TokioIo::new(stream), service);
            // An error of the connection is its client's.
            let _ = timeout(TIME_LIMIT, connection).await;
        });
    }
}

async fn bind(port: u16) -> std::io::Result<TcpListener> {
    match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await {
        // A node without IPv6.
        Err(error) if error.kind() != ErrorKind::AddrInUse => {
            TcpListener::bind(SocketAddr::from(([0; 4], port))).await
        }
        listener => listener,
    }
}

fn answer<B>(request: &Request<B>, metrics: &Metrics) -> Response<Full<Bytes>> {
    let (status, text) = match request.uri().path() {
        "/metrics" => (StatusCode::OK, metrics.text()),
        _ => (StatusCode::NOT_FOUND, "the metrics are at /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response
}

/// Connections at a time.
const CONNECTIONS: usize = 16;
/// Bytes of a request, of which more is an error.
const MOST_BYTES: usize = 16 * 1024;
/// Time limit of a connection.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(100);
