//! Files of Kubernetes' downward API: labels and annotations of the pod.

use std::collections::BTreeMap;
use std::str::Chars;

/// Parses lines `key="value"`. The value is a string as Go quotes it. A line of another form is
/// left out, since the kubelet writes none.
pub fn parse(text: &str) -> BTreeMap<String, String> {
    let entry = |line: &str| {
        let (key, value) = line.split_once('=')?;
        Some((key.to_owned(), unquote(value)?))
    };
    text.lines().filter_map(entry).collect()
}

/// Returns the text of a string literal of Go; `None` if it is malformed.
fn unquote(literal: &str) -> Option<String> {
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
    Some(
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    )
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
        ));
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
        assert!(parse("a=b\nc\n=\nd=\"x\\q\"\ne=\"\\\"\nf=\"\\u12\"\n").is_empty());
    }
}
