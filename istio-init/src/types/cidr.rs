//! Address ranges.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::family::Family;
use super::input_error::ValueError;

/// Address range in CIDR notation. Host bits are kept as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    address: IpAddr,
    length: u8,
}

impl Cidr {
    /// Creates the range of a single address.
    pub fn host(address: IpAddr) -> Self {
        Self { address, length: Family::from_address(address).address_bits() }
    }

    /// Returns the fewest ranges that cover the addresses from first to last; empty if the families
    /// differ or the order is wrong.
    pub fn covering(first: IpAddr, last: IpAddr) -> Vec<Self> {
        let family = Family::from_address(first);
        let bits = u32::from(family.address_bits());
        let (mut from, to) = (Family::bits_of(first), Family::bits_of(last));
        let mut ranges = Vec::new();
        if family != Family::from_address(last) || from > to {
            return ranges;
        }
        loop {
            let end = |host_bits| from | 1_u128.checked_shl(host_bits).map_or(u128::MAX, |n| n - 1);
            let mut host_bits = from.trailing_zeros().min(bits);
            while end(host_bits) > to {
                host_bits -= 1;
            }
            let length = u8::try_from(bits - host_bits).unwrap_or(family.address_bits());
            ranges.push(Self { address: family.address_of(from), length });
            if end(host_bits) >= to {
                return ranges;
            }
            from = end(host_bits) + 1;
        }
    }

    /// Returns the first and the last address of the range.
    pub fn ends(self) -> (IpAddr, IpAddr) {
        let family = self.family();
        let host_bits = u32::from(family.address_bits() - self.length);
        let hosts = 1_u128.checked_shl(host_bits).map_or(u128::MAX, |n| n - 1);
        let bits = Family::bits_of(self.address);
        (family.address_of(bits & !hosts), family.address_of(bits | hosts))
    }

    /// Returns the address as typed, host bits included.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Returns the number of leading bits that count.
    pub fn length(self) -> u8 {
        self.length
    }

    /// Returns the address family of the range.
    pub fn family(self) -> Family {
        Family::from_address(self.address)
    }

    /// Returns the range's first address in network order: 4 or 16 bytes.
    pub fn network(self) -> Vec<u8> {
        let address = match self.address {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        address.iter().zip(self.mask()).map(|(byte, mask)| byte & mask).collect()
    }

    /// Returns the mask of the bits that count, in network order.
    pub fn mask(self) -> Vec<u8> {
        let bytes = usize::from(self.family().address_bits()) / 8;
        (0..bytes)
            .map(|index| {
                let ones = usize::from(self.length).saturating_sub(index * 8).min(8);
                // The high `ones` bits of a byte; a shift by 8 would overflow, so widen first.
                (0xff00_u16 >> ones).to_be_bytes()[1]
            })
            .collect()
    }

    /// True if the range contains the address; false for another family.
    pub fn contains(self, address: IpAddr) -> bool {
        Family::from_address(address) == self.family()
            && Self { address, ..self }.network() == self.network()
    }
}

/// Parses what Go's `netip.ParsePrefix` accepts: address, slash, length; no blanks.
impl FromStr for Cidr {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text == "*" {
            let error = ValueError::new("cannot be combined with other elements");
            return Err(error.hint("`*` means all addresses and cannot be an element of a list"));
        }
        let not_a_range = || ValueError::new("is not an address range");
        let Some((address, length)) = text.split_once('/') else {
            let error = ValueError::new("is not an address range: it has no prefix length");
            return Err(match text.parse::<IpAddr>() {
                Ok(address) => error.hint(format!("write {}", Self::host(address))),
                Err(_) => error.hint("write it as 10.0.0.0/8 or fd00::/8"),
            });
        };
        let address: IpAddr = address.parse().map_err(|_| {
            let hint = if text.trim() == text {
                "write it as 10.0.0.0/8 or fd00::/8"
            } else {
                "remove the blanks"
            };
            not_a_range().hint(hint)
        })?;
        let most = Family::from_address(address).address_bits();
        let is_plain = length.bytes().all(|byte| byte.is_ascii_digit())
            && (length.len() == 1 || !length.starts_with('0'));
        match length.parse() {
            Ok(length) if is_plain && length <= most => Ok(Self { address, length }),
            _ => Err(not_a_range().hint(format!("use a prefix length from 0 to {most}"))),
        }
    }
}

/// Writes the range without host bits.
impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let network = self.network();
        let address = match <[u8; 4]>::try_from(network.as_slice()) {
            Ok(v4) => IpAddr::from(v4),
            Err(_) => <[u8; 16]>::try_from(network.as_slice()).map_or(self.address, IpAddr::from),
        };
        write!(f, "{address}/{}", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn host_bits_are_allowed_and_masked() {
        assert_eq!(cidr("10.1.2.3/8").to_string(), "10.0.0.0/8");
        assert_eq!(cidr("10.1.2.3/8").address().to_string(), "10.1.2.3");
        assert_eq!(cidr("fd00:ffff:8001::1/33").to_string(), "fd00:ffff:8000::/33");
        assert_eq!(cidr("1.2.3.4/0").mask(), [0; 4]);
        assert_eq!(cidr("1.2.3.4/32").mask(), [255; 4]);
        assert_eq!(cidr("1.2.3.4/9").mask(), [255, 128, 0, 0]);
    }

    #[test]
    fn range_contains_only_its_own_family() {
        assert!(cidr("0.0.0.0/0").contains("8.8.8.8".parse().unwrap()));
        assert!(!cidr("0.0.0.0/0").contains("::1".parse().unwrap()));
        assert!(!cidr("10.0.0.0/9").contains("10.128.0.0".parse().unwrap()));
    }

    #[test]
    fn covering_ranges_span_first_to_last_address() {
        let covering = |first: &str, last: &str| {
            let ranges = Cidr::covering(first.parse().unwrap(), last.parse().unwrap());
            ranges.iter().map(Cidr::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(covering("10.0.0.0", "10.255.255.255"), "10.0.0.0/8");
        assert_eq!(covering("10.0.0.1", "10.0.0.4"), "10.0.0.1/32 10.0.0.2/31 10.0.0.4/32");
        assert_eq!(covering("0.0.0.0", "255.255.255.255"), "0.0.0.0/0");
        assert_eq!(covering("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), "::/0");
        assert_eq!(covering("::1", "::1"), "::1/128");
        assert_eq!(covering("10.0.0.2", "10.0.0.1"), "");
        assert_eq!(covering("10.0.0.2", "::1"), "");
        for text in ["10.1.2.3/8", "0.0.0.0/0", "::/0", "fd00::1/33", "1.2.3.4/32"] {
            let (first, last) = cidr(text).ends();
            assert_eq!(covering(&first.to_string(), &last.to_string()), cidr(text).to_string());
        }
    }

    #[test]
    fn ranges_that_go_rejects_are_rejected() {
        for text in
            ["", "*", "10.0.0.1", " 10.0.0.0/8", "10.0.0.0/33", "10.0.0.0/08", "10.0.0.0/+8", "/8"]
        {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
        let error = "10.0.0.1".parse::<Cidr>().unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("write 10.0.0.1/32"));
    }
}
