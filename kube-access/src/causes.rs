//! Errors with their causes on one line.

use std::error::Error;

use kube::core::Status;

/// Formats an error followed by its causes, outermost first.
///
/// Some errors already contain their cause in their own text; it is not repeated. An answer of the
/// API server is formatted as its message: kube's own text has the whole object for debugging.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = message(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = message(error);
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    text
}

fn message(error: &(dyn Error + 'static)) -> String {
    let status = match error.downcast_ref() {
        Some(kube::Error::Api(status)) => Some(status),
        // The source of `kube::Error::Api`.
        _ => error.downcast_ref::<Box<Status>>(),
    };
    let status = status.filter(|status| !status.message.is_empty());
    status.map_or_else(|| error.to_string(), |status| status.message.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("finding the pod")]
    struct NotFound(#[source] kube::Error);

    #[test]
    fn answer_of_the_api_server_is_its_message() {
        let status = Status { message: "pods \"a\" not found".to_owned(), ..Status::default() };
        let error = NotFound(kube::Error::Api(Box::new(status)));
        assert_eq!(with_causes(&error), "finding the pod: pods \"a\" not found");
    }

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
