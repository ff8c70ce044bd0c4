//! Resources of a proxy's own workload.

use std::net::IpAddr;
use std::sync::Arc;

use pilot_routing::envoy::clusters::Clusters;
use pilot_routing::envoy::context::Context;
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
}

impl OwnResources {
    /// Generates the resources.
    pub fn new(state: &MeshState, proxy: &ProxyView, entries: &mut EncodedResources) -> Self {
        let context = Context::new(&state.snapshot, &state.mesh, &state.policies, proxy);
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
        }
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
    }
}

/// True if the name is one of a workload's own resources.
pub(super) fn is_own(name: &str) -> bool {
    name == names::VIRTUAL_INBOUND
        || name == names::INBOUND_PASSTHROUGH
        || names::parse_inbound(name).is_some()
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
