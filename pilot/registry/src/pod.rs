//! Pods.

use crate::event::ObjectKey;
use crate::locality::Locality;
use crate::workload::Workload;

/// Pod, from which a workload is derived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// The workload; its locality is a default until the node is known.
    pub workload: Workload,
    /// Place by the pod's label `istio-locality`, which stands before the node's.
    pub own_locality: Option<Locality>,
    /// Seconds since 1970 at which the pod was created. The youngest of several pods with an
    /// address owns it.
    pub created: i64,
    /// True if the pod has ended (phase `Succeeded` or `Failed`); its addresses are free.
    pub is_finished: bool,
}

impl Pod {
    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::new(self.workload.namespace.clone(), self.workload.name.clone())
    }
}
