//! Version of a resource: 64 bits of a content hash.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;

use siphasher::sip::SipHasher13;

/// Version of a resource. Two resources with equal versions have equal content.
///
/// Its text is 13 characters of base32. A number instead of text keeps a session small: eight
/// bytes per name.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Version(NonZeroU64);

impl Version {
    /// Version of a resource that another control plane sent. It equals no version of ours.
    pub const FOREIGN: Self = Self(NonZeroU64::MAX);

    /// Hashes the content. Equal content has one version in all replicas and after restarts.
    pub fn new(content: &impl Hash) -> Self {
        let mut hasher = SipHasher13::new_with_keys(KEYS.0, KEYS.1);
        content.hash(&mut hasher);
        Self::from_hash(hasher.finish())
    }

    /// Creates the version from a hash of the content. The hash needs fixed keys: all replicas
    /// have to agree.
    pub fn from_hash(hash: u64) -> Self {
        match NonZeroU64::new(hash) {
            Some(hash) if hash != NonZeroU64::MAX => Self(hash),
            // Zero and FOREIGN are taken; another value is as good as any.
            _ => Self(NonZeroU64::MIN),
        }
    }

    /// Parses the text that a client repeats. Unknown text becomes [`Version::FOREIGN`].
    pub fn parse(text: &str) -> Self {
        if text.len() != LENGTH {
            return Self::FOREIGN;
        }
        let value = text.bytes().try_fold(0_u64, |value, digit| {
            let digit = match digit {
                b'a'..=b'z' => digit - b'a',
                b'2'..=b'7' => digit - b'2' + 26,
                _ => return None,
            };
            value.checked_mul(32)?.checked_add(digit.into())
        });
        value.and_then(NonZeroU64::new).map_or(Self::FOREIGN, Self)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for digit in (0..LENGTH).rev() {
            let index = (self.0.get() >> (5 * digit)) & 31;
            let index = usize::try_from(index).unwrap_or_default();
            fmt::Write::write_char(formatter, char::from(ALPHABET[index]))?;
        }
        Ok(())
    }
}

/// Base32 of RFC 4648, in lower case.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const LENGTH: usize = 13;
/// Keys of the hash. With other keys each client would get all of its resources again.
const KEYS: (u64, u64) = (0x6f75_7472_6967_6765, 0x722d_7665_7273_696f);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn foreign_text_equals_no_version() {
        for text in ["", "1", "2026-01-01T00:00:00Z/7", "7777777777777", "aaaaaaaaaaaaa"] {
            assert_eq!(Version::parse(text), Version::FOREIGN, "{text}");
        }
        for hash in [0, 1, u64::MAX] {
            assert_ne!(Version::from_hash(hash), Version::FOREIGN);
        }
    }

    #[test]
    fn version_is_a_fixed_function_of_the_content() {
        let others = [Version::new(&("a", 1)), Version::new(&("a", 2)), Version::new(&("b", 1))];
        assert_ne!(others[0], others[1]);
        assert_ne!(others[0], others[2]);
        // Another text here means that each client gets all of its resources again.
        assert_eq!(others[0].to_string(), "j2pzie5d6mcch");
    }

    proptest! {
        #[test]
        fn text_parses_to_the_same_version(hash: u64) {
            let version = Version::from_hash(hash);
            prop_assert_eq!(Version::parse(&version.to_string()), version);
        }
    }
}
