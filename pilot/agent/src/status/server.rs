//! Server of the status port.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, watch};

use super::page::PageBody;
use super::readiness::{EnvoyObservation, Observation, Readiness, STATS_FILTER, Verdict};
use super::routes::{Rejection, Route, is_own_loopback, route};
use super::scrape::Scraper;
use super::scrape_request::ScrapeRequest;
use super::write_timeout::WriteTimeout;
use crate::admin::Admin;
use crate::app::App;
use crate::connections::{ConnectionLimits, ConnectionSlot, Connections};
use crate::health::Health;
use crate::http::FullBody;
use crate::log_limit::LogLimit;

/// Everything that the status port shows and does.
pub struct Status {
    /// The application's probes and handlers.
    pub app: App,
    /// Merged metrics.
    pub scraper: Arc<Scraper>,
    /// Envoy, for readiness; `None` for an agent without Envoy.
    pub envoy: Option<ServingEnvoy>,
    /// Name table of the DNS proxy; `None` without DNS proxy.
    pub names: Option<Arc<dyn Names>>,
    /// Conditions of the agent's parts.
    pub health: Arc<Health>,
    /// Passes a request on to the supervisor. False if the supervisor has ended.
    pub shutdown: Box<dyn Fn(ShutdownRequest) -> bool + Send + Sync>,
    /// Serves metrics to loopback only.
    pub metrics_on_loopback_only: bool,
}

/// The Envoy that serves.
#[derive(Debug)]
pub struct ServingEnvoy {
    /// Its admin interface.
    pub admin: Admin,
    /// Its restart epoch.
    pub epoch: watch::Receiver<Option<u32>>,
}

/// Name table of the DNS proxy.
pub trait Names: Send + Sync {
    /// True once the first table has arrived.
    fn received(&self) -> bool;

    /// Returns the table as JSON.
    fn json(&self) -> String;
}

/// Request to the supervisor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ShutdownRequest {
    /// Drain, and keep serving until SIGTERM.
    Drain,
    /// End without draining.
    Quit,
}

/// Binds the status port on all addresses of the pod's families.
pub fn bind(port: u16, addresses: &[IpAddr]) -> io::Result<TcpListener> {
    let (domain, any) = if addresses.iter().any(IpAddr::is_ipv6) {
        (Domain::IPV6, IpAddr::from(Ipv6Addr::UNSPECIFIED))
    } else {
        (Domain::IPV4, Ipv4Addr::UNSPECIFIED.into())
    };
    let socket = Socket::new(domain, Type::STREAM, None)?;
    if domain == Domain::IPV6 {
        // One socket for both families, whatever net.ipv6.bindv6only says.
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::new(any, port).into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Serves until the future is dropped.
pub async fn serve(listener: TcpListener, status: Status) {
    let server = Arc::new(Server { status, readiness: Mutex::default() });
    let remote = Connections::new(REMOTE_LIMITS);
    // Kubelets may reach the port through Envoy, which comes from loopback.
    let local = Connections::new(LOCAL_LIMITS);
    let mut failures = LogLimit::default();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let client = peer.ip().to_canonical();
                let connections = if is_own_loopback(client) { &local } else { &remote };
                let Some((slot, evicted)) = connections.open_or_preempt(client) else {
                    tracing::debug!("status port: too many requests of {peer} are in progress");
                    continue;
                };
                let server = Arc::clone(&server);
                tokio::spawn(async move {
                    tokio::select! {
                        () = server.serve_connection(stream, peer, &slot) => {}
                        _ = evicted => tracing::debug!("status port: {peer} made room for another"),
                    }
                });
            }
            Err(error) => {
                let log = |count| {
                    tracing::warn!(
                        "status port: accepting a connection failed {count} times: {error}"
                    );
                };
                failures.pause(log).await;
            }
        }
    }
}

struct Server {
    status: Status,
    readiness: Mutex<Readiness>,
}

