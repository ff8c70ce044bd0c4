//! Labels of objects and of selectors.

use std::sync::Arc;

/// Labels of an object or of a selector, in the order of their keys. Clones share the content.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Arc<[Label]>);

/// Key and value of a label.
pub type Label = (Arc<str>, Arc<str>);

impl Labels {
    /// Value of a label.
    pub fn get(&self, key: &str) -> Option<&Arc<str>> {
        let place = self.0.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        Some(&self.0[place].1)
    }

    /// The labels in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &Label> {
        self.0.iter()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if these labels, as a selector, select an object with `labels`. No labels select all.
    pub fn select(&self, labels: &Self) -> bool {
        self.0.iter().all(|(key, value)| labels.get(key) == Some(value))
    }

    pub(crate) fn content(&self) -> &Arc<[Label]> {
        &self.0
    }

    pub(crate) fn from_shared(content: Arc<[Label]>) -> Self {
        Self(content)
    }
}

/// The last of equal keys counts.
impl<K: Into<Arc<str>>, V: Into<Arc<str>>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let sorted: std::collections::BTreeMap<Arc<str>, Arc<str>> =
            labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        Self(sorted.into_iter().collect())
    }
}
