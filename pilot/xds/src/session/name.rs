//! Name of a resource.

use std::borrow::Borrow;
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

/// Name in borrowed text: the requests of a client that reconnects have thousands, and few of them
/// are kept.
#[derive(Clone, Copy)]
pub struct NameRef<'a> {
    hash: u64,
    text: &'a str,
}

impl<'a> NameRef<'a> {
    /// Returns the text.
    pub fn text(self) -> &'a str {
        self.text
    }
}

impl<'a> From<&'a str> for NameRef<'a> {
    fn from(text: &'a str) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(text.as_bytes());
        Self { hash: hasher.finish(), text }
    }
}

/// Key of a lookup among [`Name`]s.
pub trait NameKey {
    /// Borrows the name.
    fn as_name(&self) -> NameRef<'_>;
}

impl NameKey for Name {
    fn as_name(&self) -> NameRef<'_> {
        NameRef { hash: self.hash, text: &self.text }
    }
}

impl NameKey for NameRef<'_> {
    fn as_name(&self) -> NameRef<'_> {
        *self
    }
}

impl From<NameRef<'_>> for Name {
    fn from(NameRef { hash, text }: NameRef<'_>) -> Self {
        Self { hash, text: text.into() }
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        NameRef::from(text).into()
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<Arc<str>> for Name {
    fn from(text: Arc<str>) -> Self {
        Self { hash: NameRef::from(&*text).hash, text }
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

impl fmt::Debug for NameRef<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.text, formatter)
    }
}

impl Ord for NameRef<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.hash.cmp(&other.hash).then_with(|| {
            if std::ptr::eq(self.text, other.text) {
                return Ordering::Equal;
            }
            self.text.cmp(other.text)
        })
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_name().cmp(&other.as_name())
    }
}

impl PartialOrd for NameRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Equality and hash of a [`NameRef`] for other keys: maps need the same of a key and of what
/// it borrows.
macro_rules! equal_as_name {
    ($($key:ty),*) => {$(
        impl PartialEq for $key {
            fn eq(&self, other: &Self) -> bool {
                self.as_name().cmp(&other.as_name()) == Ordering::Equal
            }
        }

        impl Eq for $key {}

        impl Hash for $key {
            fn hash<H: Hasher>(&self, state: &mut H) {
                state.write_u64(self.as_name().hash);
            }
        }
    )*};
}

equal_as_name!(Name, NameRef<'_>, dyn NameKey + '_);

impl<'a> Borrow<dyn NameKey + 'a> for Name {
    fn borrow(&self) -> &(dyn NameKey + 'a) {
        self
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
