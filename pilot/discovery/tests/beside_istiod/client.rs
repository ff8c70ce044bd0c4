//! Delta client with the subscriptions of a sidecar and its agent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, ensure};
use bytes::Bytes;
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};
use futures::StreamExt as _;
use pilot_xds::client;
use pilot_xds::messages::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node};
use pilot_xds::service::{DiscoveryService, Variant};
use pilot_xds::type_urls::{CLUSTER, ENDPOINT, LISTENER, NAME_TABLE, ROUTE};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Endpoint;

use crate::facts::routes_of;

/// Proxy that asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proxy {
    /// Name in stated differences.
    pub(crate) name: &'static str,
    kind: &'static str,
    addresses: &'static str,
    /// Pod, namespace and application.
    pod: (&'static str, &'static str, &'static str),
    interception: &'static str,
}

/// Proxies of all kinds.
pub(crate) fn proxies() -> [Proxy; 8] {
    let web = Proxy {
        name: "redirect",
        kind: "sidecar",
        addresses: "10.0.0.1",
        pod: ("web-1", "shop", "web"),
        interception: "REDIRECT",
    };
    let client = ("client-1", "other", "client");
    [
        web,
        Proxy { name: "tproxy", interception: "TPROXY", ..web },
        Proxy { name: "uncaptured", interception: "NONE", ..web },
        Proxy { name: "server", addresses: "10.0.0.5", pod: ("db-1", "shop", "db"), ..web },
        Proxy { name: "headless", addresses: "10.0.0.6", pod: ("nodes-0", "shop", "nodes"), ..web },
        Proxy {
            name: "dual",
            addresses: "10.0.0.20,fd00::20",
            pod: ("dual-1", "shop", "dual"),
            ..web
        },
        Proxy { name: "client", addresses: "10.0.0.90", pod: client, ..web },
        Proxy { name: "gateway", kind: "router", addresses: "10.0.0.91", pod: client, ..web },
    ]
}

impl Proxy {
    fn node(&self) -> Node {
        let (pod, namespace, app) = self.pod;
        let address = self.addresses.split(',').next().unwrap_or_default();
        let text = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
        let labels = Struct { fields: [("app".to_owned(), text(app))].into() };
        let fields = [
            ("NAME", text(pod)),
            ("NAMESPACE", text(namespace)),
            ("CLUSTER_ID", text("Kubernetes")),
            ("INSTANCE_IPS", text(self.addresses)),
            ("INTERCEPTION_MODE", text(self.interception)),
            ("ISTIO_VERSION", text("1.31.0")),
            ("NODE_NAME", text("node-a")),
            ("LABELS", Value { kind: Some(Kind::StructValue(labels)) }),
        ];
        let fields = fields.map(|(key, value)| (key.to_owned(), value)).into();
        let locality = envoy_types::pb::envoy::config::core::v3::Locality {
            region: "r1".to_owned(),
            zone: "z1".to_owned(),
            ..Default::default()
        };
        Node {
            id: format!("{}~{address}~{pod}.{namespace}~{namespace}.svc.cluster.local", self.kind),
            metadata: Struct { fields }.encode_to_vec().into(),
            locality: locality.encode_to_vec().into(),
            ..Node::default()
        }
    }
}

/// Resources by type and name.
pub(crate) type Resources = BTreeMap<&'static str, BTreeMap<String, Bytes>>;

