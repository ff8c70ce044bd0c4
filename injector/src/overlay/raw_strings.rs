//! Raw strings of a template, which the engine reads as if a backslash in them meant something.

use std::borrow::Cow;

/// The text with every raw string that holds a backslash written between quotes; all else stays
/// where it is.
pub(super) fn quoted(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') || !text.contains('`') {
        return Cow::Borrowed(text);
    }
    let mut written = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let (before, action) = rest.split_at(start);
        written.push_str(before);
        rest = action_of(action, &mut written);
    }
    written.push_str(rest);
    Cow::Owned(written)
}

/// Writes one action and returns what follows it.
fn action_of<'a>(action: &'a str, written: &mut String) -> &'a str {
    let opening = action.trim_start_matches(['{', '-', ' ', '\n', '\t']);
    if opening.starts_with("/*") {
        let end = action.find("*/").map_or(action.len(), |end| end + 2);
        written.push_str(&action[..end]);
        return &action[end..];
    }
    let mut rest = action;
    loop {
        let Some(place) = rest.find(['"', '\'', '`', '}']) else {
            written.push_str(rest);
            return "";
        };
        let (before, token) = rest.split_at(place);
        written.push_str(before);
        let length = match token.as_bytes()[0] {
            b'}' => 1,
            b'`' => token[1..].find('`').map_or(token.len(), |end| end + 2),
            quote => closing(token, quote),
        };
        let (token, after) = token.split_at(length);
        if token.starts_with('`') && token.contains('\\') {
            push_quoted(token.trim_matches('`'), written);
        } else {
            written.push_str(token);
        }
        rest = after;
        if token == "}" && written.ends_with("}}") {
            return rest;
        }
    }
}

/// The length of a quoted string.
pub(super) fn closing(token: &str, quote: u8) -> usize {
    let mut escaped = false;
    for (place, byte) in token.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            byte if byte == quote => return place + 1,
            _ => {}
        }
    }
    token.len()
}

fn push_quoted(raw: &str, written: &mut String) {
    written.push('"');
    for c in raw.chars() {
        match c {
            '"' | '\\' => written.extend(['\\', c]),
            '\n' => written.push_str("\\n"),
            '\r' => {}
            c => written.push(c),
        }
    }
    written.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_raw_strings_with_a_backslash_change() {
        for (text, expected) in [
            (r"a `\d` b", r"a `\d` b"),
            (r"{{ f `\d` }} `\d`", r#"{{ f "\\d" }} `\d`"#),
            (r#"{{ f `a` "`\"" `"\` }}"#, r#"{{ f `a` "`\"" "\"\\" }}"#),
            (r"{{/* `\d` */}}{{ `\}}` }}", r#"{{/* `\d` */}}{{ "\\}}" }}"#),
            (r"{{ `\", r#"{{ "\\""#),
            ("{{ `\\a\nb` }}", r#"{{ "\\a\nb" }}"#),
        ] {
            assert_eq!(quoted(text), expected, "{text}");
        }
    }
}
