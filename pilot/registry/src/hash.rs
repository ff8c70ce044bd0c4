//! Hashes of content.

use std::hash::{Hash, Hasher};

use siphasher::sip::SipHasher13;

/// Hash with fixed keys, equal in all replicas and after restarts.
pub(crate) fn content_hash(content: &impl Hash) -> u64 {
    let mut hasher = SipHasher13::new();
    content.hash(&mut hasher);
    hasher.finish()
}
