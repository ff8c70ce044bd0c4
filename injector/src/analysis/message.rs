//! Messages of an analysis.

use std::fmt;

use serde::Serialize;

/// Kind of a message about an object that refers to a missing one.
pub(super) static NOT_FOUND: MessageKind = MessageKind { code: "IST0101", level: Level::Error };

/// Message about an object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Message {
    /// Kind of the message.
    pub kind: &'static MessageKind,
    /// Object of the message.
    pub origin: MessageOrigin,
    /// Sentence.
    pub text: String,
}

/// Code and level of a message, as in Istio's reference; codes of ours begin with `OUT`.
#[derive(Debug, Eq, PartialEq)]
pub struct MessageKind {
    /// For example `IST0103`.
    pub code: &'static str,
    /// Level.
    pub level: Level,
}

/// Level of a message. A later one is more severe.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Level {
    /// For information.
    Info,
    /// Something may not work as expected.
    Warning,
    /// Something does not work.
    Error,
}

/// Object of a message.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct MessageOrigin {
    /// For example `Pod`.
    pub kind: String,
    /// Namespace; empty for an object of the whole cluster.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// File and line; empty for an object of the cluster.
    pub place: String,
    /// Value of the annotation `galley.istio.io/analyze-suppress`: codes, separated by commas.
    pub suppressed: String,
}

impl Message {
    pub(super) fn new(kind: &'static MessageKind, origin: &MessageOrigin, text: String) -> Self {
        Self { kind, origin: origin.clone(), text }
    }

    pub(super) fn order(&self) -> impl Ord + use<'_> {
        (std::cmp::Reverse(self.kind.level), self.kind.code, &self.origin, &self.text)
    }

    /// Returns Istio's page about the message; for a code of ours, about the subject.
    pub fn documentation_url(&self) -> String {
        if self.kind.code.starts_with(OWN) {
            return POLICIES.to_owned();
        }
        let code = self.kind.code.to_ascii_lowercase();
        format!("https://istio.io/latest/docs/reference/config/analysis/{code}/")
    }
}

/// Start of the codes that Istio has not.
const OWN: &str = "OUT";
const POLICIES: &str =
    "https://istio.io/latest/docs/reference/config/security/peer_authentication/";

/// Displays the message as Istio's command does: `Warning [IST0103] (Pod default/x) …`.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind: MessageKind { code, level }, origin, text } = self;
        write!(f, "{level} [{code}] ({origin}")?;
        if !origin.place.is_empty() {
            write!(f, " {}", origin.place)?;
        }
        write!(f, ") {text}")
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "Info",
            Self::Warning => "Warning",
            Self::Error => "Error",
        })
    }
}

/// Displays the object as `Pod default/x`.
impl fmt::Display for MessageOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, .. } = self;
        match namespace.as_str() {
            "" => write!(f, "{kind} {name}"),
            namespace => write!(f, "{kind} {namespace}/{name}"),
        }
    }
}
