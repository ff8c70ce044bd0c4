//! Errors about user input.

use std::fmt;

use reason::hint::SEPARATOR;

/// Error about one value of a flag or variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// The flag or variable, as the user typed it.
    pub source: String,
    /// The value, unchanged.
    pub value: String,
    /// Reason, and a hint if there is one.
    pub error: ValueError,
}

/// Reason why text is not a valid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError {
    /// Completes the sentence "this value …".
    pub reason: String,
    /// Suggestion for the user.
    pub hint: Option<String>,
}

impl ValueError {
    /// Creates an error without a hint.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), hint: None }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// User text for messages: on one line, escaped and cut, so that it can neither forge nor flood a
/// log.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0;
        let end = text.char_indices().nth(MOST_SHOWN).map_or(text.len(), |(end, _)| end);
        text[..end].chars().try_for_each(|c| match c {
            '\'' | '"' | '\\' => write!(f, "{c}"),
            _ => write!(f, "{}", c.escape_debug()),
        })?;
        if end == text.len() { Ok(()) } else { write!(f, "… ({} bytes)", text.len()) }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}` {}", self.source, Escaped(&self.value), self.error.reason)?;
        match &self.error.hint {
            Some(hint) => write!(f, "{SEPARATOR}{hint}"),
            None => Ok(()),
        }
    }
}

/// Longer than any reasonable list element.
const MOST_SHOWN: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_value_is_cut_with_its_length() {
        let shown = Escaped(&"é".repeat(60_000)).to_string();
        assert_eq!(shown, "é".repeat(100) + "… (120000 bytes)");
        assert_eq!(Escaped(&"x".repeat(100)).to_string(), "x".repeat(100));
        assert_eq!(
            Escaped(&"\u{1b}".repeat(101)).to_string(),
            "\\u{1b}".repeat(100) + "… (101 bytes)"
        );
    }

    #[test]
    fn value_cannot_forge_a_log_line() {
        let error = InputError {
            source: "--proxy-uid".to_owned(),
            value: "1\nerror: \"\u{1b}[31mit's\u{202e} é".to_owned(),
            error: ValueError::new("is not a user"),
        };
        let text = error.to_string();
        insta::assert_snapshot!(
            text,
            @r#"--proxy-uid: `1\nerror: "\u{1b}[31mit's\u{202e} é` is not a user"#
        );
    }
}
