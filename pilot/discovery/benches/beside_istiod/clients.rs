//! Delta clients that acknowledge everything, with the subscriptions of a sidecar.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::address::Address;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};
use futures::StreamExt as _;
use pilot_xds::client;
use pilot_xds::messages::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node};
use pilot_xds::service::{DiscoveryService, Variant};
use pilot_xds::type_urls::{CLUSTER, ENDPOINT, LISTENER, ROUTE};
use prost::Message as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Endpoint;

use crate::objects::{change_of, changing_cluster, is_cluster};

/// Connected clients. They end with the value.
pub(crate) struct Clients {
    tasks: JoinSet<Result<()>>,
    progress: Vec<watch::Sender<Progress>>,
}

/// Acknowledged state of a client.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// True if each subscription was answered.
    is_complete: bool,
    /// Latest change of the changing service.
    change: u32,
}

impl Clients {
    /// Connects clients, a few at a time, and waits until each has all resources.
    pub(crate) async fn connect(server: SocketAddr, count: usize, services: usize) -> Result<Self> {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let mut clients = Self { tasks: JoinSet::new(), progress: Vec::new() };
        for number in 0..count {
            let progress = watch::Sender::default();
            clients.progress.push(progress.clone());
            let turns = Arc::clone(&turns);
            clients.tasks.spawn(async move {
                let turn = turns.acquire_owned().await?;
                let ended = run(server, number, services, progress, turn).await;
                ended.with_context(|| format!("client {number}"))
            });
        }
        clients.reach(|progress| progress.is_complete).await.context("connecting")?;
        Ok(clients)
    }

    /// Waits until each client has acknowledged this change.
    pub(crate) async fn have(&mut self, change: u32) -> Result<()> {
        let reached = self.reach(|progress| progress.change >= change).await;
        reached.with_context(|| format!("waiting for ACKs of change {change}"))
    }

    async fn reach(&mut self, is_reached: impl Fn(&Progress) -> bool) -> Result<()> {
        let all = async {
            for progress in &self.progress {
                progress.subscribe().wait_for(&is_reached).await?;
            }
            Ok(())
        };
        tokio::select! {
            reached = tokio::time::timeout(STATE_TIMEOUT, all) => {
                reached.context("a client does not get what it waits for")?
            }
            Some(ended) = self.tasks.join_next() => Err(match ended {
                Ok(Err(error)) => error,
                other => anyhow!("a client has ended: {other:?}"),
            }),
        }
    }
}

/// Runs a client until its stream ends.
async fn run(
    server: SocketAddr,
    number: usize,
    services: usize,
    progress: watch::Sender<Progress>,
    turn: OwnedSemaphorePermit,
) -> Result<()> {
    let channel = Endpoint::from_shared(format!("http://{server}"))?.connect().await?;
    let (requests, queue) = mpsc::unbounded_channel();
    let mut client = Client {
        requests,
        progress,
        services,
        turn: Some(turn),
        clusters: HashSet::new(),
        assigned: HashSet::new(),
        answered: HashSet::new(),
    };
    let node = Some(node(number).encode_to_vec().into());
    client.send(&DeltaDiscoveryRequest { node, ..subscription(CLUSTER, Vec::new()) })?;
    client.send(&subscription(LISTENER, Vec::new()))?;
    let queue = tonic::Request::new(UnboundedReceiverStream::new(queue));
    let opened = client::open(channel, DiscoveryService::Aggregated, Variant::Delta, queue);
    let mut frames = opened.await?.into_inner();
    while let Some(frame) = frames.next().await {
        client.take(DeltaDiscoveryResponse::decode(frame?)?)?;
    }
    bail!("the server has ended the stream")
}

struct Client {
    requests: mpsc::UnboundedSender<Bytes>,
    progress: watch::Sender<Progress>,
    services: usize,
    /// Held until the client has everything.
    turn: Option<OwnedSemaphorePermit>,
    /// Clusters whose endpoints were asked for.
    clusters: HashSet<String>,
    /// Services whose endpoints have come.
    assigned: HashSet<String>,
    answered: HashSet<String>,
}

