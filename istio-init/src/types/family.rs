//! Address families.

use std::fmt;
use std::net::IpAddr;

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Returns the family of an address.
    pub fn from_address(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// Returns the address with these bits.
    pub fn address_of(self, bits: u128) -> IpAddr {
        match self {
            Self::V4 => {
                let [.., a, b, c, d] = bits.to_be_bytes();
                [a, b, c, d].into()
            }
            Self::V6 => bits.to_be_bytes().into(),
        }
    }

    /// Returns the bits of an address.
    pub fn bits_of(address: IpAddr) -> u128 {
        match address {
            IpAddr::V4(v4) => v4.to_bits().into(),
            IpAddr::V6(v6) => v6.to_bits(),
        }
    }

    /// Returns the number of bits of an address.
    pub fn address_bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}
