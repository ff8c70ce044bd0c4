//! Errors with their causes on one line, for logs and status.

use std::error::Error;
use std::fmt::Write;

/// Writes an error and what caused it, outermost first.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Writing to a string cannot fail.
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::BundleError;
    use crate::secret::SecretError;

    #[test]
    fn causes_follow_the_error() {
        let error = SecretError::Bundle {
            source: BundleError::Empty,
        };
        assert_eq!(
            with_causes(&error),
            "key `ca.crt` holds no bundle of CAs: no certificate in it"
        );
    }
}
