//! Why something happened that a user may not have expected.

use std::borrow::Cow;
use std::fmt;

/// A word, a message and a hint: the same word stands in the admission warning, the log line,
/// the metric label and the output of `istioctl`.
///
/// The displayed form is `message (word)`, followed by `; hint: …` where there is a hint, on one
/// line, as the API server requires of admission warnings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reason {
    word: &'static str,
    message: Cow<'static, str>,
    hint: Option<Cow<'static, str>>,
}

impl Reason {
    /// Makes a reason from its word (lower case, words joined by `_`, fit for a metric label) and
    /// its message.
    pub fn new(word: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { word, message: message.into(), hint: None }
    }

    /// Adds what the user can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The word: one of a small fixed set.
    pub fn word(&self) -> &'static str {
        self.word
    }

    /// What happened, in a sentence without a full stop.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.word)?;
        match &self.hint {
            Some(hint) => write!(f, "; hint: {hint}"),
            None => Ok(()),
        }
    }
}
