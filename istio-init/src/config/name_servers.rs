//! The name servers of a resolver's configuration.

use std::net::IpAddr;

/// Returns the servers in `/etc/resolv.conf`, in order and without duplicates. As resolvers do,
/// ignores invalid lines (resolv.conf(5)).
pub(super) fn read(text: &str) -> Vec<IpAddr> {
    let mut servers = Vec::new();
    for line in text.lines() {
        // A comment begins in the first column, or after the values.
        let line = line.split(['#', ';']).next().unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        if words.next() != Some("nameserver") {
            continue;
        }
        // An address may have an interface suffix.
        let address = words.next().and_then(|word| word.split('%').next());
        match address.and_then(|address| address.parse::<IpAddr>().ok()) {
            Some(address) if !servers.contains(&address.to_canonical()) => {
                servers.push(address.to_canonical());
            }
            _ => {}
        }
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_are_parsed_as_resolvers_do() {
        let text = "# nameserver 1.1.1.1\nsearch a.b\nnameserver 10.0.0.10\n\
                    nameserver\t fd00::a%eth0 # the second\nnameserver 10.0.0.10\n\
                    nameserver\nnameserver name\nnameservers 9.9.9.9\noptions ndots:5\n";
        let servers: Vec<String> = read(text).iter().map(IpAddr::to_string).collect();
        assert_eq!(servers, ["10.0.0.10", "fd00::a"]);
    }
}
