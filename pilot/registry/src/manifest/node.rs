//! Nodes.

use serde::Deserialize;

use super::{InvalidObject, Manifest, Metadata, ObjectDefaults};
use crate::locality::Locality;
use crate::node::Node;

/// `Node` of Kubernetes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeManifest {
    metadata: Metadata,
}

impl Manifest for NodeManifest {
    type Object = Node;
    const KIND: &'static str = "Node";
    const API_VERSION: &'static str = "v1";
    const PLURAL: &'static str = "nodes";

    fn metadata(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    fn convert(self, _: &ObjectDefaults) -> Result<Option<Node>, InvalidObject> {
        let label = |key| self.metadata.label(key).cloned().unwrap_or_default();
        let locality = Locality {
            region: label("topology.kubernetes.io/region"),
            zone: label("topology.kubernetes.io/zone"),
            subzone: label("topology.istio.io/subzone"),
        };
        Ok(Some(Node { name: self.metadata.name(), locality }))
    }
}
