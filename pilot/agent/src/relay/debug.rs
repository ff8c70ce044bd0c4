//! Questions to the control plane's debug interface, over HTTP on loopback.
//!
//! `GET /debug/X?QUERY` becomes a request for the resource `X?QUERY` of type `istio.io/debug`. Each
//! has an upstream stream of its own: istiod ends the stream of a denied question, which must not
//! be Envoy's.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ::http::{Method, StatusCode, Uri};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use pilot_xds::client;
use pilot_xds::messages::{DiscoveryRequest, DiscoveryResponse, Node};
use pilot_xds::service::{DiscoveryService, Variant};
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use crate::channel::ControlPlane;
use crate::log_limit::LogLimit;

/// Server of the debug port.
#[derive(Clone, Debug)]
pub struct DebugServer {
    control_plane: ControlPlane,
    node_id: String,
}

impl DebugServer {
    /// Creates the server. It presents `node_id` to the control plane.
    pub fn new(control_plane: ControlPlane, node_id: String) -> Self {
        Self { control_plane, node_id }
    }

    /// Binds the port on loopback, IPv6's where there is no IPv4. A taken port is an error: clients
    /// would ask the other program.
    pub async fn bind(port: u16) -> std::io::Result<TcpListener> {
        match TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await {
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
                TcpListener::bind(SocketAddr::from((Ipv6Addr::LOCALHOST, port))).await
            }
            bound => bound,
        }
    }

    /// Answers requests until it is dropped.
    pub async fn serve(self, listener: TcpListener) {
        let slots = Arc::new(Semaphore::new(CONNECTIONS));
        let mut failures = LogLimit::default();
        loop {
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
            let tcp = match listener.accept().await {
                Ok((tcp, _)) => tcp,
                Err(error) => {
                    let log = |count| {
                        tracing::warn!(
                            "debug port: accepting a connection failed {count} times: {error}"
                        );
                    };
                    failures.pause(log).await;
                    continue;
                }
            };
            let server = self.clone();
            tokio::spawn(async move {
                let service = service_fn(async |request: hyper::Request<_>| {
                    let answer = server.answer(request.method(), request.uri()).await;
                    Ok::<_, Infallible>(answer)
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(TIMEOUT)
                    .keep_alive(false)
                    .serve_connection(TokioIo::new(tcp), service);
                // A client that leaves early is no error.
                let _ = connection.await;
                drop(slot);
            });
        }
    }

    async fn answer(&self, method: &Method, uri: &Uri) -> Response<Full<Bytes>> {
        let (status, body) = match resource(uri) {
            None => (StatusCode::NOT_FOUND, "the debug port has paths below /debug/\n".into()),
            Some(_) if method != Method::GET => {
                (StatusCode::METHOD_NOT_ALLOWED, "the method must be GET\n".into())
            }
            Some(name) => match timeout(TIMEOUT, self.ask(name)).await {
                Ok(Ok(body)) => (StatusCode::OK, body),
                Ok(Err((status, reason))) => (status, format!("{reason}\n").into()),
                Err(_) => {
                    let reason = "the control plane has not answered within 5 s\n";
                    (StatusCode::GATEWAY_TIMEOUT, reason.into())
                }
            },
        };
        let mut answer = Response::new(Full::new(body));
        *answer.status_mut() = status;
        answer
    }

    /// Returns the control plane's answer, or an HTTP status with the reason.
    async fn ask(&self, name: String) -> Result<Bytes, (StatusCode, String)> {
        let node = Node { id: self.node_id.clone(), ..Node::default() };
        let request = DiscoveryRequest {
            node: Some(node.encode_to_vec().into()),
            type_url: TYPE_URL.to_owned(),
            resource_names: vec![name],
            ..DiscoveryRequest::default()
        };
        let unavailable = |error: &dyn std::error::Error| {
            (StatusCode::BAD_GATEWAY, format!("asking the control plane: {error}"))
        };
        let server = self.control_plane.server();
        let channel = server.connect().await.map_err(|error| unavailable(&error))?;
        // The stream ends with the sender, and the connection with the stream.
        let (sender, receiver) = mpsc::channel(1);
        let _ = sender.try_send(Bytes::from(request.encode_to_vec()));
        let requests = ReceiverStream::new(receiver);
        let requests = server.request(requests).map_err(|error| unavailable(&error))?;
        let (service, variant) = (DiscoveryService::Aggregated, Variant::StateOfTheWorld);
        let opened = client::open(channel.clone(), service, variant, requests).await;
        let frame = match opened {
            Ok(opened) => opened.into_inner().message().await,
            Err(status) => Err(status),
        };
        let frame =
            frame.map_err(|status| (http_status(status.code()), status.message().into()))?;
        let frame = frame.ok_or_else(|| {
            (StatusCode::BAD_GATEWAY, "the control plane closed the stream".to_owned())
        })?;
        let response = DiscoveryResponse::decode(frame).map_err(|error| unavailable(&error))?;
        let parts: Vec<_> = response.resources.into_iter().map(|any| any.value).collect();
        Ok(parts.join(&b'\n').into())
    }
}

/// Returns the name of the resource that a path asks for.
fn resource(uri: &Uri) -> Option<String> {
    let name = uri.path_and_query()?.as_str().strip_prefix("/debug/")?;
    (!name.is_empty()).then(|| name.to_owned())
}

fn http_status(code: Code) -> StatusCode {
    match code {
        Code::PermissionDenied | Code::Unauthenticated => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_GATEWAY,
    }
}

/// Port of the debug interface.
pub const DEBUG_PORT: u16 = 15004;
const TYPE_URL: &str = "istio.io/debug";
const TIMEOUT: Duration = Duration::from_secs(5);
const CONNECTIONS: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_below_debug_names_the_resource() {
        let name = |uri: &str| resource(&uri.parse().unwrap());
        let query = "config_dump?proxyID=web-1.shop";
        assert_eq!(name(&format!("/debug/{query}")).as_deref(), Some(query));
        assert_eq!(name("/debug/"), None);
        assert_eq!(name("/metrics"), None);
    }
}
