//! A control plane, a client in Envoy's place, and the relay between them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use pilot_agent::channel::{ChannelOptions, ControlPlane};
use pilot_agent::config::RootSource;
use pilot_agent::health::Health;
use pilot_agent::relay::{ApplicationHealth, Metrics, Relay, RelayOptions};
use pilot_xds::messages::{
    Any, DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
    Resource,
};
use pilot_xds::request_stream::RequestStream;
use pilot_xds::server::{DiscoveryHandler, DiscoveryServer};
use pilot_xds::service::{DiscoveryService, Variant};
use prometheus_client::registry::Registry;
use prost::Message;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::client::{Client, within};

pub(crate) const VARIANTS: [Variant; 2] = [Variant::Delta, Variant::StateOfTheWorld];

/// Waits for a condition.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let probe = async || condition().then_some(()).ok_or("it does not hold");
    e2e::wait::until_async(what, probe).await.unwrap();
}

/// Control plane of the test, without TLS. Its connections break when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    streams: mpsc::UnboundedReceiver<ServerStream>,
    task: JoinHandle<()>,
}

/// Stream at the control plane.
pub(crate) struct ServerStream {
    pub(crate) variant: Variant,
    pub(crate) requests: RequestStream,
    pub(crate) responses: mpsc::Sender<Result<Bytes, Status>>,
}

#[derive(Clone)]
struct Handler(mpsc::UnboundedSender<ServerStream>);

impl DiscoveryHandler for Handler {
    type Responses = ReceiverStream<Result<Bytes, Status>>;

    async fn open(
        &self,
        variant: Variant,
        requests: Request<RequestStream>,
    ) -> Result<Response<Self::Responses>, Status> {
        let (responses, receiver) = mpsc::channel(1);
        let stream = ServerStream { variant, requests: requests.into_inner(), responses };
        self.0.send(stream).map_err(|_| Status::unavailable("the test ends"))?;
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    pub(crate) async fn start_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, streams) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let service =
                DiscoveryServer::new(DiscoveryService::Aggregated, Handler(sender), usize::MAX);
            let mut connections = JoinSet::new();
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let service = TowerToHyperService::new(service.clone());
                let connection = http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(tcp), service);
                connections.spawn(connection);
            }
        });
        Self { address, streams, task }
    }

    pub(crate) async fn stream(&mut self) -> ServerStream {
        within("a stream at the control plane", self.streams.recv()).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ServerStream {
    pub(crate) fn send(&self, frame: Bytes) -> impl Future<Output = ()> + use<> {
        let responses = self.responses.clone();
        async move { within("the relay to read", responses.send(Ok(frame))).await.unwrap() }
    }

    /// Returns the next request's frame; `None` at the end of the stream.
    pub(crate) async fn frame(&mut self) -> Option<Bytes> {
        within("a request", self.requests.message()).await.ok().flatten()
    }

    pub(crate) async fn delta(&mut self) -> DeltaDiscoveryRequest {
        DeltaDiscoveryRequest::decode(self.frame().await.unwrap()).unwrap()
    }

    pub(crate) async fn sotw(&mut self) -> DiscoveryRequest {
        DiscoveryRequest::decode(self.frame().await.unwrap()).unwrap()
    }
}

/// The relay on a socket of its own.
pub(crate) struct RunningRelay {
    pub(crate) relay: Relay,
    pub(crate) control_plane: ControlPlane,
    pub(crate) socket: PathBuf,
    pub(crate) health: Arc<Health>,
    pub(crate) application: watch::Sender<Option<ApplicationHealth>>,
    registry: Registry,
    task: JoinHandle<()>,
    _folder: TempDir,
}

pub(crate) fn relay_to(address: SocketAddr) -> RunningRelay {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("XDS");
    let options =
        RelayOptions { socket: socket.clone(), shared: false, names: true, additional_roots: true };
    let control_plane = ControlPlane::new(plaintext(address), None);
    let (application, receiver) = watch::channel(None);
    let (health, metrics) = (Arc::new(Health::default()), Metrics::default());
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let relay = Relay::new(options, control_plane.clone(), receiver, Arc::clone(&health), metrics);
    let listener = relay.listen().unwrap();
    let task = tokio::spawn(relay.clone().serve(listener));
    RunningRelay {
        relay,
        control_plane,
        socket,
        health,
        application,
        registry,
        task,
        _folder: folder,
    }
}

pub(crate) fn plaintext(address: SocketAddr) -> ChannelOptions {
    ChannelOptions {
        address: address.to_string(),
        server_name: None,
        root: RootSource::System,
        token: None,
        cluster_id: "Kubernetes".to_owned(),
        headers: Vec::new(),
        plaintext: true,
    }
}

impl RunningRelay {
    /// Returns the value of a metric without labels.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    pub(crate) fn conditions(&self) -> Vec<String> {
        self.health.conditions().into_iter().map(|(_, condition)| condition).collect()
    }

    pub(crate) async fn client(&self, variant: Variant) -> Client {
        Client::open(&self.socket, variant).await.unwrap()
    }
}

impl Drop for RunningRelay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Client {
    pub(crate) async fn send(&self, frame: Bytes) {
        within("a request to be taken", self.requests.send(frame)).await.unwrap();
    }

    /// Returns the next response's frame.
    pub(crate) async fn frame(&mut self) -> Bytes {
        self.receive().await.unwrap().expect("a response")
    }
}

/// Request of a type. The nonce tells requests of a test apart.
pub(crate) fn request(variant: Variant, type_url: &str, nonce: &str) -> Bytes {
    let (type_url, response_nonce) = (type_url.to_owned(), nonce.to_owned());
    match variant {
        Variant::Delta => {
            DeltaDiscoveryRequest { type_url, response_nonce, ..DeltaDiscoveryRequest::default() }
                .encode_to_vec()
        }
        Variant::StateOfTheWorld => {
            DiscoveryRequest { type_url, response_nonce, ..DiscoveryRequest::default() }
                .encode_to_vec()
        }
    }
    .into()
}

/// Response of a type with resources by name.
pub(crate) fn response(
    variant: Variant,
    type_url: &str,
    nonce: &str,
    resources: &[(&str, Vec<u8>)],
) -> Bytes {
    let any = |value: &Vec<u8>| Any { type_url: type_url.to_owned(), value: value.clone().into() };
    let (type_url, nonce) = (type_url.to_owned(), nonce.to_owned());
    match variant {
        Variant::Delta => {
            let resources = resources.iter().map(|(name, value)| Resource {
                version: "1".to_owned(),
                name: (*name).to_owned(),
                resource: Some(any(value)),
                aliases: Vec::new(),
            });
            let resources = resources.collect();
            DeltaDiscoveryResponse { resources, type_url, nonce, ..Default::default() }
                .encode_to_vec()
        }
        Variant::StateOfTheWorld => {
            let resources = resources.iter().map(|(_, value)| any(value)).collect();
            let version_info = "1".to_owned();
            DiscoveryResponse { version_info, resources, type_url, nonce }.encode_to_vec()
        }
    }
    .into()
}