/// Open stream. It ends with the value.
pub(crate) struct Stream {
    received: Arc<Mutex<Received>>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Received {
    resources: Resources,
    /// Names that were asked for.
    asked: BTreeSet<(&'static str, String)>,
    ended: Option<String>,
}

impl Stream {
    pub(crate) async fn open(server: SocketAddr, proxy: &Proxy) -> Result<Self> {
        let channel = Endpoint::from_shared(format!("http://{server}"))?.connect().await?;
        let (requests, queue) = mpsc::unbounded_channel();
        let mut node = Some(proxy.node().encode_to_vec().into());
        for type_url in [CLUSTER, LISTENER, NAME_TABLE] {
            let type_url = type_url.to_owned();
            let request =
                DeltaDiscoveryRequest { node: node.take(), type_url, ..Default::default() };
            requests.send(request.encode_to_vec().into())?;
        }
        let received: Arc<Mutex<Received>> = Arc::default();
        let state = Arc::clone(&received);
        let task = tokio::spawn(async move {
            let requests_of_stream = tonic::Request::new(UnboundedReceiverStream::new(queue));
            let service = DiscoveryService::Aggregated;
            let opened = client::open(channel, service, Variant::Delta, requests_of_stream).await;
            let ended = match opened {
                Err(status) => format!("{status:?}"),
                Ok(opened) => {
                    let mut frames = opened.into_inner();
                    loop {
                        match frames.next().await {
                            Some(Ok(frame)) => take(&state, frame, &requests),
                            other => break format!("{other:?}"),
                        }
                    }
                }
            };
            state.lock().unwrap_or_else(PoisonError::into_inner).ended = Some(ended);
        });
        Ok(Self { received, task })
    }

    /// Returns the resources if each request was answered.
    pub(crate) fn complete(&self) -> Result<Resources> {
        let state = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(state.ended.is_none(), "the stream has ended: {:?}", state.ended);
        for type_url in [CLUSTER, LISTENER, NAME_TABLE] {
            ensure!(state.resources.contains_key(type_url), "no answer to {type_url}");
        }
        for (type_url, name) in &state.asked {
            let found = state.resources.get(type_url).and_then(|names| names.get(name));
            ensure!(found.is_some(), "no answer to {type_url} {name}");
        }
        Ok(state.resources.clone())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Takes a response, acknowledges it, and subscribes to the names in it.
fn take(state: &Mutex<Received>, frame: Bytes, requests: &mpsc::UnboundedSender<Bytes>) {
    let response = DeltaDiscoveryResponse::decode(frame).unwrap();
    let types = [CLUSTER, ENDPOINT, LISTENER, ROUTE, NAME_TABLE];
    let type_url = types.into_iter().find(|it| *it == response.type_url).unwrap();
    let send = |request: DeltaDiscoveryRequest| {
        // Fails if the stream has ended, which its task records.
        let _ = requests.send(request.encode_to_vec().into());
    };
    send(DeltaDiscoveryRequest {
        type_url: type_url.to_owned(),
        response_nonce: response.nonce,
        ..Default::default()
    });
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let mut referred = BTreeSet::new();
    let names = state.resources.entry(type_url).or_default();
    for resource in response.resources {
        let body = resource.resource.unwrap_or_default().value;
        match type_url {
            CLUSTER => {
                let cluster = Cluster::decode(body.clone()).unwrap();
                let endpoints = cluster.eds_cluster_config.map(|_| cluster.name);
                referred.extend(endpoints.map(|name| (ENDPOINT, name)));
            }
            LISTENER => {
                let routes = routes_of(&Listener::decode(body.clone()).unwrap());
                referred.extend(routes.into_iter().map(|name| (ROUTE, name)));
            }
            _ => {}
        }
        names.insert(resource.name, body);
    }
    for name in &response.removed_resources {
        names.remove(name);
    }
    for name in response.removed_resources {
        state.asked.remove(&(type_url, name));
    }
    for type_url in [ENDPOINT, ROUTE] {
        let new = referred.iter().filter(|it| it.0 == type_url && !state.asked.contains(*it));
        let new: Vec<_> = new.map(|(_, name)| name.clone()).collect();
        if !new.is_empty() {
            send(DeltaDiscoveryRequest {
                type_url: type_url.to_owned(),
                resource_names_subscribe: new.clone(),
                ..Default::default()
            });
            state.asked.extend(new.into_iter().map(|name| (type_url, name)));
        }
    }
}
