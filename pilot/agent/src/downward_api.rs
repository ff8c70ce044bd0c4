//! Files of Kubernetes' downward API: labels and annotations of the pod.

use std::collections::BTreeMap;
use std::str::Chars;

/// Label or annotation whose value is no text.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the value of {key} is not UTF-8 text")]
pub struct InvalidText {
    key: String,
}

/// Parses lines `key="value"`. The value is a string as Go quotes it. A line of another form is
/// left out, since the kubelet writes none.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, InvalidText> {
    let entry = |line: &str| {
        let (key, value) = line.split_once('=')?;
        let text = String::from_utf8(unquote(value)?);
        let text = text.map_err(|_| InvalidText { key: key.to_owned() });
        Some(text.map(|text| (key.to_owned(), text)))
    };
    text.lines().filter_map(entry).collect()
}

/// Returns the bytes of a string literal of Go; `None` if it is malformed.
fn unquote(literal: &str) -> Option<Vec<u8>> {
    let inner = literal.trim_end().strip_prefix('"')?.strip_suffix('"')?;
    let mut bytes = Vec::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let escaped = match chars.next()? {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'u' => char::from_u32(code(&mut chars, 4)?)?,
            'U' => char::from_u32(code(&mut chars, 8)?)?,
            // A single byte, which may be a part of invalid UTF-8.
            'x' => {
                bytes.push(u8::try_from(code(&mut chars, 2)?).ok()?);
                continue;
            }
            same @ ('\\' | '"' | '\'') => same,
            _ => return None,
        };
        bytes.extend(escaped.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Some(bytes)
}

fn code(chars: &mut Chars<'_>, length: usize) -> Option<u32> {
    let digits: String = chars.take(length).collect();
    u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_unquoted() {
        let entries = parse(concat!(
            "app=\"web\"\n",
            "proxy.istio.io/config=\"concurrency: 2\\nproxyMetadata:\\n  A: \\\"b\\\"\\n\"\n",
            "path=\"C:\\\\dir\\tx\"\n",
            "equal=\"a=b\"\n",
            "unicode=\"\\u00e9\\U0001f600 \\x41\"\n",
            "empty=\"\"\n",
        ))
        .unwrap();
        let expected = [
            ("app", "web"),
            ("empty", ""),
            ("equal", "a=b"),
            ("path", "C:\\dir\tx"),
            ("proxy.istio.io/config", "concurrency: 2\nproxyMetadata:\n  A: \"b\"\n"),
            ("unicode", "é😀 A"),
        ];
        let entries: Vec<_> = entries.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(entries, expected);
    }

    #[test]
    fn malformed_lines_are_left_out() {
        let text = "a=b\nc\n=\nd=\"x\\q\"\ne=\"\\\"\nf=\"\\u12\"\n";
        assert!(parse(text).unwrap().is_empty());
    }

    #[test]
    fn escaped_bytes_that_are_no_text_are_an_error() {
        assert_eq!(parse("a=\"\\xc3\\xa9\"").unwrap()["a"], "é");
        let error = parse("a=\"b\"\nshop/x=\"b\\xff\"\n").unwrap_err().to_string();
        assert_eq!(error, "the value of shop/x is not UTF-8 text");
    }
}
