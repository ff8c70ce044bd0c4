//! Convergence of a proxy to the published states: what is sent and not acknowledged.

use std::collections::BTreeMap;
use std::time::Instant;

/// Progress of a stream.
#[derive(Debug, Default)]
pub(crate) struct Convergence {
    /// Time of the oldest change that the proxy may lack.
    since: Option<Instant>,
    /// Nonces in flight, by type.
    in_flight: BTreeMap<String, String>,
}

impl Convergence {
    /// Takes a change.
    pub(crate) fn changed(&mut self, at: Instant) {
        self.since.get_or_insert(at);
    }

    /// Time of the oldest change that the proxy may lack.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.since
    }

    pub(crate) fn sent(&mut self, type_url: &str, nonce: String) {
        self.in_flight.insert(type_url.to_owned(), nonce);
    }

    /// Takes a request, which may be an ACK or a NACK.
    pub(crate) fn received(&mut self, type_url: &str, nonce: &str) {
        if self.in_flight.get(type_url).is_some_and(|sent| sent == nonce) {
            self.in_flight.remove(type_url);
        }
    }

    /// Returns the time of the oldest change once there is nothing more to send for it.
    pub(crate) fn end(&mut self) -> Option<Instant> {
        if self.in_flight.is_empty() { self.since.take() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_ends_with_the_last_acknowledgement() {
        let (mut proxy, first) = (Convergence::default(), Instant::now());
        proxy.changed(first);
        proxy.sent("cds", "1".to_owned());
        assert_eq!(proxy.end(), None);
        // The response to the ACK is part of the change.
        proxy.received("cds", "1");
        proxy.sent("lds", "2".to_owned());
        assert_eq!(proxy.end(), None);
        proxy.changed(Instant::now());
        proxy.received("lds", "1");
        assert_eq!(proxy.end(), None, "an old nonce acknowledges nothing");
        proxy.received("lds", "2");
        assert_eq!(proxy.end(), Some(first));
        assert_eq!(proxy.end(), None);
    }

    #[test]
    fn change_without_a_response_ends_at_once() {
        let (mut proxy, first) = (Convergence::default(), Instant::now());
        proxy.changed(first);
        assert_eq!(proxy.end(), Some(first));
    }
}