impl Client {
    /// Takes a response, acknowledges it, and subscribes to the names in it.
    fn take(&mut self, response: DeltaDiscoveryResponse) -> Result<()> {
        let DeltaDiscoveryResponse { resources, type_url, nonce, .. } = response;
        let acknowledgement = DeltaDiscoveryRequest {
            type_url: type_url.clone(),
            response_nonce: nonce,
            ..DeltaDiscoveryRequest::default()
        };
        self.send(&acknowledgement)?;
        let is_first = self.answered.insert(type_url.clone());
        match type_url.as_str() {
            CLUSTER => {
                let names = resources.into_iter().map(|resource| resource.name);
                let outbound = names.filter(|name| name.starts_with("outbound|"));
                let new = outbound.filter(|name| self.clusters.insert(name.clone()));
                let new: Vec<_> = new.collect();
                // A request without names is an ACK or a wildcard subscription.
                if !new.is_empty() {
                    self.send(&subscription(ENDPOINT, new))?;
                }
            }
            LISTENER if is_first => self.send(&subscription(ROUTE, vec!["80".to_owned()]))?,
            ENDPOINT => {
                for resource in resources {
                    if resource.name == changing_cluster() {
                        let body = resource.resource.context("no assignment")?.value;
                        let change = latest_change(&ClusterLoadAssignment::decode(body)?);
                        let change = change.context("no address of a change")?;
                        self.progress.send_modify(|progress| progress.change = change);
                    }
                    if self.turn.is_some() && is_cluster(&resource.name) {
                        self.assigned.insert(resource.name);
                    }
                }
            }
            _ => {}
        }
        if self.answered.len() >= 4 && self.assigned.len() >= self.services {
            self.turn = None;
            self.progress
                .send_if_modified(|progress| !std::mem::replace(&mut progress.is_complete, true));
        }
        Ok(())
    }

    fn send(&self, request: &DeltaDiscoveryRequest) -> Result<()> {
        self.requests.send(request.encode_to_vec().into()).context("the stream has ended")
    }
}

fn subscription(type_url: &str, names: Vec<String>) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: type_url.to_owned(),
        resource_names_subscribe: names,
        ..DeltaDiscoveryRequest::default()
    }
}

fn latest_change(assignment: &ClusterLoadAssignment) -> Option<u32> {
    let endpoints = assignment.endpoints.iter().flat_map(|locality| &locality.lb_endpoints);
    let mut addresses = endpoints.filter_map(|endpoint| match &endpoint.host_identifier {
        Some(HostIdentifier::Endpoint(endpoint)) => match endpoint.address.as_ref()?.address {
            Some(Address::SocketAddress(ref address)) => Some(address.address.as_str()),
            _ => None,
        },
        _ => None,
    });
    addresses.find_map(change_of)
}

fn node(number: usize) -> Node {
    let (name, namespace) = (format!("web-{number}"), "namespace-0");
    let address = format!("10.1.{}.{}", number / 250, 1 + number % 250);
    let fields = [
        ("NAME", name.as_str()),
        ("NAMESPACE", namespace),
        ("CLUSTER_ID", "Kubernetes"),
        ("INSTANCE_IPS", &address),
        ("INTERCEPTION_MODE", "REDIRECT"),
        ("ISTIO_VERSION", "1.31.0"),
    ];
    let text = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
    let fields = fields.map(|(key, value)| (key.to_owned(), text(value))).into();
    Node {
        id: format!("sidecar~{address}~{name}.{namespace}~{namespace}.svc.cluster.local"),
        metadata: Struct { fields }.encode_to_vec().into(),
        ..Node::default()
    }
}

/// Clients that connect at the same time.
const AT_ONCE: usize = 16;
/// Longer than other waits: all clients connect before the first one has its state.
const STATE_TIMEOUT: Duration = Duration::from_secs(300);
