//! Errors of others with their causes on one line.

use std::error::Error;

/// Writes an error and what caused it, outermost first.
///
/// Errors of this crate say their cause themselves; a cause that was said is not said again.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Silent(#[source] Telling);

    #[derive(Debug, thiserror::Error)]
    #[error("middle: {0}")]
    struct Telling(#[source] std::fmt::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("whole: {}", with_causes(source))]
    struct Whole {
        source: Silent,
    }

    #[test]
    fn what_says_all_of_its_causes_is_followed_by_none_of_them() {
        let whole = Whole { source: Silent(Telling(std::fmt::Error)) };
        assert_eq!(with_causes(&whole), format!("whole: outer: middle: {}", std::fmt::Error));
    }

    #[test]
    fn each_cause_is_said_once() {
        let text = with_causes(&Silent(Telling(std::fmt::Error)));
        assert_eq!(text, format!("outer: middle: {}", std::fmt::Error));
    }
}
