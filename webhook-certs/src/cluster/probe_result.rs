//! Interpretation of the trust probe's result.
//!
//! A watch shows that a `caBundle` has changed, not that any API server trusts us or reaches our
//! port. So a `ConfigMap` that only our own entry reviews is created, as a dry run.

use std::fmt;

use crate::rotation::ProbeCause;

/// Label by which the webhook entry selects the probe's object. Its value is the revision, so that
/// no entry reviews the probe of another revision.
pub(super) const PROBE_LABEL: &str = "outrigger.io/probe";
/// Prefix of the name of the webhook entry for the probe.
pub(super) const PROBE_ENTRY: &str = "probe.";

/// Failure of a trust probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProbeFailure {
    /// Cause, as one word.
    pub(super) cause: ProbeCause,
    /// Message of the API server.
    pub(super) message: String,
    /// Another webhook that made the probe fail; the probe says nothing about ours then.
    pub(super) other_webhook: Option<String>,
}

impl ProbeFailure {
    /// True if cause and webhook are the same, whatever the message.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.cause, &self.other_webhook) == (other.cause, &other.other_webhook)
    }
}

impl fmt::Display for ProbeFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.cause {
            ProbeCause::NotConfigured => "the trust probe is not configured",
            ProbeCause::Untrusted => "the API server does not trust the webhook's certificate",
            ProbeCause::Timeout => "the API server gets no answer from the webhook",
            ProbeCause::NoEndpoints => "the API server finds no endpoint of the webhook",
            ProbeCause::Forbidden => "the trust probe is forbidden",
            ProbeCause::Other => "the trust probe failed",
        };
        if let Some(webhook) = &self.other_webhook {
            return write!(
                formatter,
                "another webhook, {webhook}, made the trust probe fail: {}; hint: repair that \
                 webhook, or exclude ConfigMaps with the label {PROBE_LABEL} from it",
                self.message
            );
        }
        write!(formatter, "{what}: {}; hint: {}", self.message, hint(self.cause))
    }
}

fn hint(cause: ProbeCause) -> &'static str {
    match cause {
        ProbeCause::NotConfigured => {
            "apply the component `trust-probe` of this version, and after it the component \
             `revision` if you use it"
        }
        ProbeCause::Untrusted => {
            "compare caBundle and the CA with `webhook-certs status`; look for other writers of \
             caBundle"
        }
        ProbeCause::Timeout => {
            "check firewalls and network policies between the API server and the webhook's port"
        }
        ProbeCause::NoEndpoints => {
            "check that pods of the Service are ready, and the port of the Service"
        }
        ProbeCause::Forbidden => "the probe needs the right to create ConfigMaps in its namespace",
        ProbeCause::Other => "the message is that of the API server",
    }
}

/// Webhook entries that the API server must call to review the probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProbeTarget {
    /// Entries that select the probe and call our Service.
    pub(super) entries: Vec<String>,
    /// Host by which API servers call the Service: `SERVICE.NAMESPACE.svc`.
    pub(super) host: String,
}

impl ProbeTarget {
    /// Entries of several revisions may share a name, so the host is compared too.
    fn is(&self, webhook: &Webhook) -> bool {
        let is_entry = self.entries.iter().any(|entry| entry == webhook.entry);
        is_entry && webhook.host.is_none_or(|host| host == self.host)
    }
}

/// Interprets a rejection of the probe; `None` if it shows that the webhook was called.
///
/// Only messages about the target say something about trust and calls. They are those of
/// `k8s.io/apiserver`'s webhook client and of Go's network and TLS libraries.
pub(super) fn failure(code: u16, message: &str, target: &ProbeTarget) -> Option<ProbeFailure> {
    let failed = |cause, other_webhook| {
        Some(ProbeFailure { cause, message: message.to_owned(), other_webhook })
    };
    match Rejection::parse(message) {
        Rejection::Denied(webhook) if target.is(&webhook) => None,
        // Without a URL, the call may be that of another revision's entry.
        Rejection::Failed(webhook) if target.is(&webhook) && webhook.host.is_some() => {
            failed(cause_of_failed_call(message), None)
        }
        Rejection::Failed(webhook) | Rejection::Denied(webhook) => {
            failed(ProbeCause::Other, Some(webhook.to_string()))
        }
        // Validation and name conflicts come after all mutating webhooks were called.
        Rejection::ByPolicy => None,
        Rejection::Else if code == 409 => None,
        Rejection::Else if code == 403 => failed(ProbeCause::Forbidden, None),
        Rejection::Else => failed(ProbeCause::Other, None),
    }
}

fn cause_of_failed_call(message: &str) -> ProbeCause {
    let has = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    if has(&["x509:", "tls: "]) {
        ProbeCause::Untrusted
    } else if has(&["no endpoints available", "connection refused", "\" not found"]) {
        ProbeCause::NoEndpoints
    } else if has(&["deadline exceeded", "i/o timeout", "Client.Timeout", "no route to host"]) {
        ProbeCause::Timeout
    } else {
        ProbeCause::Other
    }
}

