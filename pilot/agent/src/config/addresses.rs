//! Addresses of the pod's network interfaces.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the addresses of the interfaces, from the text of `/proc/net/fib_trie` and
/// `/proc/net/if_inet6`, IPv4 first. Loopback and link-local addresses are left out.
pub(super) fn of_interfaces(fib_trie: &str, if_inet6: &str) -> Vec<IpAddr> {
    let ipv4: BTreeSet<_> =
        local_ipv4(fib_trie).filter(|address| is_routable_ipv4(*address)).collect();
    let ipv6: BTreeSet<_> = if_inet6.lines().filter_map(ipv6).collect();
    ipv4.into_iter().map(IpAddr::V4).chain(ipv6.into_iter().map(IpAddr::V6)).collect()
}

/// Returns the addresses that the kernel lists as local. Each stands on the line before its type:
/// `|-- 10.0.0.5`, then `/32 host LOCAL`.
fn local_ipv4(fib_trie: &str) -> impl Iterator<Item = Ipv4Addr> {
    let lines = fib_trie.lines().zip(fib_trie.lines().skip(1));
    lines.filter_map(|(address, kind)| {
        let address = address.trim_start().strip_prefix("|-- ")?;
        kind.trim_start().starts_with("/32 host LOCAL").then(|| address.trim().parse().ok())?
    })
}

fn is_routable_ipv4(address: Ipv4Addr) -> bool {
    !address.is_loopback() && !address.is_link_local()
}

/// Parses a line: 32 hexadecimal digits, index, prefix length, scope, flags, interface.
fn ipv6(line: &str) -> Option<Ipv6Addr> {
    const GLOBAL: &str = "00";
    let mut columns = line.split_whitespace();
    let address = u128::from_str_radix(columns.next()?, 16).ok()?;
    let scope = columns.nth(2)?;
    (scope == GLOBAL).then(|| Ipv6Addr::from_bits(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_interfaces_are_listed() {
        let fib_trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n\
            \x20    |-- 0.0.0.0\n        /0 universe UNICAST\n\
            \x20    |-- 10.244.1.0\n        /24 link UNICAST\n\
            \x20    |-- 10.244.1.7\n        /32 host LOCAL\n\
            \x20    |-- 10.244.1.255\n        /32 link BROADCAST\n\
            \x20    |-- 127.0.0.1\n        /32 host LOCAL\n\
            Local:\n     |-- 10.244.1.7\n        /32 host LOCAL\n\
            \x20    |-- 169.254.1.1\n        /32 host LOCAL\n";
        let if_inet6 = "fd000000000000000000000000000007 02 40 00 80     eth0\n\
            fe800000000000000000000000000001 02 40 20 80     eth0\n\
            00000000000000000000000000000001 01 80 10 80       lo\n";
        let expected: [IpAddr; 2] = ["10.244.1.7".parse().unwrap(), "fd00::7".parse().unwrap()];
        assert_eq!(of_interfaces(fib_trie, if_inet6), expected);
        assert!(of_interfaces("", "").is_empty());
    }
}
