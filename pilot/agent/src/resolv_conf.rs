//! `/etc/resolv.conf`.

use std::net::{IpAddr, SocketAddr};

/// Parsed `/etc/resolv.conf`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ResolvConf {
    /// Name servers.
    pub servers: Vec<NameServer>,
    /// Search domains in lower case, without a dot at their end.
    pub search: Vec<String>,
}

/// Name server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NameServer {
    /// Its address.
    pub address: IpAddr,
    /// Interface of a link-local address: `eth0` of `fe80::1%eth0`.
    pub scope: Option<String>,
}

impl ResolvConf {
    /// Parses the text. Like the C library, it ignores invalid lines, and the last `search` or
    /// `domain` counts.
    pub fn parse(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("nameserver") => {
                    found.servers.extend(words.next().and_then(NameServer::parse));
                }
                Some("search") => found.search = words.filter_map(domain).collect(),
                Some("domain") => {
                    found.search = words.next().and_then(domain).into_iter().collect();
                }
                _ => {}
            }
        }
        found
    }
}

impl NameServer {
    /// True if the server is this program, which listens on these addresses. Forwarding to it
    /// would never end.
    pub fn is_own(&self, listening: &[SocketAddr]) -> bool {
        listening.iter().filter(|own| own.port() == PORT).any(|own| {
            own.ip() == self.address || own.ip().is_unspecified() && self.address.is_loopback()
        })
    }

    fn parse(word: &str) -> Option<Self> {
        let (address, scope) = match word.split_once('%') {
            Some((address, scope)) => (address, Some(scope.to_owned())),
            None => (word, None),
        };
        address.parse().ok().map(|address| Self { address, scope })
    }
}

fn domain(word: &str) -> Option<String> {
    let domain = word.trim_end_matches('.').to_ascii_lowercase();
    (!domain.is_empty()).then_some(domain)
}

/// Port of name servers.
pub const PORT: u16 = 53;

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(text: &str) -> Vec<(String, Option<String>)> {
        let servers = ResolvConf::parse(text).servers;
        servers.into_iter().map(|server| (server.address.to_string(), server.scope)).collect()
    }

    #[test]
    fn name_servers_of_both_families_with_scopes() {
        let text = "# comment\n; nameserver 192.0.2.9\nnameserver 10.96.0.10\n\
                    nameserver\tfe80::1%eth0 # link\n nameserver fd00::a\r\nnameserver nonsense\n\
                    nameserver\nnameservers 192.0.2.8\noptions ndots:5 timeout:1\n";
        let expected = [("10.96.0.10", None), ("fe80::1", Some("eth0")), ("fd00::a", None)];
        let expected = expected.map(|(ip, scope)| (ip.to_owned(), scope.map(str::to_owned)));
        assert_eq!(servers(text), expected);
    }

    #[test]
    fn last_search_or_domain_counts() {
        for (text, expected) in [
            ("", &[][..]),
            (
                "search Shop.svc.cluster.local. svc.cluster.local\n",
                &["shop.svc.cluster.local", "svc.cluster.local"],
            ),
            ("search a b\nsearch c\n", &["c"]),
            ("search a b\ndomain c d\n", &["c"]),
            ("domain c\nsearch . a\n", &["a"]),
            ("search a\nsearch\n", &[]),
        ] {
            assert_eq!(ResolvConf::parse(text).search, expected, "{text}");
        }
    }

    #[test]
    fn own_address_is_no_name_server() {
        for (server, own, expected) in [
            ("127.0.0.1", "127.0.0.1:53", true),
            ("127.0.0.1", "127.0.0.1:15053", false),
            ("127.0.0.53", "127.0.0.1:53", false),
            ("127.0.0.53", "0.0.0.0:53", true),
            ("::1", "[::]:53", true),
            ("10.96.0.10", "0.0.0.0:53", false),
        ] {
            let server = NameServer { address: server.parse().unwrap(), scope: None };
            assert_eq!(server.is_own(&[own.parse().unwrap()]), expected, "{server:?} {own}");
        }
    }
}
