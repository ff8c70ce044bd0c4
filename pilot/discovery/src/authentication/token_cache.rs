//! Cache of accepted tokens, by their hash.

use std::collections::HashMap;
use std::time::Duration;

use rustls::SupportedCipherSuite;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use tokio::time::Instant;

use super::token::ServiceAccount;

/// SHA-256 of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TokenHash([u8; 32]);

impl TokenHash {
    /// Hashes a token.
    pub(super) fn of(token: &str) -> Self {
        let SupportedCipherSuite::Tls13(suite) = TLS13_AES_128_GCM_SHA256 else {
            unreachable!("the suite is of TLS 1.3")
        };
        let mut hash = [0; 32];
        hash.copy_from_slice(suite.common.hash_provider.hash(token.as_bytes()).as_ref());
        Self(hash)
    }
}

/// Accounts of recently accepted tokens.
///
/// A token is revoked with its pod, and the cache learns of it late, so entries live briefly.
#[derive(Debug, Default)]
pub(super) struct TokenCache(HashMap<TokenHash, Entry>);

#[derive(Debug)]
struct Entry {
    account: ServiceAccount,
    until: Instant,
}

impl TokenCache {
    /// Account of a token that was accepted recently.
    pub(super) fn get(&self, hash: &TokenHash, now: Instant) -> Option<ServiceAccount> {
        let entry = self.0.get(hash).filter(|entry| now < entry.until)?;
        Some(entry.account.clone())
    }

    /// Remembers an accepted token for at most `remaining`, the rest of its validity.
    pub(super) fn insert(
        &mut self,
        hash: TokenHash,
        account: ServiceAccount,
        now: Instant,
        remaining: Duration,
    ) {
        if self.0.len() >= CAPACITY {
            self.0.retain(|_, entry| now < entry.until);
        }
        // A full cache costs further reviews, nothing else.
        if self.0.len() < CAPACITY {
            self.0.insert(hash, Entry { account, until: now + remaining.min(LONGEST) });
        }
    }
}

const CAPACITY: usize = 20_000;
const LONGEST: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> ServiceAccount {
        ServiceAccount { namespace: "shop".to_owned(), name: "web".to_owned(), pod: None }
    }

    #[test]
    fn hash_is_that_of_the_token() {
        // SHA-256 of "abc" (FIPS 180-2).
        assert_eq!(TokenHash::of("abc").0[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert_ne!(TokenHash::of("abc"), TokenHash::of("abd"));
    }

    #[test]
    fn token_is_forgotten_when_it_expires_and_soon_anyway() {
        let (hash, now) = (TokenHash::of("a"), Instant::now());
        let mut cache = TokenCache::default();
        cache.insert(hash, account(), now, Duration::from_secs(5));
        assert_eq!(cache.get(&hash, now + Duration::from_secs(4)), Some(account()));
        assert_eq!(cache.get(&hash, now + Duration::from_secs(5)), None);
        cache.insert(hash, account(), now, Duration::from_secs(43_200));
        assert_eq!(cache.get(&hash, now + LONGEST), None);
    }

    #[test]
    fn number_of_tokens_is_bounded() {
        let now = Instant::now();
        let mut cache = TokenCache::default();
        let hash = |number: usize| TokenHash::of(&number.to_string());
        for number in 0..=CAPACITY {
            cache.insert(hash(number), account(), now, LONGEST);
        }
        assert_eq!(cache.0.len(), CAPACITY);
        cache.insert(hash(CAPACITY), account(), now + LONGEST, LONGEST);
        assert_eq!(cache.0.len(), 1);
    }
}
