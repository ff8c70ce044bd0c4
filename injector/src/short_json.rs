//! JSON that a pod's variables and annotations hold.
//!
//! The values in a body are counted before it is parsed, but text inside of a string counts as one
//! value. So JSON text of a pod is parsed up to a length only: no injection writes more, since it
//! comes from annotations and ports.

use serde::Deserialize;

use crate::limits::ANNOTATION_BYTES;

/// Parses JSON text of at most 256 KiB; `None` if it is longer or has another type.
pub(crate) fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    if text.len() > ANNOTATION_BYTES {
        return None;
    }
    serde_json::from_str(text).ok()
}

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
