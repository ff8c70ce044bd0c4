//! Reasons: explanations of decisions and warnings.

use std::borrow::Cow;
use std::fmt;

/// A word, a message and a hint. The same word appears in the admission warning, the log line, the
/// metric label and the output of `istioctl`.
///
/// The displayed form is `message (word)`, followed by `; hint: …` if there is a hint. It has one
/// line, as the API server requires of admission warnings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reason {
    word: &'static str,
    message: Cow<'static, str>,
    hint: Option<Cow<'static, str>>,
}

impl Reason {
    /// Returns a reason with a word and a message. The word is in lower case, joined by `_`, and
    /// fits a metric label.
    pub fn new(word: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { word, message: message.into(), hint: None }
    }

    /// Adds a hint: the action that the user can take.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the word, one of a small fixed set.
    pub fn word(&self) -> &'static str {
        self.word
    }

    /// Returns the message, a sentence without a full stop.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the hint.
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
