//! Policy routing for TPROXY-marked packets.

use crate::types::family::Family;
use crate::types::mark::{Mark, RoutingTable};

/// Policy rule and route that deliver marked packets to this pod's sockets, for each family.
///
/// Both have [`TproxyRouting::PROTOCOL`], which identifies them if mark and table are unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TproxyRouting {
    /// The mark.
    pub mark: Mark,
    /// Table that contains only this route.
    pub table: RoutingTable,
    /// The families.
    pub families: Vec<Family>,
}

impl TproxyRouting {
    /// Priority of the policy rule; lower is earlier. It precedes the kernel's own rules. It is
    /// fixed, so the kernel rejects a duplicate rule.
    pub const PRIORITY: u32 = 15_006;
    /// Routing protocol `RTPROT_…` of rule and route: an unassigned number.
    pub const PROTOCOL: u8 = 136;
}
