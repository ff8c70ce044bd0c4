//! Truncation of long text for messages.

use std::borrow::Cow;

/// Returns the text, truncated to the length that fits into a message.
pub fn shorten(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(CHARACTERS) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}… ({} bytes)", &text[..end], text.len())),
    }
}

const CHARACTERS: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_at_a_character_boundary() {
        assert_eq!(shorten("short"), "short");
        let long = shorten(&"ü".repeat(501)).into_owned();
        assert!(long.starts_with('ü') && long.ends_with("ü… (1002 bytes)"), "{long}");
    }
}
