//! Several values that a field may have.

use std::fmt;

/// One value or several, in the order in which the user gave them; never none.
///
/// A field that is one of them matches. Negated, it is none of them. A backend without sets writes
/// a rule with such a match as several: one for each value, or, negated, one with a match for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyOf<T>(Vec<T>);

impl<T> AnyOf<T> {
    /// This value alone.
    pub fn one(value: impl Into<T>) -> Self {
        Self(vec![value.into()])
    }

    /// These values; `None` when there are none.
    pub fn several(values: impl IntoIterator<Item = T>) -> Option<Self> {
        let values: Vec<T> = values.into_iter().collect();
        (!values.is_empty()).then_some(Self(values))
    }

    /// All of them.
    pub fn values(&self) -> &[T] {
        &self.0
    }

    /// The one value, when it is one.
    pub fn single(&self) -> Option<&T> {
        match &*self.0 {
            [value] => Some(value),
            _ => None,
        }
    }

    /// The first of them.
    pub fn first(&self) -> &T {
        // Both constructors see to it that there is one.
        &self.0[0]
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
