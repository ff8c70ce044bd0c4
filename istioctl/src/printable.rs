//! Texts of others on a terminal.

use std::fmt;

/// Display of a name or a value on one line: characters that move the cursor, change colours or
/// reverse the text are shown as escapes.
pub(super) struct Printable<'a>(pub(super) &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, is_special)
    }
}

/// Display of a message: as [`Printable`], with its line breaks.
pub(super) struct Lines<'a>(pub(super) &'a str);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, |c| is_special(c) && c != '\n' && c != '\t')
    }
}

fn write(f: &mut fmt::Formatter<'_>, text: &str, is_escaped: fn(char) -> bool) -> fmt::Result {
    for part in text.split_inclusive(is_escaped) {
        let last = part.chars().next_back().filter(|last| is_escaped(*last));
        let plain = &part[..part.len() - last.map_or(0, char::len_utf8)];
        f.write_str(plain)?;
        if let Some(last) = last {
            write!(f, "{}", last.escape_default())?;
        }
    }
    Ok(())
}

/// True for control characters and those that override the direction of text.
fn is_special(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_escaped() {
        let text = "a\n\u{1b}[1mb\u{202e}\u{fc}\t";
        assert_eq!(Printable(text).to_string(), "a\\n\\u{1b}[1mb\\u{202e}\u{fc}\\t");
        assert_eq!(Lines(text).to_string(), "a\n\\u{1b}[1mb\\u{202e}\u{fc}\t");
    }
}
