//! Control plane of a test: delta ADS with the generated resources, and SDS, on one Unix socket.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use e2e::mesh_authority::{MeshAuthority, WorkloadLeaf};
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
use tokio::sync::mpsc;
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

/// Serves resources and secrets on a socket until the process ends.
pub(crate) fn serve(socket: &Path, resources: &Resources, secrets: &[Secret]) -> Rejections {
    let rejections = Rejections::default();
    let discovery = Discovery {
        resources: Arc::new(encoded(resources, secrets)),
        rejections: Arc::clone(&rejections),
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
    rejections
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
    resources: Arc<Encoded>,
    rejections: Rejections,
}

type Responses = ReceiverStream<Result<DeltaDiscoveryResponse, Status>>;

impl Discovery {
    fn answer(&self, mut requests: Streaming<DeltaDiscoveryRequest>) -> Response<Responses> {
        let (sender, receiver) = mpsc::channel(64);
        let this = self.clone();
        tokio::spawn(async move {
            let mut seen = BTreeSet::new();
            while let Ok(Some(request)) = requests.message().await {
                if let Some(error) = &request.error_detail {
                    this.rejections.lock().unwrap().push(error.message.clone());
                }
                let first = seen.insert(request.type_url.clone());
                if first || !request.resource_names_subscribe.is_empty() {
                    // Envoy may have ended.
                    let _ = sender.send(Ok(this.response(&request))).await;
                }
            }
        });
        Response::new(ReceiverStream::new(receiver))
    }

    fn response(&self, request: &DeltaDiscoveryRequest) -> DeltaDiscoveryResponse {
        let known = &self.resources[request.type_url.as_str()];
        let wanted = &request.resource_names_subscribe;
        let is_wildcard = [CLUSTER, LISTENER].contains(&request.type_url.as_str());
        let resource = |(name, (version, message)): (&String, &(String, Any))| Resource {
            name: name.clone(),
            version: version.clone(),
            resource: Some(message.clone()),
            ..Resource::default()
        };
        let named = known.iter().filter(|(name, _)| is_wildcard || wanted.contains(name));
        let unknown = wanted.iter().filter(|name| *name != "*" && !known.contains_key(*name));
        DeltaDiscoveryResponse {
            resources: named.map(resource).collect(),
            removed_resources: unknown.cloned().collect(),
            type_url: request.type_url.clone(),
            nonce: "1".to_owned(),
            ..DeltaDiscoveryResponse::default()
        }
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
        Ok(self.answer(requests.into_inner()))
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
        Ok(self.answer(requests.into_inner()))
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
                let known = &this.resources[SECRET];
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
    let discovery = Discovery { resources: Arc::default(), rejections: Rejections::default() };
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
