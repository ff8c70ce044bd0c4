//! Places of workloads and proxies.

use std::sync::Arc;

/// Region, zone and subzone, each possibly empty. Order and meaning are Envoy's.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Locality {
    /// Region, `topology.kubernetes.io/region`.
    pub region: Arc<str>,
    /// Zone within the region, `topology.kubernetes.io/zone`.
    pub zone: Arc<str>,
    /// Subzone, `topology.istio.io/subzone`.
    pub subzone: Arc<str>,
}
