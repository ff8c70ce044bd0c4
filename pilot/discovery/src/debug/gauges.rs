//! Numbers of the published state for metrics.

use std::collections::{BTreeMap, BTreeSet};

use pilot_registry::endpoint::{Endpoint, Health};
use pilot_registry::protocol::ProtocolClass;
use pilot_registry::service::{Resolution, Service};
use pilot_registry::snapshot::Snapshot;
use pilot_routing::peer_authentication::Reason;
use pilot_routing::view::ProxyView;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::{MeshGauges, ReasonLabel};
use crate::publish::Publisher;

/// Numbers of the published state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MeshNumbers {
    services: usize,
    without_endpoints: usize,
    outbound_conflicts: usize,
    proxy_port_conflicts: usize,
    inbound_conflicts: usize,
    unknown_pods: usize,
    waiting_endpoints: usize,
    closed_proxies: usize,
    /// Parts of policies without effect, in the order of [`Reason::NAMES`].
    ineffective_policies: [usize; Reason::NAMES.len()],
}

impl MeshNumbers {
    pub(super) fn new(publisher: &Publisher) -> Self {
        let Some(state) = publisher.state() else { return Self::default() };
        let snapshot = &state.snapshot;
        let ineffective = publisher.ineffective_policies();
        let proxies = || publisher.proxies();
        let views: BTreeMap<_, _> =
            proxies().map(|(.., published)| (published.view, &published.outbound)).collect();
        // A service port may have the same conflict in several views.
        let conflicts = views.values().flat_map(|outbound| outbound.conflicts());
        let (with_services, with_proxies) = conflicts
            .map(|it| (it.taken_by.is_some(), (&it.hostname, it.port)))
            .partition::<BTreeSet<_>, _>(|(with_service, _)| *with_service);
        Self {
            services: snapshot.services().count(),
            without_endpoints: snapshot
                .services()
                .map(|service| ports_without_endpoints(snapshot, service))
                .sum(),
            outbound_conflicts: with_services.len(),
            proxy_port_conflicts: with_proxies.len(),
            inbound_conflicts: proxies().map(|(.., published)| published.own.conflicts()).sum(),
            unknown_pods: proxies().filter(|(_, proxy, _)| !has_pod(snapshot, proxy)).count(),
            waiting_endpoints: waiting_endpoints(snapshot),
            closed_proxies: proxies().filter(|(.., it)| it.own.closed_by().is_some()).count(),
            ineffective_policies: Reason::NAMES
                .map(|name| ineffective.iter().filter(|it| it.reason.name() == name).count()),
        }
    }

    pub(super) fn set(self, gauges: &MeshGauges) {
        let Self {
            services,
            without_endpoints,
            outbound_conflicts,
            proxy_port_conflicts,
            inbound_conflicts,
            unknown_pods,
            waiting_endpoints,
            closed_proxies,
            ineffective_policies,
        } = self;
        let set = |gauge: &Gauge, number: usize| {
            gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
        };
        for (reason, number) in Reason::NAMES.into_iter().zip(ineffective_policies) {
            let gauge = gauges.ineffective_policies.get_or_create_owned(&ReasonLabel { reason });
            set(&gauge, number);
        }
        for (gauge, number) in [
            (&gauges.services, services),
            (&gauges.without_endpoints, without_endpoints),
            (&gauges.outbound_conflicts, outbound_conflicts),
            (&gauges.proxy_port_conflicts, proxy_port_conflicts),
            (&gauges.inbound_conflicts, inbound_conflicts),
            (&gauges.unknown_pods, unknown_pods),
            (&gauges.waiting_endpoints, waiting_endpoints),
            (&gauges.closed_proxies, closed_proxies),
        ] {
            set(gauge, number);
        }
    }
}

/// Number of the ports that are balanced among endpoints, and have none.
fn ports_without_endpoints(snapshot: &Snapshot, service: &Service) -> usize {
    if service.resolution != Resolution::ClientSide {
        return 0;
    }
    let ports = service.ports.iter().filter(|port| {
        let set = snapshot.endpoints(&service.hostname, port.number);
        let has_none = set.is_none_or(|it| it.endpoints.iter().all(is_waiting));
        port.protocol.class() != ProtocolClass::Udp && has_none
    });
    ports.count()
}

/// Number of the addresses of services whose pods are not known.
fn waiting_endpoints(snapshot: &Snapshot) -> usize {
    let waiting_of = |service: &Service| {
        let ports = service.ports.iter();
        let sets = ports.filter_map(|port| snapshot.endpoints(&service.hostname, port.number));
        let waiting = sets.flat_map(|set| &set.endpoints).filter(|it| is_waiting(it));
        waiting.map(|endpoint| endpoint.address).collect::<BTreeSet<_>>().len()
    };
    snapshot.services().map(|service| waiting_of(service)).sum()
}

