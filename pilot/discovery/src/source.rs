//! Admission of streams: from a node and a caller to the states published for the proxy.

use http::Extensions;
use jiff::Timestamp;
use pilot_xds::messages::Node;
use pilot_xds::service::Variant;
use pilot_xds::session::{Request, Response};
use pilot_xds::streams::{Connection, Observer, ResourceSource};
use tokio::sync::mpsc;
use tonic::Status;

use crate::connections::{Connected, Connections};
use crate::identity::Caller;
use crate::metrics::{Metrics, TypeLabel};
use crate::node::proxy_view;
use crate::publish::{Queue, Subscription};
use crate::resources::Published;

/// Source of the published states.
#[derive(Clone, Debug)]
pub struct Source {
    /// The publisher.
    pub queue: Queue,
    /// Open streams.
    pub connections: Connections,
    /// Counts of requests and responses.
    pub metrics: Metrics,
}

impl ResourceSource for Source {
    type Resources = Published;

    async fn connect(
        &self,
        variant: Variant,
        node: Node,
        extensions: &Extensions,
    ) -> Result<Connection<Published>, Status> {
        let invalid = |error: crate::node::NodeError| Status::invalid_argument(error.to_string());
        let mut proxy = proxy_view(&node).map_err(invalid)?;
        let caller = extensions.get::<Caller>().cloned();
        if let Some(caller) = &caller {
            let denied = |error: crate::identity::ForeignNode| {
                tracing::warn!(node = node.id, "{error}");
                Status::permission_denied(error.to_string())
            };
            caller.check(&proxy).map_err(denied)?;
            proxy.service_account = caller.service_account.clone();
        }
        let ending = || Status::unavailable("the control plane is shutting down");
        let connected = self.queue.connect(proxy.clone(), variant).await;
        let (subscription, published) = connected.ok_or_else(ending)?;
        let (sender, inspections) = mpsc::channel(1);
        let since = Timestamp::now();
        let connected = Connected { proxy, caller, since, inspections: sender };
        tracing::debug!(proxy = connected.name(), "stream opened");
        self.connections.add(subscription.id, connected);
        self.metrics.connected.inc();
        let observer = Box::new(StreamObserver { source: self.clone(), subscription });
        Ok(Connection { published, observer, inspections })
    }
}

/// Counts requests and responses of a stream. Ends with it.
struct StreamObserver {
    source: Source,
    subscription: Subscription,
}

impl Observer for StreamObserver {
    fn received(&mut self, request: &Request) {
        if let Some(error) = &request.error {
            let label = TypeLabel::new(&request.type_url);
            let proxies = self.source.connections.list();
            let id = self.subscription.id;
            let proxy = proxies.iter().find(|(of, _)| *of == id).map(|(_, it)| it.name());
            tracing::warn!(
                proxy,
                r#type = label.r#type,
                "the proxy rejected a resource: {}",
                error.message
            );
            self.source.metrics.rejects.get_or_create(&label).inc();
        }
    }

    fn sent(&mut self, response: &Response) {
        let metrics = &self.source.metrics;
        let label = TypeLabel::new(&response.type_url);
        metrics.pushes.get_or_create(&label).inc();
        metrics.resources.get_or_create(&label).add(response.resources.len() as u64);
    }
}

impl Drop for StreamObserver {
    fn drop(&mut self) {
        self.source.connections.remove(self.subscription.id);
        self.source.metrics.connected.dec();
    }
}
