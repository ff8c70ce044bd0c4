//! What is wrong with a value, and how the user learns of it.

use std::fmt;

/// One wrong value: where it was given, what it is, why it is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The flag or variable, as the user typed it.
    pub source: String,
    /// The value, unchanged.
    pub value: String,
    /// Why it is refused, and perhaps what to do.
    pub fault: Fault,
}

/// Why a text is not a value of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Completes the sentence "this value …".
    pub reason: String,
    /// What the user may do about it.
    pub hint: Option<String>,
}

impl Fault {
    /// A fault without advice.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), hint: None }
    }

    /// The same fault with advice.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}` {}", self.source, self.value, self.fault.reason)?;
        match &self.fault.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}
