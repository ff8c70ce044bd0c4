//! Lists of CA numbers in annotations of the Secret.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::bundle::TrustedCa;

/// Set of numbers at the end of CA names, written like `3,4`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaNumbers(BTreeSet<u64>);

impl CaNumbers {
    /// True if the set holds the number of `ca`.
    pub fn holds(&self, ca: &TrustedCa) -> bool {
        ca.generation().is_some_and(|number| self.0.contains(&number))
    }

    /// Adds the number of `ca`, if it has one.
    pub fn add(&mut self, ca: &TrustedCa) {
        self.0.extend(ca.generation());
    }

    /// Removes the number of `ca`.
    pub fn remove(&mut self, ca: &TrustedCa) {
        self.0.retain(|number| ca.generation() != Some(*number));
    }

    /// Numbers that `other` does not hold.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().copied()
    }
}

impl FromIterator<u64> for CaNumbers {
    fn from_iter<I: IntoIterator<Item = u64>>(numbers: I) -> Self {
        Self(numbers.into_iter().collect())
    }
}

impl FromStr for CaNumbers {
    type Err = CaNumbersError;

    /// Parses all numbers or none.
    fn from_str(text: &str) -> Result<Self, CaNumbersError> {
        let number = |item: &str| {
            item.trim().parse().map_err(|_| CaNumbersError { item: item.trim().to_owned() })
        };
        text.split(',').map(number).collect()
    }
}

impl fmt::Display for CaNumbers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<_> = self.0.iter().map(u64::to_string).collect();
        formatter.write_str(&numbers.join(","))
    }
}

/// An item of the list is not a number.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{item}` is not the number of a CA")]
pub struct CaNumbersError {
    /// Text of the item.
    pub item: String,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invalid_number_rejects_the_whole_list() {
        assert_eq!(" 4, 3,4".parse(), Ok([3, 4].into_iter().collect::<CaNumbers>()));
        for (text, item) in [("", ""), ("3,", ""), ("3,x", "x"), ("all", "all"), ("3;4", "3;4")] {
            let error = CaNumbersError { item: item.to_owned() };
            assert_eq!(text.parse::<CaNumbers>(), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn written_lists_are_parsed(numbers in prop::collection::btree_set(any::<u64>(), 1..5)) {
            let numbers: CaNumbers = numbers.into_iter().collect();
            prop_assert_eq!(numbers.to_string().parse(), Ok(numbers));
        }
    }
}
