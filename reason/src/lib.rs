//! Reasons: explanations of decisions and warnings.

pub mod hint;
#[cfg(test)]
mod reference;
pub mod words;

use std::borrow::Cow;
use std::fmt;

use words::{Hint, Word};

/// A word, a message and a hint. The same word appears in the admission warning, the log line, the
/// metric label and the output of `istioctl`.
///
/// The displayed form is `message (word)`, followed by `; hint: …` if there is a hint. It has one
/// line, as the API server requires of admission warnings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reason {
    word: &'static Word,
    message: Cow<'static, str>,
    hint: Option<Cow<'static, str>>,
}

impl Reason {
    /// Returns a reason with a word of the table, a message, and the word's fixed hint.
    pub fn new(word: &'static Word, message: impl Into<Cow<'static, str>>) -> Self {
        let hint = match word.hint() {
            Hint::Fixed(hint) => Some(hint.into()),
            Hint::None | Hint::Varies(_) => None,
        };
        Self { word, message: message.into(), hint }
    }

    /// Adds a hint to a word whose hint varies: the action that the user can take.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        debug_assert!(
            matches!(self.word.hint(), Hint::Varies(_)),
            "the table of words has another hint for {}",
            self.word.as_str()
        );
        self.hint = Some(hint.into());
        self
    }

    /// Returns the word, one of a small fixed set.
    pub fn word(&self) -> &'static str {
        self.word.as_str()
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
        write!(f, "{} ({})", self.message, self.word())?;
        match &self.hint {
            Some(hint) => write!(f, "{}{hint}", hint::SEPARATOR),
            None => Ok(()),
        }
    }
}
