//! Resources of a proxy's own workload.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use pilot_registry::protocol::ProtocolClass;
use pilot_registry::workload::InboundTarget;
use pilot_routing::envoy::clusters::Clusters;
use pilot_routing::envoy::context::{Context, Origin};
use pilot_routing::envoy::listeners::Listeners;
use pilot_routing::envoy::{Generator, names};
use pilot_routing::view::{Interception, ProxyView};
use pilot_xds::session::EncodedResource;

use super::{EncodedResources, MeshState};

/// Resources for inbound connections: few, and different for each workload.
#[derive(Clone, Debug, Default)]
pub struct OwnResources {
    pub(super) clusters: Vec<Arc<EncodedResource>>,
    pub(super) listeners: Vec<Arc<EncodedResource>>,
    addresses: Vec<IpAddr>,
    conflicts: usize,
    closed_by: Option<Origin>,
}

impl OwnResources {
    /// Generates the resources.
    pub fn new(state: &MeshState, proxy: &ProxyView, entries: &mut EncodedResources) -> Self {
        let context = state.context(proxy);
        let ports = context.inbound_ports().map(|target| names::inbound(target.port));
        let clusters: Vec<String> = ports.chain([names::INBOUND_PASSTHROUGH.to_owned()]).collect();
        Self {
            clusters: generate::<Clusters>(&context, &clusters, entries),
            listeners: generate::<Listeners>(
                &context,
                &[names::VIRTUAL_INBOUND.to_owned()],
                entries,
            ),
            // Without capture the view is the proxy's own.
            addresses: match proxy.interception {
                Interception::None => Vec::new(),
                Interception::Redirect | Interception::Tproxy => proxy.addresses.clone(),
            },
            conflicts: conflicts(context.targets()),
            closed_by: context.closed_by().cloned(),
        }
    }

    /// Number of the ports that services declare with different protocols.
    pub fn conflicts(&self) -> usize {
        self.conflicts
    }

    /// Policy by which the workload takes no connection, since it is not enforced.
    pub fn closed_by(&self) -> Option<&Origin> {
        self.closed_by.as_ref()
    }

    /// True for an outbound listener at an address of the proxy itself: a pod of a headless
    /// service has none for its own address.
    pub(super) fn hides_listener(&self, name: &str) -> bool {
        let address = name.rsplit_once('_').and_then(|(address, _)| address.parse().ok());
        address.is_some_and(|address| self.addresses.contains(&address))
    }

    /// True if both have the same resources.
    pub fn is_same(&self, other: &Self) -> bool {
        let is_same = |left: &[Arc<EncodedResource>], right: &[Arc<EncodedResource>]| {
            left.len() == right.len() && left.iter().zip(right).all(|(l, r)| Arc::ptr_eq(l, r))
        };
        is_same(&self.clusters, &other.clusters)
            && is_same(&self.listeners, &other.listeners)
            && self.addresses == other.addresses
            && self.conflicts == other.conflicts
            && self.closed_by == other.closed_by
    }
}

/// True if the name is one of a workload's own resources.
pub(super) fn is_own(name: &str) -> bool {
    name == names::VIRTUAL_INBOUND
        || name == names::INBOUND_PASSTHROUGH
        || names::parse_inbound(name).is_some()
}

/// Number of the ports that services declare with different protocols. The targets of a port are
/// neighbours.
fn conflicts(targets: &[InboundTarget]) -> usize {
    let ports = targets.chunk_by(|left, right| left.port == right.port);
    let is_conflict = |targets: &&[InboundTarget]| {
        let classes = targets.iter().map(|target| target.service_port.protocol.class());
        let classes: BTreeSet<_> = classes.filter(|it| *it != ProtocolClass::Udp).collect();
        classes.len() > 1
    };
    ports.filter(is_conflict).count()
}

fn generate<G: Generator>(
    context: &Context<'_>,
    names: &[String],
    entries: &mut EncodedResources,
) -> Vec<Arc<EncodedResource>> {
    let found = names.iter().filter_map(|name| {
        let inputs = G::inputs(context, name)?;
        Some(entries.get::<G>(name, &inputs))
    });
    found.collect()
}
