//! Several values that a field may have.

use std::fmt;
use std::net::IpAddr;

use crate::types::cidr::Cidr;
use crate::types::owner::{Gid, UidRange};
use crate::types::port::PortRange;

/// One or more values, in the user's order.
///
/// A field matches if it equals one of them; negated, if it equals none. A backend without sets
/// writes one rule per value, or for a negated match one rule with a condition per value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyOf<T>(Vec<T>);

/// Value that covers a range of numbers.
pub trait Span {
    /// Returns the lowest number.
    fn lowest(&self) -> u128;
    /// Returns the highest number.
    fn highest(&self) -> u128;
}

impl<T> AnyOf<T> {
    /// Creates a list of one value.
    pub fn one(value: impl Into<T>) -> Self {
        Self(vec![value.into()])
    }

    /// Creates the list; `None` if it is empty.
    pub fn several(values: impl IntoIterator<Item = T>) -> Option<Self> {
        let values: Vec<T> = values.into_iter().collect();
        (!values.is_empty()).then_some(Self(values))
    }

    /// Appends a value.
    #[must_use]
    pub fn and(mut self, value: T) -> Self {
        self.0.push(value);
        self
    }

    /// Returns all values.
    pub fn values(&self) -> &[T] {
        &self.0
    }

    /// Returns the value if there is only one.
    pub fn single(&self) -> Option<&T> {
        match &*self.0 {
            [value] => Some(value),
            _ => None,
        }
    }

    /// Returns the first value.
    pub fn first(&self) -> &T {
        // Both constructors see to it that there is one.
        &self.0[0]
    }
}

impl<T: Span> AnyOf<T> {
    /// Returns the covered numbers in order, as pairs of lowest and highest.
    ///
    /// If a value covers several numbers, overlapping and adjacent pairs are merged, as interval
    /// sets of the kernel need.
    pub fn merged(&self) -> Vec<(u128, u128)> {
        let spans = self.sorted();
        if spans.iter().all(|(lowest, highest)| lowest == highest) {
            return spans;
        }
        self.intervals()
    }

    /// Returns the covered numbers with adjacent pairs merged, even if all values are single.
    pub fn intervals(&self) -> Vec<(u128, u128)> {
        let mut merged: Vec<(u128, u128)> = Vec::new();
        for (lowest, highest) in self.sorted() {
            match merged.last_mut() {
                Some(last) if lowest <= last.1.saturating_add(1) => last.1 = last.1.max(highest),
                _ => merged.push((lowest, highest)),
            }
        }
        merged
    }

    fn sorted(&self) -> Vec<(u128, u128)> {
        let mut spans: Vec<(u128, u128)> =
            self.0.iter().map(|value| (value.lowest(), value.highest())).collect();
        spans.sort_unstable();
        spans.dedup();
        spans
    }
}

impl Span for PortRange {
    fn lowest(&self) -> u128 {
        self.first().into()
    }

    fn highest(&self) -> u128 {
        self.last().into()
    }
}

impl Span for UidRange {
    fn lowest(&self) -> u128 {
        self.first().get().into()
    }

    fn highest(&self) -> u128 {
        self.last().get().into()
    }
}

impl Span for Gid {
    fn lowest(&self) -> u128 {
        self.get().into()
    }

    fn highest(&self) -> u128 {
        self.get().into()
    }
}

impl Span for Cidr {
    fn lowest(&self) -> u128 {
        bits(self.address()) & !host_bits(*self)
    }

    fn highest(&self) -> u128 {
        bits(self.address()) | host_bits(*self)
    }
}

/// Writes them as nftables does: `80`, or `{ 80, 443 }`.
impl<T: fmt::Display> fmt::Display for AnyOf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(value) = self.single() {
            return value.fmt(f);
        }
        f.write_str("{ ")?;
        for (index, value) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            value.fmt(f)?;
        }
        f.write_str(" }")
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u32::from(v4).into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

fn host_bits(range: Cidr) -> u128 {
    let count = u32::from(range.family().address_bits() - range.length());
    u128::MAX.checked_shr(128 - count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged<T: Span + std::str::FromStr>(texts: &[&str]) -> Vec<(u128, u128)>
    where
        T::Err: fmt::Debug,
    {
        AnyOf::several(texts.iter().map(|text| text.parse::<T>().unwrap())).unwrap().merged()
    }

    #[test]
    fn overlapping_and_adjacent_spans_are_merged() {
        assert_eq!(
            merged::<PortRange>(&["80", "8000-9000", "8500", "81"]),
            [(80, 81), (8000, 9000)]
        );
        assert_eq!(merged::<PortRange>(&["443", "80", "81"]), [(80, 80), (81, 81), (443, 443)]);
        assert_eq!(merged::<Cidr>(&["0.0.0.0/0"]), [(0, 0xffff_ffff)]);
        assert_eq!(merged::<Cidr>(&["10.128.0.0/9", "10.0.0.0/9"]), [(0x0a00_0000, 0x0aff_ffff)]);
        assert_eq!(merged::<Cidr>(&["::/0", "fd00::1/128"]), [(0, u128::MAX)]);
        assert_eq!(merged::<Cidr>(&["1.2.3.4/32"]), [(0x0102_0304, 0x0102_0304)]);
    }
}
