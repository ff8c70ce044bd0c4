//! Name of a resource.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use siphasher::sip::SipHasher13;

/// Name of a resource. Clones share the text.
///
/// Names are ordered by a hash of their text, then by the text: a session looks thousands of names
/// up that begin alike, and a number is compared without reading the text. The order is the same
/// on all machines.
#[derive(Clone)]
pub struct Name {
    hash: u64,
    text: Arc<str>,
}

impl Name {
    fn new(text: Arc<str>) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(text.as_bytes());
        Self { hash: hasher.finish(), text }
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self::new(text.into())
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self::new(text.into())
    }
}

impl From<Arc<str>> for Name {
    fn from(text: Arc<str>) -> Self {
        Self::new(text)
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.text, formatter)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, formatter)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.hash.cmp(&other.hash).then_with(|| {
            if Arc::ptr_eq(&self.text, &other.text) {
                return Ordering::Equal;
            }
            self.text.cmp(&other.text)
        })
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Hasher of maps whose keys are [`Name`]s: their own hash is used as it is.
pub type NameHasher = BuildHasherDefault<StoredHash>;

/// Hash that a [`Name`] has computed.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoredHash(u64);

impl Hasher for StoredHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    /// Tries branch by the lowest bits first. Reversed, neighbours in the order of names are
    /// neighbours in the trie, in the same lines of the cache.
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash.reverse_bits();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_hash_are_ordered_by_their_text() {
        let name = |text: &str| Name { hash: 1, text: text.into() };
        assert_eq!(name("a"), name("a"));
        assert!(name("a") < name("b"));
        assert_ne!(name("a"), name("b"));
    }
}
