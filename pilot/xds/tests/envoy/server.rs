//! The server: the published state, its streams, and their connections.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use e2e::wait::until;
use http::Extensions;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use pilot_xds::messages::Node;
use pilot_xds::server::DiscoveryServer;
use pilot_xds::service::{DiscoveryService, Variant};
use pilot_xds::session::{Limits, Response, TypeView};
use pilot_xds::streams::{Connection, Observer, ResourceSource, Streams};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tonic::Status;

use crate::resources::State;

/// A running server.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    published: watch::Sender<State>,
    source: Source,
    task: JoinHandle<()>,
}

#[derive(Clone)]
struct Source {
    published: watch::Receiver<State>,
    inspections: Arc<Mutex<Option<Inspections>>>,
    sent: Sent,
}

/// Number of resources sent.
#[derive(Clone, Default)]
struct Sent(Arc<AtomicUsize>);

impl Observer for Sent {
    fn sent(&mut self, response: &Response) {
        self.0.fetch_add(response.resources.len(), Ordering::Relaxed);
    }
}

type Inspections = mpsc::Sender<oneshot::Sender<Vec<TypeView>>>;

impl ResourceSource for Source {
    type Resources = State;

    async fn connect(
        &self,
        _: Variant,
        node: Node,
        _: &Extensions,
    ) -> Result<Connection<State>, Status> {
        assert!(node.id.starts_with("sidecar~"), "{}", node.id);
        let (sender, inspections) = mpsc::channel(1);
        *self.inspections.lock().unwrap() = Some(sender);
        let observer = Box::new(self.sent.clone());
        Ok(Connection { published: self.published.clone(), observer, inspections })
    }
}

impl Server {
    pub(crate) fn start(address: SocketAddr, state: State) -> Self {
        let (published, receiver) = watch::channel(state);
        let source =
            Source { published: receiver, inspections: Arc::default(), sent: Sent::default() };
        let streams = Streams::new(source.clone(), Limits::default(), Duration::from_secs(30));
        let service = DiscoveryServer::new(DiscoveryService::Aggregated, streams, 64 << 20);
        let service = TowerToHyperService::new(service);
        let listener = until("the port is free", || std::net::TcpListener::bind(address));
        let listener = listener.unwrap();
        listener.set_nonblocking(true).unwrap();
        let task = tokio::spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            // Connections end with the task.
            let mut connections = JoinSet::new();
            while let Ok((tcp, _)) = listener.accept().await {
                tcp.set_nodelay(true).unwrap();
                let connection = http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(tcp), service.clone());
                connections.spawn(connection);
            }
        });
        Self { address, published, source, task }
    }

    pub(crate) fn publish(&self, state: State) {
        self.published.send_replace(state);
    }

    /// Closes the port and the connections, and returns the published state.
    pub(crate) fn stop(&self) -> State {
        self.task.abort();
        self.published.borrow().clone()
    }

    /// Returns the state of the last stream; empty if there is none.
    pub(crate) fn view(&self) -> Vec<TypeView> {
        let Some(inspections) = self.source.inspections.lock().unwrap().clone() else {
            return Vec::new();
        };
        let (reply, view) = oneshot::channel();
        // The stream may end meanwhile.
        let _ = inspections.blocking_send(reply);
        view.blocking_recv().unwrap_or_default()
    }

    /// Number of resources that were encoded for a response.
    pub(crate) fn sent(&self) -> usize {
        self.source.sent.0.load(Ordering::Relaxed)
    }

    /// Waits until Envoy has acknowledged the published state.
    pub(crate) fn wait_until_settled(&self) {
        until("Envoy acknowledges the state", || {
            let state = self.published.borrow().clone();
            let view = self.view();
            let open: Vec<_> = view.iter().filter(|view| !state.is_acknowledged(view)).collect();
            if open.is_empty() && !view.is_empty() { Ok(()) } else { Err(format!("{open:?}")) }
        })
        .unwrap();
    }
}
