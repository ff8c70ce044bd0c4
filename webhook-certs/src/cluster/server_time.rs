//! The API server's time, from the `Date` of its responses.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};
use kube::Client;

use super::clock::DatedResponse;

/// Difference of this machine's clock to the API server's, by the latest response with a date.
#[derive(Clone, Default)]
pub(super) struct ServerClock(Arc<Mutex<Option<SignedDuration>>>);

impl ServerClock {
    /// Wraps a client so that every response updates the clock.
    pub(super) fn read_by(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let clock = self.clone();
        let service = tower::service_fn(move |request| {
            let (client, clock) = (client.clone(), clock.clone());
            async move {
                let sent = Timestamp::now();
                let answer = client.send(request).await?;
                let received = Timestamp::now();
                let date = answer.headers().get("date").and_then(|date| date.to_str().ok());
                if let Some(dated) = date.and_then(|date| PARSER.parse_timestamp(date).ok()) {
                    clock.set(DatedResponse { sent, received, dated }.ahead());
                }
                Ok::<_, kube::Error>(answer)
            }
        });
        Client::new(service, namespace)
    }

    /// Latest difference, if known.
    pub(super) fn ahead(&self) -> Option<SignedDuration> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Current time of the API server.
    pub(super) fn now(&self) -> Timestamp {
        let ahead = self.ahead().unwrap_or_default();
        Timestamp::now().saturating_sub(ahead).unwrap_or(Timestamp::MAX)
    }

    fn set(&self, ahead: SignedDuration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(ahead);
    }
}

static PARSER: DateTimeParser = DateTimeParser::new();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_dates_are_parsed() {
        let read = PARSER.parse_timestamp("Sat, 21 Nov 2026 18:18:23 GMT").unwrap();
        assert_eq!(read.to_string(), "2026-11-21T18:18:23Z");
    }
}
