//! Control plane of a test: delta ADS with the generated resources, and SDS, on one Unix socket.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::mesh_authority::{MeshAuthority, WorkloadLeaf};
use e2e::wait;
use envoy_types::pb::envoy::config::core::v3::DataSource;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::secret::Type;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, Secret, TlsCertificate,
};
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Resource,
};
use envoy_types::pb::envoy::service::secret::v3::secret_discovery_service_server::{
    SecretDiscoveryService, SecretDiscoveryServiceServer,
};
use envoy_types::pb::google::protobuf::Any;
use pilot_routing::envoy;
use pilot_xds::type_urls::{CLUSTER, ENDPOINT, LISTENER, ROUTE, SECRET};
use prost::Message;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::{Request, Response, Status, Streaming};

use crate::world::Resources;

/// Secrets of a proxy with this identity.
pub(crate) fn secrets(authority: &MeshAuthority, identity: &str) -> Result<[Secret; 2]> {
    let (chain, key) = authority.issue(&WorkloadLeaf::new(identity, DAY))?;
    let inline = |text: String| {
        let specifier = Some(Specifier::InlineString(text));
        Some(DataSource { specifier, ..DataSource::default() })
    };
    let certificate = TlsCertificate {
        certificate_chain: inline(chain),
        private_key: inline(key),
        ..TlsCertificate::default()
    };
    let roots = CertificateValidationContext {
        trusted_ca: inline(authority.root().to_owned()),
        ..CertificateValidationContext::default()
    };
    let secret = |name: &str, kind| Secret { name: name.to_owned(), r#type: Some(kind) };
    Ok([
        secret("default", Type::TlsCertificate(certificate)),
        secret("ROOTCA", Type::ValidationContext(roots)),
    ])
}

/// Errors of NACKs.
pub(crate) type Rejections = Arc<Mutex<Vec<String>>>;

/// Control plane that serves until the process ends.
pub(crate) struct Server {
    pub(crate) rejections: Rejections,
    secrets: Vec<Secret>,
    resources: watch::Sender<Arc<Encoded>>,
    progress: Arc<Progress>,
}

/// Progress of the stream of resources.
#[derive(Debug, Default)]
struct Progress {
    /// Updates whose differences are sent.
    updates: AtomicU64,
    /// Responses that wait for their ACK.
    unacknowledged: AtomicU64,
}

impl Server {
    /// Serves resources and secrets on a socket.
    pub(crate) fn start(socket: &Path, resources: &Resources, secrets: &[Secret]) -> Self {
        let rejections = Rejections::default();
        let (sender, receiver) = watch::channel(Arc::new(encoded(resources, secrets)));
        let progress = Arc::new(Progress::default());
        let discovery = Discovery {
            resources: receiver,
            rejections: Arc::clone(&rejections),
            progress: Arc::clone(&progress),
        };
        let listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        thread::spawn(move || {
            runtime.block_on(async move {
                let incoming = UnixListenerStream::new(UnixListener::from_std(listener).unwrap());
                let server = tonic::transport::Server::builder()
                    .add_service(AggregatedDiscoveryServiceServer::new(discovery.clone()))
                    .add_service(SecretDiscoveryServiceServer::new(discovery));
                server.serve_with_incoming(incoming).await.unwrap();
            });
        });
        Self { rejections, secrets: secrets.to_vec(), resources: sender, progress }
    }

    /// Sends what differs in other resources, and waits for the ACKs.
    pub(crate) fn update(&self, resources: &Resources) -> Result<()> {
        let Progress { updates, unacknowledged } = &*self.progress;
        let before = updates.load(Ordering::SeqCst);
        self.resources.send_replace(Arc::new(encoded(resources, &self.secrets)));
        wait::until("the proxy takes the update", || {
            let sent = updates.load(Ordering::SeqCst) > before;
            let missing = unacknowledged.load(Ordering::SeqCst);
            ensure!(sent && missing == 0, "sent: {sent}; {missing} responses without ACK");
            Ok(())
        })
    }
}

type Encoded = BTreeMap<&'static str, BTreeMap<String, (String, Any)>>;

fn encoded(resources: &Resources, secrets: &[Secret]) -> Encoded {
    let of = |resources: &BTreeMap<String, envoy::Resource>| {
        let one = |(name, resource): (&String, &envoy::Resource)| {
            let message = &resource.message;
            let any = Any { type_url: message.type_url.clone(), value: message.value.to_vec() };
            (name.clone(), (resource.version.to_string(), any))
        };
        resources.iter().map(one).collect()
    };
    let secret = |secret: &Secret| {
        let any = Any { type_url: SECRET.to_owned(), value: secret.encode_to_vec() };
        (secret.name.clone(), ("1".to_owned(), any))
    };
    BTreeMap::from([
        (CLUSTER, of(&resources.clusters)),
        (ENDPOINT, of(&resources.endpoints)),
        (LISTENER, of(&resources.listeners)),
        (ROUTE, of(&resources.routes)),
        (SECRET, secrets.iter().map(secret).collect()),
    ])
}

#[derive(Clone)]
struct Discovery {
    resources: watch::Receiver<Arc<Encoded>>,
    rejections: Rejections,
    progress: Arc<Progress>,
}

type Responses = ReceiverStream<Result<DeltaDiscoveryResponse, Status>>;

impl Discovery {
    /// Answers a stream, whose progress counts if it is that of the resources.
    fn answer(
        &self,
        mut requests: Streaming<DeltaDiscoveryRequest>,
        counts: bool,
    ) -> Response<Responses> {
        let (sender, receiver) = mpsc::channel(64);
        let mut this = self.clone();
        tokio::spawn(async move {
            let mut served = Arc::clone(&this.resources.borrow_and_update());
            let mut subscribed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            loop {
                let responses = tokio::select! {
                    request = requests.message() => {
                        let Ok(Some(request)) = request else { break };
                        if let Some(error) = &request.error_detail {
                            this.rejections.lock().unwrap().push(error.message.clone());
                        }
                        if counts && !request.response_nonce.is_empty() {
                            this.progress.unacknowledged.fetch_sub(1, Ordering::SeqCst);
                        }
                        let names = &request.resource_names_subscribe;
                        let is_first = !subscribed.contains_key(&request.type_url);
                        let known = subscribed.entry(request.type_url.clone()).or_default();
                        known.extend(names.iter().cloned());
                        for name in &request.resource_names_unsubscribe {
                            known.remove(name);
                        }
                        let is_asked = is_first || !names.is_empty();
                        let found: Vec<_> =
                            is_asked.then(|| answer_to(&served, &request)).into_iter().collect();
                        if counts {
                            let number = found.len() as u64;
                            this.progress.unacknowledged.fetch_add(number, Ordering::SeqCst);
                        }
                        found
                    }
                    Ok(()) = this.resources.changed() => {
                        let next = Arc::clone(&this.resources.borrow_and_update());
                        let found = differences(&served, &next, &subscribed);
                        served = next;
                        if counts {
                            let number = found.len() as u64;
                            this.progress.unacknowledged.fetch_add(number, Ordering::SeqCst);
                            this.progress.updates.fetch_add(1, Ordering::SeqCst);
                        }
                        found
                    }
                };
                for response in responses {
                    // Envoy may have ended.
                    let _ = sender.send(Ok(response)).await;
                }
            }
        });
        Response::new(ReceiverStream::new(receiver))
    }
}

fn answer_to(served: &Encoded, request: &DeltaDiscoveryRequest) -> DeltaDiscoveryResponse {
    let known = &served[request.type_url.as_str()];
    let wanted = &request.resource_names_subscribe;
    let is_wanted = |name: &&String| is_wildcard(&request.type_url) || wanted.contains(name);
    let found = known.iter().filter(|(name, _)| is_wanted(name)).map(resource);
    let unknown = wanted.iter().filter(|name| *name != "*" && !known.contains_key(*name));
    response(&request.type_url, found.collect(), unknown.cloned().collect())
}

/// Responses with what a stream has to know of a change: clusters first, as xDS asks.
fn differences(
    before: &Encoded,
    now: &Encoded,
    subscribed: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<DeltaDiscoveryResponse> {
    let types = [CLUSTER, ENDPOINT, LISTENER, ROUTE].into_iter();
    let types = types.filter_map(|url| Some((url, subscribed.get(url)?)));
    let found = types.filter_map(|(url, names)| {
        let is_wanted = |name: &&String| is_wildcard(url) || names.contains(*name);
        let is_new = |url: &str, name: &String| {
            let version = |set: &Encoded| set[url].get(name).map(|(version, _)| version.clone());
            version(before) != version(now)
        };
        let (before, now) = (&before[url], &now[url]);
        let changed = now.iter().filter(|(name, _)| {
            // A changed cluster waits for its endpoints again.
            let is_new = is_new(url, name) || url == ENDPOINT && is_new(CLUSTER, name);
            is_wanted(name) && is_new
        });
        let changed: Vec<_> = changed.map(resource).collect();
        let removed = before.keys().filter(|name| is_wanted(name) && !now.contains_key(*name));
        let removed: Vec<_> = removed.cloned().collect();
        let is_empty = changed.is_empty() && removed.is_empty();
        (!is_empty).then(|| response(url, changed, removed))
    });
    found.collect()
}

fn is_wildcard(type_url: &str) -> bool {
    [CLUSTER, LISTENER].contains(&type_url)
}

fn resource((name, (version, message)): (&String, &(String, Any))) -> Resource {
    Resource {
        name: name.clone(),
        version: version.clone(),
        resource: Some(message.clone()),
        ..Resource::default()
    }
}

fn response(
    type_url: &str,
    resources: Vec<Resource>,
    removed_resources: Vec<String>,
) -> DeltaDiscoveryResponse {
    DeltaDiscoveryResponse {
        resources,
        removed_resources,
        type_url: type_url.to_owned(),
        nonce: "1".to_owned(),
        ..DeltaDiscoveryResponse::default()
    }
}

#[tonic::async_trait]
impl AggregatedDiscoveryService for Discovery {
    type StreamAggregatedResourcesStream = ReceiverStream<Result<DiscoveryResponse, Status>>;
    type DeltaAggregatedResourcesStream = Responses;

    async fn stream_aggregated_resources(
        &self,
        _: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        Err(Status::unimplemented("delta only"))
    }

    async fn delta_aggregated_resources(
        &self,
        requests: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Responses>, Status> {
        Ok(self.answer(requests.into_inner(), true))
    }
}

#[tonic::async_trait]
impl SecretDiscoveryService for Discovery {
    type DeltaSecretsStream = Responses;
    type StreamSecretsStream = ReceiverStream<Result<DiscoveryResponse, Status>>;

    async fn delta_secrets(
        &self,
        requests: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Responses>, Status> {
        Ok(self.answer(requests.into_inner(), false))
    }

    async fn stream_secrets(
        &self,
        requests: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamSecretsStream>, Status> {
        let mut requests = requests.into_inner();
        let (sender, receiver) = mpsc::channel(64);
        let this = self.clone();
        tokio::spawn(async move {
            while let Ok(Some(request)) = requests.message().await {
                if let Some(error) = &request.error_detail {
                    this.rejections.lock().unwrap().push(error.message.clone());
                }
                if !request.response_nonce.is_empty() {
                    continue;
                }
                let served = Arc::clone(&this.resources.borrow());
                let known = &served[SECRET];
                let found = request.resource_names.iter().filter_map(|name| known.get(name));
                let response = DiscoveryResponse {
                    version_info: "1".to_owned(),
                    resources: found.map(|(_, message)| message.clone()).collect(),
                    type_url: SECRET.to_owned(),
                    nonce: "1".to_owned(),
                    ..DiscoveryResponse::default()
                };
                // Envoy may have ended.
                let _ = sender.send(Ok(response)).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn fetch_secrets(
        &self,
        _: Request<DiscoveryRequest>,
    ) -> Result<Response<DiscoveryResponse>, Status> {
        Err(Status::unimplemented("streams only"))
    }
}

/// Serves gRPC on a listener until the process ends: the same service, as an application.
pub(crate) fn grpc_application(listener: std::net::TcpListener) {
    let (_, resources) = watch::channel(Arc::default());
    let (rejections, progress) = Default::default();
    let discovery = Discovery { resources, rejections, progress };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    listener.set_nonblocking(true).unwrap();
    thread::spawn(move || {
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
            let service = AggregatedDiscoveryServiceServer::new(discovery);
            let server = tonic::transport::Server::builder().add_service(service);
            server.serve_with_incoming(incoming).await.unwrap();
        });
    });
}

const DAY: Duration = Duration::from_secs(24 * 3600);