fn is_waiting(endpoint: &Endpoint) -> bool {
    endpoint.health == Health::Waiting
}

/// True if a proxy's pod is known by its name or by an address.
fn has_pod(snapshot: &Snapshot, proxy: &ProxyView) -> bool {
    let has = |ip: &std::net::IpAddr| {
        snapshot.workload_at(*ip).is_some_and(|workload| workload.namespace == proxy.namespace)
    };
    snapshot.workload(&proxy.namespace, &proxy.pod).is_some() || proxy.addresses.iter().any(has)
}

#[cfg(test)]
mod tests {
    use mesh::mesh_config::MeshConfig;
    use pilot_registry::files::Directory;
    use pilot_registry::locality::Locality;
    use pilot_registry::manifest::ObjectDefaults;
    use pilot_routing::authorization_policy::{AuthorizationPolicy, Selection};
    use pilot_routing::peer_authentication::PeerAuthentication;
    use pilot_routing::view::MeshView;
    use serde_json::json;

    use super::*;
    use crate::publish::{Input, ProxyId};

    const OBJECTS: &str = "
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop},
 spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], selector: {app: web},
        ports: [{name: http, port: 80, targetPort: 8080}, {name: dns, port: 53, protocol: UDP}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: raw, namespace: shop},
 spec: {clusterIP: 10.96.0.2, clusterIPs: [10.96.0.2], selector: {app: web},
        ports: [{name: tcp, port: 90, targetPort: 8080}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: same, namespace: shop},
 spec: {clusterIP: 10.96.0.2, clusterIPs: [10.96.0.2], ports: [{name: tcp, port: 90}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: own, namespace: shop},
 spec: {clusterIP: 10.96.0.3, clusterIPs: [10.96.0.3], ports: [{name: http, port: 15021}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4,
 metadata: {name: own-1, namespace: shop, labels: {kubernetes.io/service-name: own}},
 ports: [{name: http, port: 15021}],
 endpoints: [{addresses: [10.0.0.7], targetRef: {kind: Pod, name: later, namespace: shop}}]}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4,
 metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}},
 ports: [{name: http, port: 8080}], endpoints: [{addresses: [10.0.0.1]}]}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: shop, labels: {app: web}},
 status: {phase: Running, podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}]}}
";

    #[test]
    fn conflicts_and_missing_parts_are_counted() {
        let mut publisher = Publisher::new();
        let files = BTreeMap::from([("objects.yaml".to_owned(), OBJECTS.as_bytes().to_vec())]);
        let update = Directory::new(ObjectDefaults::default()).update(&files);
        assert_eq!(update.warnings, [""; 0]);
        for event in update.events {
            publisher.apply(Input::Registry(Box::new(event)));
        }
        let policy = PeerAuthentication {
            namespace: "istio-system".into(),
            name: "web".into(),
            created: 1,
            selector: [("app", "web")].into_iter().collect(),
            mode: None,
            ports: BTreeMap::new(),
        };
        publisher.apply(Input::PeerAuthentications(vec![policy]));
        let closing = AuthorizationPolicy {
            namespace: "shop".into(),
            name: "deny".into(),
            selection: Selection::Labels([("app", "web")].into_iter().collect()),
        };
        publisher.apply(Input::AuthorizationPolicies(vec![closing]));
        publisher.apply(Input::Mesh(MeshView::new(&MeshConfig::parse("").unwrap()).unwrap()));
        publisher.publish();
        for (id, name, address) in [(0, "web-1", "10.0.0.1"), (1, "gone", "10.0.0.9")] {
            let node = format!("sidecar~{address}~{name}.shop~shop.svc.cluster.local");
            let metadata = json!({});
            let metadata = metadata.as_object().unwrap();
            let proxy = ProxyView::from_node(&node, Locality::default(), metadata).unwrap();
            publisher.connect(ProxyId(id), proxy);
        }
        let expected = MeshNumbers {
            services: 4,
            without_endpoints: 3,
            outbound_conflicts: 1,
            proxy_port_conflicts: 1,
            inbound_conflicts: 1,
            unknown_pods: 1,
            waiting_endpoints: 1,
            closed_proxies: 1,
            ineffective_policies: [1, 0, 0, 0],
        };
        assert_eq!(MeshNumbers::new(&publisher), expected);
    }
}
