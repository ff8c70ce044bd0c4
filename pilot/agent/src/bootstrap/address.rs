//! Addresses in the bootstrap, by the families of the pod.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

/// Address families of the pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Families {
    Ipv4,
    Ipv6,
    /// Both; the first address of the pod is IPv4.
    Ipv4First,
    /// Both; the first address of the pod is IPv6.
    Ipv6First,
}

impl Families {
    /// Returns the families of these addresses.
    pub(super) fn new(addresses: &[IpAddr]) -> Self {
        let both = addresses.iter().any(IpAddr::is_ipv4) && addresses.iter().any(IpAddr::is_ipv6);
        match (addresses.first(), both) {
            (Some(IpAddr::V6(_)), true) => Self::Ipv6First,
            (Some(IpAddr::V6(_)), false) => Self::Ipv6,
            (_, true) => Self::Ipv4First,
            (_, false) => Self::Ipv4,
        }
    }

    /// Returns the loopback address of the first family.
    pub(super) fn loopback(self) -> IpAddr {
        self.loopbacks()[0]
    }

    /// Returns the loopback addresses: the first family, then the other.
    pub(super) fn loopbacks(self) -> Vec<IpAddr> {
        self.pick(Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST)
    }

    /// Returns the addresses that stand for all: the first family, then the other.
    pub(super) fn wildcards(self) -> Vec<IpAddr> {
        self.pick(Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED)
    }

    fn pick(self, ipv4: Ipv4Addr, ipv6: Ipv6Addr) -> Vec<IpAddr> {
        match self {
            Self::Ipv4 => vec![ipv4.into()],
            Self::Ipv6 => vec![ipv6.into()],
            Self::Ipv4First => vec![ipv4.into(), ipv6.into()],
            Self::Ipv6First => vec![ipv6.into(), ipv4.into()],
        }
    }

    /// Returns the addresses that DNS clusters look up.
    pub(super) fn dns_lookup(self) -> &'static str {
        match self {
            Self::Ipv4 => "V4_ONLY",
            Self::Ipv6 => "V6_ONLY",
            Self::Ipv4First | Self::Ipv6First => "ALL",
        }
    }

    /// Returns the value of Envoy's flag `--local-address-ip-version`.
    pub(super) fn local_version(self) -> &'static str {
        match self {
            Self::Ipv4 | Self::Ipv4First => "v4",
            Self::Ipv6 | Self::Ipv6First => "v6",
        }
    }
}

/// Returns a TCP address.
pub(super) fn socket(host: &impl ToString, port: u16) -> Value {
    json!({ "socket_address": { "address": host.to_string(), "port_value": port } })
}

/// Returns the address of a Unix socket.
pub(super) fn pipe(path: &std::path::Path) -> Value {
    json!({ "pipe": { "path": path.display().to_string() } })
}
