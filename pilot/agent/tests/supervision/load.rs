//! Backend and clients of load tests.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use e2e::netns::Namespace;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use crate::fixture::BACKEND_PORT;

/// HTTP version of a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// Result of a client.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) answered: u64,
    pub(crate) lost: Vec<String>,
    pub(crate) connections: u64,
}

/// Starts a backend in a namespace. It lives as long as the test program. It answers `/slow`
/// after three seconds, `/metrics` with a metric, and everything else at once.
pub(crate) fn start_backend(namespace: &Namespace) -> Result<()> {
    serve_backend(namespace, ("127.0.0.1", BACKEND_PORT))
}

/// Starts a backend on another address.
pub(crate) fn serve_backend(namespace: &Namespace, address: (&str, u16)) -> Result<()> {
    let runtime = runtime()?;
    let listener = namespace.run(|| runtime.block_on(TcpListener::bind(address)))??;
    thread::spawn(move || {
        runtime.block_on(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service_fn(answer));
                tokio::spawn(connection);
            }
        });
    });
    Ok(())
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.uri().path() == "/slow" {
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    let page = match request.uri().path() {
        "/metrics" => "orders_total 7\n",
        _ => "answer of the backend",
    };
    Ok(Response::new(Full::from(page)))
}

/// Clients that send requests one after the other until they are stopped.
pub(crate) struct Clients {
    stop: Arc<AtomicBool>,
    threads: Vec<(Protocol, Arc<AtomicU64>, JoinHandle<Result<Report>>)>,
}

impl Clients {
    /// Starts clients on threads of their own.
    pub(crate) fn start(
        namespace: &Namespace,
        port: u16,
        protocols: &[Protocol],
        path: &'static str,
    ) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for protocol in protocols.iter().copied() {
            let (stop, count) = (Arc::clone(&stop), Arc::new(AtomicU64::new(0)));
            let counter = Arc::clone(&count);
            // A thread inherits the namespace of the one that starts it.
            let thread = namespace.run(|| {
                thread::spawn(move || {
                    runtime()?.block_on(request_until(&stop, protocol, port, path, &counter))
                })
            })?;
            threads.push((protocol, count, thread));
        }
        Ok(Self { stop, threads })
    }

    /// Waits until each client has this many answers. The time for each answer is limited; a busy
    /// machine needs minutes for thousands.
    pub(crate) fn wait_for(&self, requests: u64) -> Result<()> {
        for (protocol, count, _) in &self.threads {
            let mut answered = count.load(Ordering::Relaxed);
            while answered < requests {
                let what = format!("{protocol:?} has answer {} of {requests}", answered + 1);
                answered = e2e::wait::until(&what, || {
                    let current = count.load(Ordering::Relaxed);
                    (current > answered).then_some(current).ok_or("no answer")
                })?;
            }
        }
        Ok(())
    }

    /// Stops the clients and returns their reports.
    pub(crate) fn finish(self) -> Result<Vec<(Protocol, Report)>> {
        self.stop.store(true, Ordering::Relaxed);
        let joined = self.threads.into_iter().map(|(protocol, _, thread)| {
            let report = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok((protocol, report))
        });
        joined.collect()
    }
}

enum Connection {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

impl Connection {
    async fn open(protocol: Protocol, port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.context("connecting")?;
        stream.set_nodelay(true)?;
        let stream = TokioIo::new(stream);
        Ok(match protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(stream).await?;
                tokio::spawn(connection);
                Self::Http1(sender)
            }
            Protocol::Http2 => {
                let (sender, connection) =
                    http2::Builder::new(TokioExecutor::new()).handshake(stream).await?;
                tokio::spawn(connection);
                Self::Http2(sender)
            }
        })
    }

    /// Sends a request. `None` if the connection was closed before: the request was not sent.
    async fn send(&mut self, request: Request<Empty<Bytes>>) -> Option<Result<Response<Incoming>>> {
        let sent = match self {
            Self::Http1(sender) => {
                sender.ready().await.ok()?;
                sender.try_send_request(request).await
            }
            Self::Http2(sender) => {
                sender.ready().await.ok()?;
                sender.try_send_request(request).await
            }
        };
        match sent {
            Ok(response) => Some(Ok(response)),
            Err(mut error) => match error.take_message() {
                Some(_) => None,
                None => Some(Err(error.into_error().into())),
            },
        }
    }
}

async fn request_until(
    stop: &AtomicBool,
    protocol: Protocol,
    port: u16,
    path: &str,
    counter: &AtomicU64,
) -> Result<Report> {
    let mut report = Report::default();
    let mut connection = None;
    while !stop.load(Ordering::Relaxed) {
        match request(&mut connection, protocol, port, path, &mut report).await {
            Ok(()) => {
                report.answered += 1;
                counter.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                report.lost.push(format!("{error:#}"));
                connection = None;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
    Ok(report)
}

async fn request(
    connection: &mut Option<Connection>,
    protocol: Protocol,
    port: u16,
    path: &str,
    report: &mut Report,
) -> Result<()> {
    loop {
        let open = if let Some(open) = connection {
            open
        } else {
            report.connections += 1;
            connection.insert(Connection::open(protocol, port).await?)
        };
        let uri = match protocol {
            Protocol::Http1 => path.to_owned(),
            Protocol::Http2 => format!("http://x{path}"),
        };
        let request = Request::get(uri).header("host", "x").body(Empty::new())?;
        let Some(response) = open.send(request).await else {
            *connection = None;
            continue;
        };
        let response = response?;
        let status = response.status();
        response.into_body().collect().await.context("reading the answer")?;
        ensure!(status == StatusCode::OK, "{status}");
        return Ok(());
    }
}

fn runtime() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("starting a runtime")
}
