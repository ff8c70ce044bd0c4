//! Rewriting of string literals that the engine parses differently from Go. The engine interprets
//! backslashes in raw strings, and does not support all of Go's escapes in interpreted strings.

use super::actions::{Piece, pieces};
use super::edits::{Edits, Rewritten};

/// Rewrites every string literal with a backslash so that the engine gets the value that Go would.
/// Leaves all other text unchanged, also invalid strings, which the engine rejects itself.
pub(in crate::template) fn rewritten(text: &str) -> Rewritten {
    let mut edits = Edits::default();
    let mut at = 0;
    for piece in pieces(text) {
        let (Piece::Text(string)
        | Piece::Code(string)
        | Piece::Quoted(string)
        | Piece::Raw(string)) = piece;
        let value = match piece {
            Piece::Raw(string) if string.contains('\\') => {
                Some(string.trim_matches('`').replace('\r', ""))
            }
            Piece::Quoted(string) if string.starts_with('"') && string.contains('\\') => {
                value_of(string)
            }
            _ => None,
        };
        if let Some(value) = value {
            edits.replace(at..at + string.len(), written(&value));
        }
        at += string.len();
    }
    edits.apply(text)
}

/// Writes a string literal with escapes that the engine supports.
fn written(value: &str) -> String {
    let mut written = String::with_capacity(value.len() + 4);
    written.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => written.extend(['\\', c]),
            '\n' => written.push_str("\\n"),
            c => written.push(c),
        }
    }
    written.push('"');
    written
}

/// Returns the value of one of Go's interpreted strings (Go specification, "String literals");
/// `None` if it is invalid or its bytes are not UTF-8.
fn value_of(string: &str) -> Option<String> {
    let mut rest = string.strip_prefix('"')?.strip_suffix('"')?;
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some((before, escape)) = rest.split_once('\\') {
        bytes.extend(before.as_bytes());
        let letter = escape.chars().next()?;
        let after = &escape[letter.len_utf8()..];
        let (digits, radix, length) = match letter {
            'x' => (after, 16, 2),
            'u' => (after, 16, 4),
            'U' => (after, 16, 8),
            '0'..='7' => (escape, 8, 3),
            letter => {
                bytes.push(simple(letter)?);
                rest = after;
                continue;
            }
        };
        let code = digits.get(..length).filter(|code| code.chars().all(|c| c.is_digit(radix)))?;
        let code = u32::from_str_radix(code, radix).ok()?;
        if letter == 'u' || letter == 'U' {
            bytes.extend(char::from_u32(code)?.encode_utf8(&mut [0; 4]).as_bytes());
        } else {
            bytes.push(u8::try_from(code).ok()?);
        }
        rest = &digits[length..];
    }
    bytes.extend(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

fn simple(letter: char) -> Option<u8> {
    Some(match letter {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        '"' => b'"',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_strings_with_backslash_become_quoted_strings() {
        for (text, expected) in [
            (r"a `\d` b", r"a `\d` b"),
            (r"{{ f `\d` }} `\d`", r#"{{ f "\\d" }} `\d`"#),
            (r#"{{ f `a` "`\"" `"\` }}"#, r#"{{ f `a` "`\"" "\"\\" }}"#),
            (r"{{/* `\d` */}}{{ `\}}` }}", r#"{{/* `\d` */}}{{ "\\}}" }}"#),
            (r"{{ `\", r#"{{ "\\""#),
            ("{{ `\\a\nb` }}", r#"{{ "\\a\nb" }}"#),
        ] {
            assert_eq!(rewritten(text).text, expected, "{text}");
        }
    }

    #[test]
    fn string_escapes_equal_go() {
        for (string, value) in [
            (r#""\x41\u0042""#, "AB"),
            (r#""\u00e9\n\U0001f600""#, "é\n😀"),
            (r#""\101\a\b\f\r\t\v""#, "A\u{7}\u{8}\u{c}\r\t\u{b}"),
            (r#""\xc3\xa9""#, "é"),
            (r#""\\u0042\"é""#, "\\u0042\"é"),
        ] {
            assert_eq!(value_of(string).as_deref(), Some(value), "{string}");
        }
        for string in
            [r#""\xff""#, r#""\q""#, r#""\'""#, r#""\u12""#, r#""\ud800""#, r#""\400""#, r#""\"#]
        {
            assert_eq!(value_of(string), None, "{string}");
            let action = format!("{{{{ {string} }}}}");
            assert_eq!(rewritten(&action).text, action);
        }
    }
}
