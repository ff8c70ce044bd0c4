//! What the outcome of a call says about whether API servers can call the webhook.
//!
//! A watch only shows that a `caBundle` has changed, not that any API server trusts us by it or
//! reaches our port. So a `ConfigMap` that only our own entry reviews is created, as a dry run.

use std::fmt;

/// The label of the object that is created, by which the webhook entry selects it; its value is the
/// revision, so that no revision's entry reviews the probe of another one.
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
    /// The webhook that was in the way, of which nothing follows for ours.
    pub other_webhook: Option<String>,
}

impl ProbeFailure {
    /// Tells whether this is the same trouble, whatever the words.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.cause, &self.other_webhook) == (other.cause, &other.other_webhook)
    }
}

/// What is wrong, as one word for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeCause {
    /// No entry of ours reviews the probe, or failures of one that does are ignored.
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
                "apply the component `trust-probe` that came with this version, and the component \
                 `revision` after it where there is one"
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
        if let Some(webhook) = &self.other_webhook {
            return write!(
                formatter,
                "another webhook, {webhook}, kept the probe from showing anything: {}; hint: repair \
                 it, or have it leave out ConfigMaps with the label {PROBE_LABEL}",
                self.message
            );
        }
        write!(formatter, "{what}: {}; hint: {}", self.message, self.cause.hint())
    }
}

/// Whom an API server has to call when it reviews the probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeTarget {
    /// The webhook entries that select the probe and call the Service.
    pub entries: Vec<String>,
    /// The name under which API servers call the Service: `SERVICE.NAMESPACE.svc`.
    pub host: String,
}

impl ProbeTarget {
    /// Entries of several revisions may share a name, so that the Service has to be named too.
    fn is(&self, webhook: &Webhook) -> bool {
        let is_entry = self.entries.iter().any(|entry| entry == webhook.entry);
        is_entry && webhook.host.is_none_or(|host| host == self.host)
    }
}

/// Tells what an API server's refusal of the probe means; nothing where it shows that the webhook
/// was called after all.
///
/// Only what the API server says of the target tells of trust and calls. The texts are those of
/// `k8s.io/apiserver`'s webhook client and of Go's network and TLS libraries.
pub fn failure(code: u16, message: &str, target: &ProbeTarget) -> Option<ProbeFailure> {
    let failed = |cause, other_webhook| {
        Some(ProbeFailure { cause, message: message.to_owned(), other_webhook })
    };
    match Refusal::read(message) {
        Refusal::Denied(webhook) if target.is(&webhook) => None,
        // A call of which the URL is not told may be that of another revision's entry.
        Refusal::Failed(webhook) if target.is(&webhook) && webhook.host.is_some() => {
            failed(cause_of_failed_call(message), None)
        }
        Refusal::Failed(webhook) | Refusal::Denied(webhook) => {
            failed(ProbeCause::Other, Some(webhook.to_string()))
        }
        // Validation comes after all mutating webhooks were called, and so do names in use.
        Refusal::ByPolicy => None,
        Refusal::Else if code == 409 => None,
        Refusal::Else if code == 403 => failed(ProbeCause::Forbidden, None),
        Refusal::Else => failed(ProbeCause::Other, None),
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

/// Who refused the probe, as the beginning of the message has it: what follows may be anybody's text.
enum Refusal<'a> {
    /// A webhook could not be called, or its answer not be used.
    Failed(Webhook<'a>),
    /// A webhook was called and said no.
    Denied(Webhook<'a>),
    /// A `ValidatingAdmissionPolicy` said no.
    ByPolicy,
    Else,
}

impl<'a> Refusal<'a> {
    fn read(message: &'a str) -> Self {
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

/// An entry of a webhook configuration, as an API server's message names it.
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
    fn the_cause_is_read_from_what_the_api_server_says() {
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
            // Here the webhook was called.
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
    fn what_another_webhook_fails_at_is_not_ours() {
        let x509 = "x509: certificate signed by unknown authority";
        let of_url = |entry: &str, host: &str| {
            format!(
                "Internal error occurred: failed calling webhook \"{entry}\": failed to call \
                 webhook: Post \"https://{host}:443/inject?timeout=10s\": {x509}"
            )
        };
        for (message, other) in [
            (of_url("foreign.example", "a.b.svc"), "`foreign.example` at a.b.svc"),
            // The entry of another revision.
            (of_url("probe.example", "a-canary.b.svc"), "`probe.example` at a-canary.b.svc"),
            (of_url("probe.example", "a.b.svc.evil"), "`probe.example` at a.b.svc.evil"),
            (
                "Internal error occurred: failed calling webhook \"probe.example\": unable to load \
                 root certificates: unable to parse bytes as PEM block"
                    .to_owned(),
                "`probe.example`",
            ),
            (
                // It may say what it likes.
                format!("admission webhook \"foreign.example\" denied the request: {CALL}{x509}"),
                "`foreign.example`",
            ),
        ] {
            let failure = failure(500, &message, &target()).unwrap();
            assert_eq!(failure.cause, ProbeCause::Other, "{message}");
            assert_eq!(failure.other_webhook.as_deref(), Some(other));
            let text = failure.to_string();
            let begin = format!("another webhook, {other}, kept the probe from showing anything: ");
            assert!(text.starts_with(&begin) && text.contains(&message), "{text}");
        }
    }
}
