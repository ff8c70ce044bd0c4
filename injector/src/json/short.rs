//! JSON in a pod's variables and annotations.
//!
//! The values of a body are counted before it is parsed, but JSON text inside a string counts as
//! one value. Therefore such text is parsed only up to a limit. Injection never writes more,
//! because the text comes from annotations and ports.

use serde::Deserialize;

/// Parses JSON text of at most 256 KiB; `None` if it is longer or has another type.
pub(crate) fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    if text.len() > ANNOTATION_BYTES {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// The bytes that Kubernetes allows in the annotations of an object, keys and values together
/// (`TotalAnnotationSizeLimitB` in `k8s.io/apimachinery/pkg/api/validation`).
pub(crate) const ANNOTATION_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn longer_text_is_not_parsed() {
        let list = |zeros: usize| format!("[{}0]", "0,".repeat(zeros));
        let limit = ANNOTATION_BYTES / 2 - 2;
        assert!(parse::<Vec<Value>>(&list(limit)).is_some());
        assert!(parse::<Vec<Value>>(&list(limit + 1)).is_none());
    }
}
