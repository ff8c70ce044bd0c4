//! Errors with their causes on one line.

use std::error::Error;

use kube::config::KubeconfigError;
use kube::core::Status;

/// Formats an error followed by its causes, outermost first.
///
/// Some errors already contain their cause in their own text; it is not repeated. An answer of the
/// API server is formatted as its message: kube's own text has the whole object for debugging.
/// Layers of a client that only wrap another error, and numbers of system errors, are left out.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        next = error.source();
        let message = without_numbers(&message(error));
        if next.is_some() && is_layer(error, &message) || text.contains(&message) {
            continue;
        }
        text.push_str(if text.is_empty() { "" } else { ": " });
        text.push_str(&message);
    }
    text
}

/// True if a request to the API server had no answer.
pub fn is_unanswered(error: &(dyn Error + 'static)) -> bool {
    let mut errors = std::iter::successors(Some(error), |&error| error.source());
    errors.any(|error| matches!(of_client(error), Some(kube::Error::Service(_))))
}

fn message(error: &(dyn Error + 'static)) -> String {
    if let Some(KubeconfigError::Parse(problem)) = of_kubeconfig(error) {
        // The further lines show the file.
        let problem = problem.to_string();
        let problem = problem.lines().next().unwrap_or_default();
        return format!("not a kubeconfig: {}", problem.trim_start_matches("error: "));
    }
    let status = match of_client(error) {
        Some(kube::Error::Api(status)) => Some(status),
        // The source of `kube::Error::Api`.
        _ => error.downcast_ref::<Box<Status>>(),
    };
    let status = status.filter(|status| !status.message.is_empty());
    status.map_or_else(|| error.to_string(), |status| status.message.clone())
}

/// True for an error that says nothing which its cause does not.
fn is_layer(error: &(dyn Error + 'static), message: &str) -> bool {
    matches!(of_client(error), Some(kube::Error::Service(_)))
        || matches!(of_kubeconfig(error), Some(KubeconfigError::ReadConfig(..)))
        || message.starts_with("client error (")
}

/// Returns the client's error, also from the box of our own error.
fn of_client<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a kube::Error> {
    error.downcast_ref().or_else(|| error.downcast_ref::<Box<kube::Error>>().map(|it| &**it))
}

/// Returns the client's error about a kubeconfig, also from the box of our own error.
fn of_kubeconfig<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a KubeconfigError> {
    error.downcast_ref().or_else(|| error.downcast_ref::<Box<KubeconfigError>>().map(|it| &**it))
}

/// Returns a text without the numbers that Rust adds to the texts of system errors.
fn without_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.parse::<i32>().is_ok() => shown.push_str(rest),
            _ => shown.extend([" (os error ", part]),
        }
    }
    shown
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

    #[derive(Debug, thiserror::Error)]
    #[error("f: {}", with_causes(source.as_ref()))]
    struct NoKubeconfig {
        source: Box<KubeconfigError>,
    }

    #[test]
    fn layers_and_numbers_of_system_errors_are_left_out() {
        let refused = || std::io::Error::from_raw_os_error(111);
        let service = NotFound(kube::Error::Service(Box::new(refused())));
        assert_eq!(with_causes(&service), "finding the pod: Connection refused");
        assert!(is_unanswered(&service));
        let missing =
            KubeconfigError::ReadConfig(std::io::Error::from_raw_os_error(2), "/a".into());
        assert_eq!(with_causes(&missing), "No such file or directory");
        assert!(!is_unanswered(&missing));
        let boxed = NoKubeconfig { source: Box::new(missing) };
        assert_eq!(with_causes(&boxed), "f: No such file or directory");
        let invalid = kube::config::Kubeconfig::from_yaml("- a").unwrap_err();
        let text = with_causes(&invalid);
        assert!(text.starts_with("not a kubeconfig: line 1 column 1: "), "{text}");
        assert_eq!(without_numbers("a (os error x) (os error 5): b"), "a (os error x): b");
    }

    #[test]
    fn each_cause_appears_once() {
        let text = with_causes(&WithoutCause(WithCause(std::fmt::Error)));
        assert_eq!(text, format!("outer: middle: {}", std::fmt::Error));
    }
}