impl Server {
    async fn serve_connection(&self, stream: TcpStream, peer: SocketAddr, slot: &ConnectionSlot) {
        // Ends the connection of a client that has left silently.
        if let Err(error) = SockRef::from(&stream).set_tcp_user_timeout(Some(USER_TIMEOUT)) {
            tracing::debug!("status port: no write timeout for {peer}: {error}");
        }
        let service = service_fn(async |request| {
            let in_progress = slot.start_request();
            let answer = self.answer(&request, peer.ip()).await;
            // The request ends with the body.
            Ok::<_, Infallible>(answer.map(|body| {
                let in_progress = move |frame| {
                    let _ = &in_progress;
                    frame
                };
                body.map_frame(in_progress)
            }))
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(BUFFER)
            .max_headers(HEADER_LIMIT)
            .serve_connection(TokioIo::new(WriteTimeout::new(stream, WRITE_TIMEOUT)), service);
        if let Err(error) = connection.await {
            tracing::debug!("status port: the connection from {peer} broke: {error}");
        }
    }

    /// Answers without reading the body of the request.
    async fn answer(&self, request: &Request<Incoming>, peer: IpAddr) -> Response<PageBody> {
        let path = request.uri().path();
        let only_loopback = self.status.metrics_on_loopback_only;
        match route(request.method(), path, peer, only_loopback) {
            Ok(Route::Ready) => {
                let verdict = self.assess().await;
                let status =
                    if verdict.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                text(status, verdict.text)
            }
            Ok(Route::Metrics) => self.scrape(request, peer).await,
            Ok(Route::App) => self.send_to_app(request).await,
            Ok(Route::Quit) => self.request_shutdown(ShutdownRequest::Quit),
            Ok(Route::Drain) => self.request_shutdown(ShutdownRequest::Drain),
            Ok(Route::Names) => self.names(),
            Err(Rejection::UnknownPath) => {
                text(StatusCode::NOT_FOUND, format!("the status port has no path {path}\n"))
            }
            Err(Rejection::Method(allowed)) => {
                let message = format!("{path}: the method must be {allowed}\n");
                let mut response = text(StatusCode::METHOD_NOT_ALLOWED, message);
                response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
                response
            }
            Err(Rejection::Remote) => {
                let message = format!("{path}: allowed from this pod's loopback only\n");
                text(StatusCode::FORBIDDEN, message)
            }
        }
    }

    async fn assess(&self) -> Verdict {
        let conditions = self.status.health.conditions();
        let names = self.status.names.as_ref().map(|names| names.received());
        // Held during the request: probes that arrive together cause one request.
        let mut readiness = self.readiness.lock().await;
        let epoch = self.status.envoy.as_ref().and_then(|envoy| *envoy.epoch.borrow());
        let stats = match &self.status.envoy {
            Some(envoy) if readiness.needs_stats(epoch) => {
                envoy.admin.stats(STATS_FILTER).await.map_err(|error| error.to_string())
            }
            _ => Ok(crate::admin::Stats::default()),
        };
        let envoy = self
            .status
            .envoy
            .as_ref()
            .map(|_| EnvoyObservation { epoch, stats: stats.as_ref().map_err(Clone::clone) });
        readiness.assess(&Observation { envoy, names, conditions: &conditions })
    }

    async fn scrape(&self, request: &Request<Incoming>, peer: IpAddr) -> Response<PageBody> {
        let client = peer.to_canonical();
        let scrape = ScrapeRequest::parse(request.uri().query(), request.headers());
        let Some(page) = Arc::clone(&self.status.scraper).scrape(client, scrape).await else {
            let message = "too many scrapes are running, of all clients or of this one; their \
                           readers may be slow\n";
            return text(StatusCode::SERVICE_UNAVAILABLE, message);
        };
        let mut response = Response::new(page.body);
        response.headers_mut().insert(CONTENT_TYPE, page.content_type);
        response
    }

    async fn send_to_app(&self, request: &Request<Incoming>) -> Response<PageBody> {
        let path = request.uri().path();
        match self.status.app.send(path, request.headers()).await {
            None => {
                let message = format!("ISTIO_KUBE_APP_PROBERS has no entry {path}\n");
                text(StatusCode::NOT_FOUND, message)
            }
            Some(Ok(answer)) => {
                let mut response = text(answer.status, answer.body);
                response.headers_mut().remove(CONTENT_TYPE);
                response
                    .headers_mut()
                    .extend(answer.content_type.map(|value| (CONTENT_TYPE, value)));
                response
            }
            Some(Err(error)) => {
                let message = format!("{:#}\n", anyhow::Error::new(error));
                tracing::debug!("{path}: {}", message.trim_end());
                text(StatusCode::INTERNAL_SERVER_ERROR, message)
            }
        }
    }

    fn request_shutdown(&self, request: ShutdownRequest) -> Response<PageBody> {
        tracing::info!("status port: received a request to {request}");
        if (self.status.shutdown)(request) {
            text(StatusCode::OK, "OK\n")
        } else {
            let message = format!("the agent cannot {request}: it is ending already\n");
            text(StatusCode::SERVICE_UNAVAILABLE, message)
        }
    }

    fn names(&self) -> Response<PageBody> {
        let Some(names) = &self.status.names else {
            let message = "the DNS proxy is disabled: ISTIO_META_DNS_CAPTURE is not true\n";
            return text(StatusCode::NOT_FOUND, message);
        };
        let mut response = text(StatusCode::OK, names.json());
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response
    }
}

impl fmt::Display for ShutdownRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Drain => "drain",
            Self::Quit => "quit",
        })
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Status").field("app", &self.app).finish_non_exhaustive()
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<PageBody> {
    let body = FullBody::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

const BACKLOG: i32 = 128;
/// Also the longest idle time between two requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
const USER_TIMEOUT: Duration = Duration::from_secs(30);
const REMOTE_LIMITS: ConnectionLimits = ConnectionLimits { total: 256, client: 64 };
const LOCAL_LIMITS: ConnectionLimits = ConnectionLimits { total: 64, client: 64 };
const BUFFER: usize = 32 * 1024;
const HEADER_LIMIT: usize = 64;
