//! Backends, and the load on Envoy.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::client::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// HTTP server that answers with its name.
pub(crate) struct Backend;

impl Backend {
    /// Starts a backend. It lives as long as the runtime.
    pub(crate) fn start(name: &'static str) -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((tcp, _)) = listener.accept().await {
                let answer = move |_| async move {
                    Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(name)))
                };
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(tcp), service_fn(answer));
                tokio::spawn(connection);
            }
        });
        address
    }
}

/// Client that sends requests one after the other.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    task: JoinHandle<(u64, Vec<String>)>,
}

impl Load {
    pub(crate) fn start(to: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(run(Arc::clone(&stop), to));
        Self { stop, task }
    }

    /// Stops the client. Returns the number of answers and the errors.
    pub(crate) fn finish(self, runtime: &Runtime) -> (u64, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        runtime.block_on(self.task).unwrap()
    }
}

async fn run(stop: Arc<AtomicBool>, to: SocketAddr) -> (u64, Vec<String>) {
    let (mut answered, mut errors) = (0, Vec::new());
    let tcp = TcpStream::connect(to).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(tcp)).await.unwrap();
    tokio::spawn(connection);
    while !stop.load(Ordering::Relaxed) {
        let request = Request::get("/").header("host", "web").body(Empty::<Bytes>::new()).unwrap();
        sender.ready().await.unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        if status == 200 {
            answered += 1;
        } else {
            errors.push(format!("{status}: {}", String::from_utf8_lossy(&body)));
        }
    }
    (answered, errors)
}
