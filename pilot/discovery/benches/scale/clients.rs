//! Delta clients that acknowledge everything, with the subscriptions of a sidecar.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::StreamExt as _;
use pilot_xds::client;
use pilot_xds::messages::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node};
use pilot_xds::service::{DiscoveryService, Variant};
use pilot_xds::type_urls::{CLUSTER, ENDPOINT, LISTENER, ROUTE};
use prost::Message as _;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Request;
use tonic::transport::Endpoint;

/// Versions by name, for each type.
pub(crate) type Versions = HashMap<&'static str, HashMap<String, String>>;

/// Connected clients. They end with the value.
pub(crate) struct Clients {
    _tasks: JoinSet<()>,
    counts: Vec<watch::Receiver<u64>>,
    seen: std::sync::Mutex<Vec<u64>>,
    received: Arc<AtomicU64>,
    versions: Arc<std::sync::Mutex<Versions>>,
}

impl Clients {
    /// Waits until each client has got one more endpoint update than at the last call.
    pub(crate) async fn updated(&self) {
        let targets: Vec<u64> = self.seen.lock().unwrap().iter().map(|seen| seen + 1).collect();
        for (count, target) in self.counts.iter().zip(&targets) {
            count.clone().wait_for(|count| count >= target).await.unwrap();
        }
        *self.seen.lock().unwrap() = targets;
    }

    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub(crate) fn versions(&self) -> Versions {
        self.versions.lock().unwrap().clone()
    }
}

/// Connects clients, a few at a time, and waits until each has all resources.
pub(crate) async fn connect(server: SocketAddr, count: usize, known: Option<Versions>) -> Clients {
    let (received, versions) = (Arc::new(AtomicU64::new(0)), Arc::default());
    let resumption = known.map(|known| Arc::new(resumption(&known)));
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let (mut tasks, mut ready, mut counts) = (JoinSet::new(), JoinSet::new(), Vec::new());
    for number in 0..count {
        let (sender, count) = watch::channel(0);
        let (done, is_done) = tokio::sync::oneshot::channel();
        let client = Client {
            number,
            requests: None,
            received: Arc::clone(&received),
            versions: (number == 0).then(|| Arc::clone(&versions)),
            resumption: resumption.clone(),
            updates: sender,
        };
        counts.push(count);
        let turns = Arc::clone(&turns);
        tasks.spawn(async move {
            let turn = turns.acquire_owned().await.unwrap();
            client
                .run(server, move || {
                    drop(turn);
                    let _ = done.send(());
                })
                .await;
        });
        ready.spawn(async move { is_done.await.unwrap() });
    }
    while let Some(done) = ready.join_next().await {
        done.unwrap();
    }
    let seen = counts.iter().map(|count| *count.borrow()).collect::<Vec<_>>().into();
    Clients { _tasks: tasks, counts, seen, received, versions }
}

struct Client {
    number: usize,
    requests: Option<mpsc::UnboundedSender<Bytes>>,
    received: Arc<AtomicU64>,
    versions: Option<Arc<std::sync::Mutex<Versions>>>,
    /// First requests of a client that comes back.
    resumption: Option<Arc<Vec<Bytes>>>,
    updates: watch::Sender<u64>,
}

impl Client {
    async fn run(mut self, server: SocketAddr, done: impl FnOnce() + Send) {
        let channel = Endpoint::from_shared(format!("http://{server}")).unwrap();
        let channel = channel.connect().await.unwrap();
        let (requests, queue) = mpsc::unbounded_channel();
        self.requests = Some(requests);
        match &self.resumption {
            None => self.subscribe(CLUSTER, Vec::new()),
            Some(requests) => requests.iter().for_each(|request| self.send(request.clone())),
        }
        let requests = Request::new(UnboundedReceiverStream::new(queue));
        let opened = client::open(channel, DiscoveryService::Aggregated, Variant::Delta, requests);
        let mut frames = opened.await.unwrap().into_inner();
        let mut done = Some(done);
        let (mut routes, mut answered) = (false, std::collections::BTreeSet::new());
        while let Some(Ok(frame)) = frames.next().await {
            let response = DeltaDiscoveryResponse::decode(frame).unwrap();
            self.received.fetch_add(response.resources.len() as u64, Ordering::Relaxed);
            let type_url = self.take(&response);
            answered.insert(type_url);
            match type_url {
                CLUSTER if self.resumption.is_none() => {
                    let names = response.resources.into_iter().map(|resource| resource.name);
                    self.subscribe(
                        ENDPOINT,
                        names.filter(|it| it.starts_with("outbound|")).collect(),
                    );
                    if answered.len() == 1 {
                        self.subscribe(LISTENER, Vec::new());
                    }
                }
                LISTENER if self.resumption.is_none() && !std::mem::replace(&mut routes, true) => {
                    self.subscribe(ROUTE, vec!["80".to_owned()]);
                }
                ENDPOINT => self.updates.send_modify(|count| *count += 1),
                _ => {}
            }
            // A client that comes back gets an answer to its wildcard subscriptions at least.
            let expected = if self.resumption.is_some() { 2 } else { 4 };
            if answered.len() >= expected
                && let Some(done) = done.take()
            {
                done();
            }
        }
    }

    /// Acknowledges a response.
    fn take(&self, response: &DeltaDiscoveryResponse) -> &'static str {
        let types = [CLUSTER, ENDPOINT, LISTENER, ROUTE];
        let type_url = types.into_iter().find(|it| *it == response.type_url).unwrap();
        let request = DeltaDiscoveryRequest {
            type_url: type_url.to_owned(),
            response_nonce: response.nonce.clone(),
            ..DeltaDiscoveryRequest::default()
        };
        self.send(request.encode_to_vec().into());
        if let Some(versions) = &self.versions {
            let resources = response.resources.iter();
            let resources = resources.map(|it| (it.name.clone(), it.version.clone()));
            versions.lock().unwrap().entry(type_url).or_default().extend(resources);
        }
        type_url
    }

    fn subscribe(&self, type_url: &str, names: Vec<String>) {
        let node = (type_url == CLUSTER).then(|| node(self.number));
        let request = DeltaDiscoveryRequest {
            node,
            type_url: type_url.to_owned(),
            resource_names_subscribe: names,
            ..DeltaDiscoveryRequest::default()
        };
        self.send(request.encode_to_vec().into());
    }

    fn send(&self, request: Bytes) {
        self.requests.as_ref().unwrap().send(request).unwrap();
    }
}

fn node(number: usize) -> Bytes {
    let id = format!(
        "sidecar~10.1.{}.{}~web-{number}.shop~shop.svc.cluster.local",
        number / 250,
        number % 250
    );
    Node { id, ..Node::default() }.encode_to_vec().into()
}

/// First requests of all clients that come back: the cost of encoding them is none of the server's.
fn resumption(known: &Versions) -> Vec<Bytes> {
    let request = |type_url: &str| {
        let versions = known.get(type_url).cloned().unwrap_or_default();
        let is_named = matches!(type_url, ENDPOINT | ROUTE);
        DeltaDiscoveryRequest {
            node: (type_url == CLUSTER).then(|| node(0)),
            type_url: type_url.to_owned(),
            resource_names_subscribe: versions.keys().filter(|_| is_named).cloned().collect(),
            initial_resource_versions: versions.into_iter().collect(),
            ..DeltaDiscoveryRequest::default()
        }
    };
    let types = [CLUSTER, ENDPOINT, LISTENER, ROUTE];
    types.map(|type_url| request(type_url).encode_to_vec().into()).into()
}

/// Clients that connect at the same time.
const AT_ONCE: usize = 16;
