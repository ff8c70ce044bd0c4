//! Numbers of the published state for metrics.

use std::collections::BTreeSet;

use pilot_registry::protocol::ProtocolClass;
use pilot_registry::service::{Resolution, Service};
use pilot_registry::snapshot::Snapshot;
use pilot_routing::view::ProxyView;

use crate::metrics::MeshGauges;
use crate::publish::Publisher;

/// Numbers of the published state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MeshNumbers {
    services: usize,
    without_endpoints: usize,
    outbound_conflicts: usize,
    inbound_conflicts: usize,
    unknown_pods: usize,
}

impl MeshNumbers {
    pub(super) fn new(publisher: &Publisher) -> Self {
        let Some(state) = publisher.state() else { return Self::default() };
        let snapshot = &state.snapshot;
        let proxies = || publisher.proxies();
        let conflicts = proxies().flat_map(|(.., published)| published.outbound.conflicts());
        Self {
            services: snapshot.services().count(),
            without_endpoints: snapshot
                .services()
                .map(|service| ports_without_endpoints(snapshot, service))
                .sum(),
            outbound_conflicts: conflicts.collect::<BTreeSet<_>>().len(),
            inbound_conflicts: proxies().map(|(.., published)| published.own.conflicts()).sum(),
            unknown_pods: proxies().filter(|(_, proxy, _)| !has_pod(snapshot, proxy)).count(),
        }
    }

    pub(super) fn set(self, gauges: &MeshGauges) {
        let Self {
            services,
            without_endpoints,
            outbound_conflicts,
            inbound_conflicts,
            unknown_pods,
        } = self;
        for (gauge, number) in [
            (&gauges.services, services),
            (&gauges.without_endpoints, without_endpoints),
            (&gauges.outbound_conflicts, outbound_conflicts),
            (&gauges.inbound_conflicts, inbound_conflicts),
            (&gauges.unknown_pods, unknown_pods),
        ] {
            gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
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
        port.protocol.class() != ProtocolClass::Udp && set.is_none_or(|it| it.endpoints.is_empty())
    });
    ports.count()
}

/// True if a proxy's pod is known by its name or by an address.
fn has_pod(snapshot: &Snapshot, proxy: &ProxyView) -> bool {
    let has = |ip: &std::net::IpAddr| {
        snapshot.workload_at(*ip).is_some_and(|workload| workload.namespace == proxy.namespace)
    };
    snapshot.workload(&proxy.namespace, &proxy.pod).is_some() || proxy.addresses.iter().any(has)
}
