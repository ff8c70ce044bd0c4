//! Files of Kubernetes' downward API: labels and annotations of the pod.

use std::collections::BTreeMap;
use std::str::Chars;

/// Invalid label or annotation.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum InvalidLine {
    /// The line has another form, which the kubelet does not write.
    #[error("line {0} is not KEY=\"VALUE\"")]
    Form(usize),
    /// The value is no text.
    #[error("the value of {0} is not UTF-8 text")]
    Text(String),
}

/// Parses lines `key="value"`. The value is a string as Go quotes it. Blank lines are left out.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, InvalidLine> {
    let entry = |(number, line): (usize, &str)| {
        let quoted = line.split_once('=').filter(|(key, _)| !key.is_empty());
        let entry = quoted.and_then(|(key, value)| Some((key, unquote(value)?)));
        let (key, value) = entry.ok_or(InvalidLine::Form(number))?;
        let text = String::from_utf8(value).map_err(|_| InvalidLine::Text(key.to_owned()))?;
        Ok((key.to_owned(), text))
    };
    (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()).map(entry).collect()
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
    fn malformed_line_is_an_error() {
        for line in ["a=b", "c", "=\"\"", "d=\"x\\q\"", "e=\"\\\"", "f=\"\\u12\""] {
            let error = parse(&format!("ok=\"1\"\n\n{line}\n")).unwrap_err();
            assert_eq!(error.to_string(), "line 3 is not KEY=\"VALUE\"", "{line}");
        }
    }

    #[test]
    fn escaped_bytes_that_are_no_text_are_an_error() {
        assert_eq!(parse("a=\"\\xc3\\xa9\"").unwrap()["a"], "é");
        let error = parse("a=\"b\"\nshop/x=\"b\\xff\"\n").unwrap_err().to_string();
        assert_eq!(error, "the value of shop/x is not UTF-8 text");
    }
}
