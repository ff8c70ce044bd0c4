//! Lookup of the outgoing interface in the kernel's route lists.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Content of `/proc/net/route` and `/proc/net/ipv6_route`, empty if they do not exist.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// `/proc/net/route`.
    pub v4: String,
    /// `/proc/net/ipv6_route`.
    pub v6: String,
}

impl Routes {
    /// Returns the interface of the longest matching prefix; `None` without a route.
    ///
    /// Ignores policy routing. Of equal prefixes, the first counts.
    pub fn interface(&self, address: IpAddr) -> Option<&str> {
        let routes: Vec<(u32, &str)> = match address {
            IpAddr::V4(v4) => self.v4.lines().filter_map(|line| route_v4(line, v4)).collect(),
            IpAddr::V6(v6) => self.v6.lines().filter_map(|line| route_v6(line, v6)).collect(),
        };
        let longest = routes.iter().map(|(length, _)| *length).max()?;
        routes.into_iter().find(|(length, _)| *length == longest).map(|(_, interface)| interface)
    }
}

/// Parses a line: interface, destination, gateway, flags, three counters, mask; numbers in host
/// byte order.
fn route_v4(line: &str, address: Ipv4Addr) -> Option<(u32, &str)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let number = |index: usize| u32::from_str_radix(fields.get(index)?, 16).ok();
    let (destination, mask, flags) = (number(1)?, number(7)?, number(3)?);
    let covers = u32::from_ne_bytes(address.octets()) & mask == destination;
    (covers && flags & UP != 0 && flags & REJECT == 0).then(|| (mask.count_ones(), fields[0]))
}

/// Parses a line: destination and length, source and length, next hop, metric, two counters, flags,
/// interface.
fn route_v6(line: &str, address: Ipv6Addr) -> Option<(u32, &str)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let destination = u128::from_str_radix(fields.first()?, 16).ok()?;
    let length = u32::from_str_radix(fields.get(1)?, 16).ok()?;
    let flags = u32::from_str_radix(fields.get(8)?, 16).ok()?;
    let mask = u128::MAX.checked_shl(128_u32.checked_sub(length)?).unwrap_or(0);
    let covers = u128::from(address) & mask == destination & mask;
    // The list has the routes of all tables, including local ones.
    (covers && flags & UP != 0 && flags & (REJECT | LOCAL) == 0)
        .then(|| Some((length, *fields.get(9)?)))?
}

/// `RTF_UP`.
const UP: u32 = 0x1;
/// `RTF_LOCAL`.
const LOCAL: u32 = 0x8000_0000;
/// `RTF_REJECT`.
const REJECT: u32 = 0x200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_prefix_selects_the_interface() {
        let routes = Routes {
            v4: "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                 eth0\t00000000\t014DA8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                 net1\t0063A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
                .to_owned(),
            v6: "fd990000000000000000000000000000 40 00000000000000000000000000000000 00 \
                 00000000000000000000000000000000 00000100 00000001 00000000 00000001 net1\n\
                 00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
                 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200 lo\n"
                .to_owned(),
        };
        let by = |text: &str| routes.interface(text.parse().unwrap());
        assert_eq!(by("10.1.2.3"), Some("eth0"));
        assert_eq!(by("192.168.99.7"), Some("net1"));
        assert_eq!(by("fd99::7"), Some("net1"));
        assert_eq!(by("2001:db8::1"), None);
    }
}
