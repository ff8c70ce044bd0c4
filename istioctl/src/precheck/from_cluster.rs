//! Objects of Istio's kinds in a cluster.

use kube::Client;
use mesh::istio_kinds::{Access, GATEWAY_API, ISTIO_KINDS, IstioKind};

use super::lost_object::LostObject;
use crate::istio_objects;

/// Objects that lose their effect, and kinds that could not be listed.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) lost: Vec<LostObject>,
    pub(super) errors: Vec<anyhow::Error>,
}

impl Found {
    /// Lists the objects of a namespace, or of all, and those of the root namespace that apply to
    /// other namespaces.
    pub(super) async fn list(client: &Client, namespace: &str, root_namespace: &str) -> Self {
        let mut found = Self::default();
        for kind in ISTIO_KINDS.iter().filter(|kind| kind.read_by.is_none()) {
            let of = Some(namespace).filter(|name| !name.is_empty());
            found.add_kind(client, kind, of).await;
            if of.is_some_and(|name| name != root_namespace) && applies_from_root(kind) {
                found.add_kind(client, kind, Some(root_namespace)).await;
            }
        }
        found.lost.sort();
        found
    }

    async fn add_kind(&mut self, client: &Client, kind: &IstioKind, namespace: Option<&str>) {
        match istio_objects::list(client, kind, namespace).await {
            Ok(objects) => self.lost.extend(objects.iter().filter_map(LostObject::new)),
            Err(error) => {
                let place = namespace.unwrap_or("all namespaces");
                let listing = format!("listing {}.{} of {place}", kind.plural, kind.group);
                self.errors.push(anyhow::Error::from(error).context(listing));
            }
        }
    }
}

/// True for kinds whose objects in the root namespace apply to other namespaces.
pub(super) fn applies_from_root(kind: &IstioKind) -> bool {
    kind.group != GATEWAY_API
        && (kind.access == Access::Opens || ["Sidecar", "Telemetry"].contains(&kind.kind))
}
