//! Packet marks and routing tables.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use super::input_error::ValueError;

/// Packet mark within this network namespace; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark(NonZeroU32);

/// Number of a routing table other than the kernel's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutingTable(NonZeroU32);

impl Mark {
    /// Mark of the proxy's calls to its own pod. Only rules set and match it; Istio's proxy does
    /// not know it.
    pub const OUTBOUND: Self = Self(NonZeroU32::new(1338).unwrap());

    /// Creates a mark from the kernel's number; `None` for 0.
    pub fn from_number(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }

    /// Returns the number.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

impl RoutingTable {
    /// Returns the number.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

/// Parses a decimal number, as Istio does.
impl FromStr for Mark {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let mark = number(text).ok_or_else(|| {
            ValueError::new("is not a packet mark")
                .hint("use a decimal number from 1 to 4294967295")
        })?;
        if Self(mark) == Self::OUTBOUND {
            let error = ValueError::new("is reserved for the proxy's calls to its own pod");
            return Err(error.hint("use any other mark; Istio's is 1337"));
        }
        Ok(Self(mark))
    }
}

/// Parses a decimal number, as Istio does.
impl FromStr for RoutingTable {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let table = number(text).ok_or_else(|| {
            ValueError::new("is not a routing table")
                .hint("use a decimal number from 1 to 4294967295")
        })?;
        if KERNELS_TABLES.contains(&table.get()) {
            let error = ValueError::new("is one of the kernel's own routing tables");
            return Err(error.hint("use an unused table; Istio's is 133"));
        }
        Ok(Self(table))
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for RoutingTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn number(text: &str) -> Option<NonZeroU32> {
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_decimal)
}

/// `RT_TABLE_DEFAULT`, `RT_TABLE_MAIN`, `RT_TABLE_LOCAL`.
const KERNELS_TABLES: [u32; 3] = [253, 254, 255];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_tables_are_decimal_numbers() {
        assert_eq!("1337".parse::<Mark>().unwrap().get(), 1337);
        assert_eq!("133".parse::<RoutingTable>().unwrap().get(), 133);
        for text in ["", "0", "-1", "+1", "0x539", " 1", "4294967296", "1337/0xff"] {
            assert!(text.parse::<Mark>().is_err(), "{text}");
            assert!(text.parse::<RoutingTable>().is_err(), "{text}");
        }
    }

    #[test]
    fn reserved_marks_and_tables_are_rejected() {
        assert!("1338".parse::<Mark>().is_err());
        for text in ["253", "254", "255"] {
            assert!(text.parse::<RoutingTable>().is_err(), "{text}");
        }
    }
}
