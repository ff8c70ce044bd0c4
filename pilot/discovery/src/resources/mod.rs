//! Generated resources, shared by the proxies whose views are equal.

mod encoded;
mod outbound;
mod own;
mod published;
mod table;

pub use encoded::EncodedResources;
pub use outbound::Outbound;
pub use own::OwnResources;
pub use published::Published;
pub use table::Table;

use std::sync::Arc;

use pilot_registry::snapshot::Snapshot;
use pilot_routing::authorization_policy::AuthorizationPolicies;
use pilot_routing::envoy::context::Context;
use pilot_routing::peer_authentication::PeerAuthentications;
use pilot_routing::view::{MeshView, ProxyView};

/// State of the mesh that configuration is generated from.
#[derive(Clone, Debug)]
pub struct MeshState {
    /// Services and workloads.
    pub snapshot: Snapshot,
    /// Settings.
    pub mesh: Arc<MeshView>,
    /// Policies of mutual TLS.
    pub policies: Arc<PeerAuthentications>,
    /// Policies about callers that are not enforced.
    pub authorization: Arc<AuthorizationPolicies>,
}

impl MeshState {
    /// The mesh as one proxy sees it.
    pub fn context<'a>(&'a self, proxy: &'a ProxyView) -> Context<'a> {
        Context::new(&self.snapshot, &self.mesh, &self.policies, &self.authorization, proxy)
    }
}
