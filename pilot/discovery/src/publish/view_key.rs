//! Key of a view: proxies with equal keys have equal outbound resources.

use pilot_registry::labels::Labels;
use pilot_registry::locality::Locality;
use pilot_registry::service::{Service, TrafficDistribution};
use pilot_registry::snapshot::Snapshot;
use pilot_registry::workload::InboundTarget;
use pilot_routing::view::{Interception, ProxyView};

use crate::resources::MeshState;

/// Key of a view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ViewKey {
    /// A proxy that stands for all of the view. Without its own identity and addresses; listeners
    /// at its own addresses are hidden from the proxy that has them.
    pub(super) proxy: ProxyView,
    /// Ports of the application, which are not bound for other hosts.
    targets: Vec<InboundTarget>,
}

impl ViewKey {
    /// Key of a proxy. `by_place` is true if some service prefers near endpoints.
    pub(super) fn new(state: &MeshState, proxy: &ProxyView, by_place: bool) -> Self {
        if proxy.interception == Interception::None {
            let context = state.context(proxy);
            let targets = context.targets().to_vec();
            return Self { proxy: proxy.clone(), targets };
        }
        let mut proxy = ProxyView {
            pod: "".into(),
            service_account: "".into(),
            labels: Labels::default(),
            addresses: proxy.families().unspecified(),
            inspects_by_method: false,
            ..proxy.clone()
        };
        if !by_place {
            (proxy.locality, proxy.node) = (Locality::default(), "".into());
        }
        Self { proxy, targets: Vec::new() }
    }
}

/// True if the endpoints of some service depend on the place of the client.
pub(super) fn is_by_place(snapshot: &Snapshot) -> bool {
    let prefers =
        |service: &Service| service.node_local || service.distribution != TrafficDistribution::Any;
    snapshot.services().any(|service| prefers(service))
}