/// Origin of the rejection, by the begin of the message; the rest may be any text.
enum Rejection<'a> {
    /// A webhook could not be called, or its response was unusable.
    Failed(Webhook<'a>),
    /// A webhook was called and denied the request.
    Denied(Webhook<'a>),
    /// A `ValidatingAdmissionPolicy` denied the request.
    ByPolicy,
    Else,
}

impl<'a> Rejection<'a> {
    fn parse(message: &'a str) -> Self {
        let message = message.strip_prefix("Internal error occurred: ").unwrap_or(message);
        if let Some(quoted) = message.strip_prefix("failed calling webhook \"") {
            let (entry, rest) = quoted.split_once('"').unwrap_or((quoted, ""));
            let url = rest.strip_prefix(": failed to call webhook: Post \"https://");
            let host = url.and_then(|url| url.split([':', '/']).next());
            Self::Failed(Webhook { entry, host })
        } else if let Some(quoted) = message.strip_prefix("admission webhook \"") {
            let entry = quoted.split_once('"').map_or(quoted, |(entry, _)| entry);
            Self::Denied(Webhook { entry, host: None })
        } else if message.contains(" is forbidden: ValidatingAdmissionPolicy '") {
            Self::ByPolicy
        } else {
            Self::Else
        }
    }
}

/// A webhook entry in a message of the API server.
struct Webhook<'a> {
    entry: &'a str,
    host: Option<&'a str>,
}

impl fmt::Display for Webhook<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}`", self.entry)?;
        self.host.map_or(Ok(()), |host| write!(formatter, " at {host}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: &str = "Internal error occurred: failed calling webhook \"probe.example\": failed to \
                        call webhook: Post \"https://a.b.svc:443/inject?timeout=10s\": ";

    fn target() -> ProbeTarget {
        ProbeTarget { entries: vec!["probe.example".to_owned()], host: "a.b.svc".to_owned() }
    }

    fn cause(code: u16, message: &str) -> Option<ProbeCause> {
        failure(code, message, &target()).map(|failure| failure.cause)
    }

    #[test]
    fn cause_follows_from_the_api_servers_message() {
        for (end, expected) in [
            (
                "tls: failed to verify certificate: x509: certificate signed by unknown authority",
                ProbeCause::Untrusted,
            ),
            ("context deadline exceeded", ProbeCause::Timeout),
            ("dial tcp 10.96.0.9:443: i/o timeout", ProbeCause::Timeout),
            ("no endpoints available for service \"a\"", ProbeCause::NoEndpoints),
            ("service \"a\" not found", ProbeCause::NoEndpoints),
            ("dial tcp 10.96.0.9:443: connect: connection refused", ProbeCause::NoEndpoints),
            ("EOF", ProbeCause::Other),
        ] {
            assert_eq!(cause(500, &format!("{CALL}{end}")), Some(expected), "{end}");
        }
        for (code, message, expected) in [
            (403, "configmaps is forbidden: User \"x\"", Some(ProbeCause::Forbidden)),
            (503, "etcd is gone", Some(ProbeCause::Other)),
            // The webhook was called.
            (403, "admission webhook \"probe.example\" denied the request: no", None),
            (409, "configmaps \"a\" already exists", None),
            (
                422,
                "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied \
                 request: no",
                None,
            ),
        ] {
            assert_eq!(cause(code, message), expected, "{message}");
        }
    }

    #[test]
    fn failures_of_other_webhooks_are_not_ours() {
        let x509 = "x509: certificate signed by unknown authority";
        let of_url = |entry: &str, host: &str| {
            format!(
                "Internal error occurred: failed calling webhook \"{entry}\": failed to call \
                 webhook: Post \"https://{host}:443/inject?timeout=10s\": {x509}"
            )
        };
        for (message, other) in [
            (of_url("foreign.example", "a.b.svc"), "`foreign.example` at a.b.svc"),
            // An entry of another revision.
            (of_url("probe.example", "a-canary.b.svc"), "`probe.example` at a-canary.b.svc"),
            (of_url("probe.example", "a.b.svc.evil"), "`probe.example` at a.b.svc.evil"),
            (
                "Internal error occurred: failed calling webhook \"probe.example\": unable to load \
                 root certificates: unable to parse bytes as PEM block"
                    .to_owned(),
                "`probe.example`",
            ),
            (
                // A denial contains text of the webhook.
                format!("admission webhook \"foreign.example\" denied the request: {CALL}{x509}"),
                "`foreign.example`",
            ),
        ] {
            let failure = failure(500, &message, &target()).unwrap();
            assert_eq!(failure.cause, ProbeCause::Other, "{message}");
            assert_eq!(failure.other_webhook.as_deref(), Some(other));
            let text = failure.to_string();
            let begin = format!("another webhook, {other}, made the trust probe fail: ");
            assert!(text.starts_with(&begin) && text.contains(&message), "{text}");
        }
    }
}
