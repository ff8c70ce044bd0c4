//! Addresses of listeners.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Address that a listener binds; none switches it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress(Option<SocketAddr>);

impl ListenAddress {
    /// Address of a listener that is switched off.
    pub const OFF: Self = Self(None);

    /// All addresses of the host.
    pub const fn all(port: u16) -> Self {
        Self(Some(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)))
    }

    /// The loopback address.
    pub const fn loopback(port: u16) -> Self {
        Self(Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)))
    }

    /// The address; `None` if the listener is switched off.
    pub fn get(self) -> Option<SocketAddr> {
        self.0
    }
}

impl FromStr for ListenAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Ok(Self::OFF);
        }
        if let Some(port) = text.strip_prefix(':') {
            return port.parse().map(Self::all).map_err(|_| EXPECTED);
        }
        text.parse().map(|address| Self(Some(address))).map_err(|_| EXPECTED)
    }
}

impl Display for ListenAddress {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => Ok(()),
            Some(address) if address.ip() == Ipv6Addr::UNSPECIFIED => {
                write!(formatter, ":{}", address.port())
            }
            Some(address) => address.fmt(formatter),
        }
    }
}

const EXPECTED: &str = "expected IP:PORT, :PORT for all addresses, or an empty value for none";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_prints_as_it_was_parsed() {
        for text in ["", ":15012", "127.0.0.1:15010", "[::1]:15010"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        for text in ["15010", "localhost:15010", ":x", "1.2.3.4"] {
            assert_eq!(text.parse::<ListenAddress>(), Err(EXPECTED), "{text}");
        }
    }
}
