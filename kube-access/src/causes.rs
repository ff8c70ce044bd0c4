//! Errors with their causes on one line.

use std::error::Error;

/// Formats an error followed by its causes, outermost first.
///
/// Some errors already contain their cause in their own text; it is not repeated.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
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
    struct WithoutCause(#[source] WithCause);

    #[derive(Debug, thiserror::Error)]
    #[error("middle: {0}")]
    struct WithCause(#[source] std::fmt::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("whole: {}", with_causes(source))]
    struct WithAllCauses {
        source: WithoutCause,
    }

    #[test]
    fn causes_in_the_error_text_are_not_repeated() {
        let error = WithAllCauses { source: WithoutCause(WithCause(std::fmt::Error)) };
        assert_eq!(with_causes(&error), format!("whole: outer: middle: {}", std::fmt::Error));
    }

    #[test]
    fn each_cause_appears_once() {
        let text = with_causes(&WithoutCause(WithCause(std::fmt::Error)));
        assert_eq!(text, format!("outer: middle: {}", std::fmt::Error));
    }
}
