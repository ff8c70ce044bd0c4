//! Source addresses of connections from the proxy to the pod, which capture lets through.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4's address.
pub const PASSTHROUGH_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 6));
/// IPv6's address.
pub const PASSTHROUGH_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 6));

/// True for a connection that the proxy passes on. Its client may be anyone.
pub fn is_passthrough(address: IpAddr) -> bool {
    [PASSTHROUGH_V4, PASSTHROUGH_V6].contains(&address)
}
