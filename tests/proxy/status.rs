//! The status port: readiness, statistics, the application's probes, and draining.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

use crate::admin;
use crate::app::{App, is_passthrough};
use crate::environment::Families;
use crate::http::Whole;

/// Server of the status port.
#[derive(Debug)]
pub(crate) struct Status {
    listener: TcpListener,
    app: App,
}

impl Status {
    /// Binds the port on every address of the pod.
    pub(crate) async fn bind(port: u16, families: Families, app: App) -> Result<Self> {
        let every: IpAddr = match families {
            Families::Ipv4 => Ipv4Addr::UNSPECIFIED.into(),
            // The socket accepts connections of both families.
            Families::Both => Ipv6Addr::UNSPECIFIED.into(),
        };
        let listener = TcpListener::bind((every, port)).await;
        let listener = listener.with_context(|| format!("listening on the status port {port}"))?;
        Ok(Self { listener, app })
    }

    /// Serves until the process ends.
    pub(crate) async fn serve(self: Arc<Self>) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    tokio::spawn(Arc::clone(&self).serve_one(stream, peer));
                }
                Err(error) => {
                    tracing::warn!("a connection to the status port failed: {error}");
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    async fn serve_one(self: Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        let status = &self;
        let service = service_fn(|request| async move {
            Ok::<_, Infallible>(status.answer(&request, peer).await.response())
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = connection.await {
            tracing::debug!("the connection from {peer} broke: {error}");
        }
    }

    async fn answer(&self, request: &Request<Incoming>, peer: SocketAddr) -> Answer {
        let path = request.uri().path();
        let is_for_app = path.starts_with("/app-health/") || path.starts_with("/app-lifecycle/");
        match (path, request.method()) {
            ("/drain", &Method::POST) if is_own(peer.ip()) => self.drain().await,
            ("/drain", &Method::POST) => {
                Answer::new(StatusCode::FORBIDDEN, "only this pod's loopback may ask for this")
            }
            ("/drain", _) => Answer::allows("POST"),
            ("/healthz/ready", &Method::GET) => match admin::ready().await {
                Ok(()) => Answer::ok(),
                Err(error) => Answer::failed(StatusCode::SERVICE_UNAVAILABLE, path, &error),
            },
            ("/stats/prometheus", &Method::GET) => match admin::statistics().await {
                Ok(page) => Answer::new(StatusCode::OK, page),
                Err(error) => Answer::failed(StatusCode::INTERNAL_SERVER_ERROR, path, &error),
            },
            (_, &Method::GET) if is_for_app => self.ask_app(path, request).await,
            _ if is_for_app => Answer::allows("GET"),
            ("/healthz/ready" | "/stats/prometheus", _) => Answer::allows("GET"),
            _ => Answer::new(StatusCode::NOT_FOUND, format!("nothing is known of {path}")),
        }
    }

    async fn drain(&self) -> Answer {
        tracing::info!("asked to drain");
        match admin::drain().await {
            Ok(()) => Answer::ok(),
            Err(error) => Answer::failed(StatusCode::INTERNAL_SERVER_ERROR, "/drain", &error),
        }
    }

    async fn ask_app(&self, path: &str, request: &Request<Incoming>) -> Answer {
        match self.app.ask(path, request.headers()).await {
            None => Answer::new(
                StatusCode::NOT_FOUND,
                format!("ISTIO_KUBE_APP_PROBERS says nothing of {path}"),
            ),
            Some(Ok(status)) => Answer::new(status, ""),
            Some(Err(error)) => Answer::failed(StatusCode::INTERNAL_SERVER_ERROR, path, &error),
        }
    }
}

/// True if a peer is in this pod. A connection that the proxy passes on comes from elsewhere.
fn is_own(peer: IpAddr) -> bool {
    let peer = peer.to_canonical();
    peer.is_loopback() && !is_passthrough(peer)
}

/// A status with a readable reason.
struct Answer {
    status: StatusCode,
    text: String,
    allows: Option<&'static str>,
}

impl Answer {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), allows: None }
    }

    fn ok() -> Self {
        Self::new(StatusCode::OK, "OK")
    }

    fn allows(method: &'static str) -> Self {
        let text = format!("the only method here is {method}");
        Self { allows: Some(method), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, text) }
    }

    fn failed(status: StatusCode, path: &str, error: &anyhow::Error) -> Self {
        tracing::debug!("{path}: {error:#}");
        Self::new(status, format!("{error:#}"))
    }

    fn response(self) -> Response<Whole> {
        let mut response = Response::new(Whole::from(self.text));
        *response.status_mut() = self.status;
        if let Some(method) = self.allows {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(method));
        }
        response
    }
}

const AFTER_FAILURE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_client_is_not_local() {
        for (peer, own) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("127.0.0.6", false),
            ("::ffff:127.0.0.6", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(is_own(peer.parse().unwrap()), own, "{peer}");
        }
    }
}
