//! Packets that are delivered here although their destination is elsewhere.

use crate::types::family::Family;
use crate::types::mark::{Mark, RoutingTable};

/// The policy rule and the route by which packets with a mark come to this pod's own sockets,
/// whatever their destination; the same for each family.
///
/// Both bear our [`TproxyRouting::PROTOCOL`], by which they are found again without knowing the
/// mark or the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TproxyRouting {
    /// The mark.
    pub mark: Mark,
    /// The table that has the route, and nothing else.
    pub table: RoutingTable,
    /// The families.
    pub families: Vec<Family>,
}

impl TproxyRouting {
    /// The place of the policy rule among others; lower is earlier. It is before the kernel's own,
    /// and one number, so that the kernel notices a second rule that says the same.
    pub const PRIORITY: u32 = 15_006;
    /// Who says that a rule or route exists: `RTPROT_…`, a number that nobody has been given.
    pub const PROTOCOL: u8 = 136;
}
