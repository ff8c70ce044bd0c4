//! What the outcome of a call says about whether API servers can call the webhook.
//!
//! A watch only shows that a `caBundle` has changed, not that any API server trusts us by it or
//! reaches our port. So a `ConfigMap` that only our own entry reviews is created, as a dry run.

use std::fmt;

/// The label of the object that is created, by which the webhook entry selects it.
pub const PROBE_LABEL: &str = "outrigger.io/probe";
/// How the name of the webhook entry begins that reviews it.
pub const PROBE_ENTRY: &str = "probe.";

/// Why the API server cannot be seen to call the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeFailure {
    /// What is wrong.
    pub cause: ProbeCause,
    /// What the API server says.
    pub message: String,
}

/// What is wrong, as one word for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeCause {
    /// No entry reviews the probe, or failures of one that does are ignored.
    NotConfigured,
    /// The API server does not trust the certificate.
    Untrusted,
    /// Nothing answers: packets are lost on the way.
    Timeout,
    /// Nobody listens there.
    NoEndpoints,
    /// The account may not create the object.
    Forbidden,
    /// Something else.
    Other,
}

impl ProbeCause {
    /// The word for metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::NotConfigured => "not_configured",
            Self::Untrusted => "untrusted",
            Self::Timeout => "timeout",
            Self::NoEndpoints => "no_endpoints",
            Self::Forbidden => "forbidden",
            Self::Other => "other",
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::NotConfigured => {
                "the webhook configuration needs an entry `probe.…` for it, with failurePolicy Fail"
            }
            Self::Untrusted => {
                "compare caBundle and the CA with `webhook-certs status`; see who else writes it"
            }
            Self::Timeout => {
                "see whether a firewall or network policy keeps the API server from the webhook's \
                 port"
            }
            Self::NoEndpoints => {
                "see whether pods behind the Service are ready, and whether its port is right"
            }
            Self::Forbidden => "the probe needs the right to create ConfigMaps in its namespace",
            Self::Other => "the message is the API server's",
        }
    }
}

impl fmt::Display for ProbeFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.cause {
            ProbeCause::NotConfigured => "nothing shows whether the API server calls the webhook",
            ProbeCause::Untrusted => "the API server does not trust the webhook's certificate",
            ProbeCause::Timeout => "the API server gets no answer from the webhook",
            ProbeCause::NoEndpoints => "the API server finds nobody listening for the webhook",
            ProbeCause::Forbidden => "the probe may not be made",
            ProbeCause::Other => "the probe failed",
        };
        write!(formatter, "{what}: {}; hint: {}", self.message, self.cause.hint())
    }
}

/// Tells what an API server's refusal of the probe means; nothing where it shows that the webhook
/// was called after all.
///
/// The texts are those of `k8s.io/apiserver`'s webhook client and of Go's network and TLS libraries.
pub fn failure(code: u16, message: &str) -> Option<ProbeFailure> {
    let has = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    let cause = if !has(&["failed calling webhook", "failed to call webhook"]) {
        match code {
            // The webhook's own denial, and an object that is refused for its name later on.
            _ if has(&["denied the request"]) => return None,
            409 => return None,
            403 => ProbeCause::Forbidden,
            _ => ProbeCause::Other,
        }
    } else if has(&["x509:", "tls: ", "unable to load root certificates"]) {
        ProbeCause::Untrusted
    } else if has(&["no endpoints available", "connection refused", "\" not found"]) {
        ProbeCause::NoEndpoints
    } else if has(&["deadline exceeded", "i/o timeout", "Client.Timeout", "no route to host"]) {
        ProbeCause::Timeout
    } else {
        ProbeCause::Other
    };
    Some(ProbeFailure { cause, message: message.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_read_from_what_the_api_server_says() {
        let call = |end: &str| {
            format!(
                "Internal error occurred: failed calling webhook \"probe.example\": failed to call \
                 webhook: Post \"https://a.b.svc:443/inject?timeout=10s\": {end}"
            )
        };
        for (code, message, cause) in [
            (
                500,
                call("tls: failed to verify certificate: x509: certificate signed by unknown authority"),
                Some(ProbeCause::Untrusted),
            ),
            (
                500,
                "failed calling webhook \"probe.example\": unable to load root certificates: unable \
                 to parse bytes as PEM block"
                    .to_owned(),
                Some(ProbeCause::Untrusted),
            ),
            (500, call("context deadline exceeded"), Some(ProbeCause::Timeout)),
            (500, call("dial tcp 10.96.0.9:443: i/o timeout"), Some(ProbeCause::Timeout)),
            (500, call("no endpoints available for service \"a\""), Some(ProbeCause::NoEndpoints)),
            (500, call("service \"a\" not found"), Some(ProbeCause::NoEndpoints)),
            (
                500,
                call("dial tcp 10.96.0.9:443: connect: connection refused"),
                Some(ProbeCause::NoEndpoints),
            ),
            (500, call("EOF"), Some(ProbeCause::Other)),
            (403, "configmaps is forbidden: User \"x\"".to_owned(), Some(ProbeCause::Forbidden)),
            (403, "admission webhook \"probe.example\" denied the request: no".to_owned(), None),
            (409, "configmaps \"a\" already exists".to_owned(), None),
            (503, "etcd is gone".to_owned(), Some(ProbeCause::Other)),
        ] {
            assert_eq!(failure(code, &message).map(|failure| failure.cause), cause, "{message}");
        }
    }
}
