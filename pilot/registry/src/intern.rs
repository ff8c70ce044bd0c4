//! Sharing of equal strings and labels.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use crate::labels::{Label, Labels};
use crate::locality::Locality;

/// Strings and labels in use, each kept once.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    texts: Pool<str>,
    labels: Pool<[Label]>,
}

impl Interner {
    pub(crate) fn text(&mut self, text: &mut Arc<str>) {
        *text = self.texts.shared(text);
    }

    pub(crate) fn labels(&mut self, labels: &mut Labels) {
        let shared = self.labels.known(labels.content()).unwrap_or_else(|| {
            let texts = &mut self.texts;
            let pairs = labels.iter().map(|(key, value)| (texts.shared(key), texts.shared(value)));
            self.labels.shared(&pairs.collect())
        });
        *labels = Labels::from_shared(shared);
    }

    pub(crate) fn locality(&mut self, locality: &mut Locality) {
        self.text(&mut locality.region);
        self.text(&mut locality.zone);
        self.text(&mut locality.subzone);
    }
}

#[derive(Debug)]
struct Pool<T: ?Sized> {
    values: HashSet<Arc<T>>,
    /// Number of values at which unused ones are dropped.
    limit: usize,
}

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self { values: HashSet::new(), limit: FIRST_LIMIT }
    }
}

impl<T: ?Sized + Eq + Hash> Pool<T> {
    fn known(&self, value: &Arc<T>) -> Option<Arc<T>> {
        self.values.get(&**value).cloned()
    }

    fn shared(&mut self, value: &Arc<T>) -> Arc<T> {
        if let Some(shared) = self.known(value) {
            return shared;
        }
        if self.values.len() >= self.limit {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.limit = (2 * self.values.len()).max(FIRST_LIMIT);
        }
        self.values.insert(Arc::clone(value));
        Arc::clone(value)
    }
}

const FIRST_LIMIT: usize = 1024;
