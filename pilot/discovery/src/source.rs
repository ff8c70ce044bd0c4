//! Admission of streams: from a node and a caller to the states published for the proxy.

use std::time::Instant;

use http::Extensions;
use jiff::Timestamp;
use pilot_routing::view::ProxyView;
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
use crate::stream_rate::TooManyStreams;

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
        let too_many = |error: TooManyStreams| Status::resource_exhausted(error.to_string());
        self.connections.admit().await.map_err(too_many)?;
        let ending = || Status::unavailable("the control plane is shutting down");
        // With the state of the world, resources have no names.
        proxy.takes_names_by_host &= variant == Variant::Delta;
        let connected = self.queue.connect(proxy.clone()).await;
        let (subscription, published) = connected.ok_or_else(ending)?;
        if let Some(caller) = &caller {
            self.check_account(caller, &proxy).await?;
        }
        let (sender, inspections) = mpsc::channel(1);
        let since = Timestamp::now();
        let connected = Connected { proxy, caller, since, inspections: sender };
        tracing::debug!(proxy = connected.name(), "stream opened");
        self.connections.add(subscription.id, connected);
        self.metrics.connected.inc();
        let observer =
            Box::new(StreamObserver { source: self.clone(), subscription, lacking_since: None });
        Ok(Connection { published, observer, inspections })
    }
}

impl Source {
    /// Rejects a proxy that claims a pod of another service account: a certificate names no pod.
    async fn check_account(&self, caller: &Caller, proxy: &ProxyView) -> Result<(), Status> {
        let (namespace, pod) = (proxy.namespace.clone(), proxy.pod.clone());
        let account = self.queue.inspect(move |publisher| {
            let workload = publisher.state()?.snapshot.workload(&namespace, &pod)?;
            Some(workload.service_account.clone())
        });
        let account = account.await.flatten();
        if account.is_none_or(|account| account == caller.service_account) {
            return Ok(());
        }
        let Caller { service_account, .. } = caller;
        let (namespace, pod) = (&proxy.namespace, &proxy.pod);
        let problem = format!(
            "the node claims pod {namespace}/{pod}, which has another service account than \
             {service_account}"
        );
        tracing::warn!("{problem}");
        Err(Status::permission_denied(problem))
    }
}

/// Counts requests and responses of a stream. Ends with it.
struct StreamObserver {
    source: Source,
    subscription: Subscription,
    /// Time of the oldest change that the proxy may lack.
    lacking_since: Option<Instant>,
}

impl Observer for StreamObserver {
    fn received(&mut self, request: &Request<'_>, is_expired: bool) {
        let label = TypeLabel::new(request.type_url);
        if is_expired {
            self.source.metrics.expired_nonces.get_or_create(&label).inc();
        }
        if let Some(error) = &request.error {
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

    fn changed(&mut self) {
        let Some(push) = self.subscription.push.take() else { return };
        self.source.metrics.queue_time.observe(push.published.elapsed().as_secs_f64());
        self.lacking_since.get_or_insert(push.changed);
    }

    fn stepped(&mut self, is_in_flight: bool) {
        if is_in_flight {
            return;
        }
        if let Some(since) = self.lacking_since.take() {
            self.source.metrics.convergence.observe(since.elapsed().as_secs_f64());
        }
    }

    fn sent(&mut self, response: &Response) {
        let metrics = &self.source.metrics;
        let label = TypeLabel::new(&response.type_url);
        metrics.pushes.get_or_create(&label).inc();
        if let Some(since) = self.lacking_since {
            metrics.push_time.get_or_create(&label).observe(since.elapsed().as_secs_f64());
        }
        let bytes: usize = response.resources.iter().map(|resource| resource.body().len()).sum();
        metrics
            .sizes
            .get_or_create(&label)
            .observe(f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)));
        metrics.resources.get_or_create(&label).add(response.resources.len() as u64);
    }
}

impl Drop for StreamObserver {
    fn drop(&mut self) {
        self.source.connections.remove(self.subscription.id);
        self.source.metrics.connected.dec();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::num::NonZeroU32;

    use mesh::mesh_config::MeshConfig;
    use pilot_registry::files::Directory;
    use pilot_registry::manifest::ObjectDefaults;
    use pilot_routing::view::MeshView;
    use prometheus_client::metrics::family::Family;
    use tonic::Code;

    use super::*;
    use crate::publish::{Input, start};
    use crate::stream_rate::StreamRate;

    fn source() -> Source {
        let queue = start(Family::default()).unwrap();
        let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web-1, namespace: shop}\n\
                   spec: {serviceAccountName: web}\n\
                   status: {phase: Running, podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}]}\n";
        let files = BTreeMap::from([("pod.yaml".to_owned(), pod.as_bytes().to_vec())]);
        for event in Directory::new(ObjectDefaults::default()).update(&files).events {
            queue.offer(Input::Registry(Box::new(event)));
        }
        queue.offer(Input::PeerAuthentications(Vec::new()));
        queue.offer(Input::AuthorizationPolicies(Vec::new()));
        queue.offer(Input::Mesh(MeshView::new(&MeshConfig::parse("").unwrap()).unwrap()));
        Source { queue, connections: Connections::default(), metrics: Metrics::default() }
    }

    async fn connect(source: &Source, caller: Option<(&str, &str)>) -> Code {
        let id = "sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local".to_owned();
        let node = Node { id, ..Node::default() };
        let mut extensions = Extensions::new();
        if let Some((namespace, service_account)) = caller {
            extensions.insert(Caller {
                trust_domain: "cluster.local".into(),
                namespace: namespace.into(),
                service_account: service_account.into(),
                pod: None,
            });
        }
        let connected = source.connect(Variant::Delta, node, &extensions).await;
        connected.map_or_else(|status| status.code(), |_| Code::Ok)
    }

    #[tokio::test(start_paused = true)]
    async fn streams_beyond_the_rate_are_refused() {
        let rate = StreamRate::new(NonZeroU32::new(1));
        let source = Source { connections: Connections::with_rate(rate), ..source() };
        let connect = || connect(&source, None);
        let codes = futures::join!(connect(), connect(), connect());
        // The second waits for a second.
        assert_eq!(codes, (Code::Ok, Code::Ok, Code::ResourceExhausted));
    }

    #[tokio::test]
    async fn node_must_be_the_callers() {
        let source = source();
        assert_eq!(connect(&source, None).await, Code::Ok);
        assert_eq!(connect(&source, Some(("shop", "web"))).await, Code::Ok);
        assert_eq!(connect(&source, Some(("bank", "web"))).await, Code::PermissionDenied);
        // A pod of another account in the same namespace.
        assert_eq!(connect(&source, Some(("shop", "api"))).await, Code::PermissionDenied);
        assert_eq!(source.connections.list().len(), 0, "streams have ended");
    }
}
