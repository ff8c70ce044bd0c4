//! Ports and ranges of ports.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use super::input_error::ValueError;

/// A port that a program can listen on: 1 to 65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(NonZeroU16);

/// Inclusive range of ports from 0 to 65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl Port {
    /// Istio's port of the tunnel listener.
    pub const TUNNEL: Self = Self(NonZeroU16::new(15008).unwrap());

    /// Istio's port of the DNS proxy.
    pub const DNS_PROXY: Self = Self(NonZeroU16::new(15053).unwrap());

    /// Returns the number.
    pub fn get(self) -> u16 {
        self.0.get()
    }
}

impl PortRange {
    /// Returns the lowest port of the range.
    pub fn first(self) -> u16 {
        self.first
    }

    /// Returns the highest port of the range.
    pub fn last(self) -> u16 {
        self.last
    }

    /// True if the range contains the port.
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl FromStr for Port {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let port = number(text).ok().and_then(NonZeroU16::new);
        let error = || ValueError::new("is not a port to listen on").hint("use 1 to 65535");
        port.map(Self).ok_or_else(error)
    }
}

/// Parses `80`, `8000:9000` or `8000-9000`. Ignores surrounding blanks: the injector passes
/// annotations such as `80, 443` unchanged.
impl FromStr for PortRange {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let text = text.trim();
        if text == "*" {
            let error = ValueError::new("cannot be combined with other elements");
            return Err(error.hint("`*` means all ports and cannot be an element of a list"));
        }
        let Some((first, last)) = text.split_once([':', '-']) else {
            return number(text).map(Self::from);
        };
        let range = Self { first: number(first)?, last: number(last)? };
        if range.first > range.last {
            return Err(ValueError::new("is a port range that ends before it begins"));
        }
        Ok(range)
    }
}

impl From<Port> for PortRange {
    fn from(port: Port) -> Self {
        Self::from(port.get())
    }
}

impl From<u16> for PortRange {
    fn from(port: u16) -> Self {
        Self { first: port, last: port }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Writes nftables' syntax: `80` or `8000-9000`.
impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        if self.first == self.last { Ok(()) } else { write!(f, "-{}", self.last) }
    }
}

fn number(text: &str) -> Result<u16, ValueError> {
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_decimal {
        let error = ValueError::new("is not a port");
        return Err(error.hint("use a number from 0 to 65535, or a range such as 8000-9000"));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(ValueError::new("has a leading zero").hint("omit it: iptables reads octal"));
    }
    text.parse().map_err(|_| ValueError::new("is not a port").hint("use a number up to 65535"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_ranges_accept_colon_and_dash() {
        for text in ["8000:9000", "8000-9000", " 8000:9000 "] {
            assert_eq!(text.parse::<PortRange>().unwrap().to_string(), "8000-9000");
        }
        assert_eq!(" 80".parse::<PortRange>().unwrap(), PortRange::from(80));
        assert!("0".parse::<PortRange>().unwrap().contains(0));
    }

    #[test]
    fn invalid_ports_are_rejected() {
        for text in ["", "*", "80-", ":80", "65536", "+80", "0x50", "010", "90-80", "http", "-1"] {
            assert!(text.parse::<PortRange>().is_err(), "{text}");
        }
        for text in ["", "0", " 80", "80:81"] {
            assert!(text.parse::<Port>().is_err(), "{text}");
        }
    }
}
