//! Nodes.

use std::sync::Arc;

use crate::locality::Locality;

/// Node, as far as it places workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name.
    pub name: Arc<str>,
    /// Place, by the labels `topology.kubernetes.io/region` and `/zone`, and
    /// `topology.istio.io/subzone`.
    pub locality: Locality,
}
