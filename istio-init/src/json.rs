//! Minimal JSON writer (RFC 8259).
//!
//! The program writes little JSON and reads none; this saves a serializer.

use std::fmt::{self, Write as _};

/// A JSON value. Object members keep their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Number(u64),
    /// Text, unescaped.
    Text(String),
    /// Values in their order.
    List(Vec<Json>),
    /// Names and their values.
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    /// Creates text.
    pub fn text(value: impl fmt::Display) -> Self {
        Self::Text(value.to_string())
    }

    /// Formats the value on several lines, with a final line feed.
    pub fn pretty(&self) -> String {
        let mut text = String::new();
        self.write_lines(&mut text, 0);
        text.push('\n');
        text
    }

    fn write_lines(&self, text: &mut String, depth: usize) {
        let new_line = |text: &mut String, depth: usize| {
            text.push('\n');
            text.extend(std::iter::repeat_n("  ", depth));
        };
        match self {
            Self::List(values) if !values.is_empty() => {
                for (index, value) in values.iter().enumerate() {
                    text.push(if index == 0 { '[' } else { ',' });
                    new_line(text, depth + 1);
                    value.write_lines(text, depth + 1);
                }
                new_line(text, depth);
                text.push(']');
            }
            Self::Object(members) if !members.is_empty() => {
                for (index, (name, value)) in members.iter().enumerate() {
                    text.push(if index == 0 { '{' } else { ',' });
                    new_line(text, depth + 1);
                    // Writing to a string cannot fail.
                    let _ = write!(text, "\"{name}\": ");
                    value.write_lines(text, depth + 1);
                }
                new_line(text, depth);
                text.push('}');
            }
            other => {
                let _ = write!(text, "{other}");
            }
        }
    }
}

/// Writes the value on one line.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::Number(value) => value.fmt(f),
            Self::Text(text) => write_text(text, f),
            Self::List(values) => {
                f.write_char('[')?;
                for (index, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if index == 0 { "" } else { "," })?;
                }
                f.write_char(']')
            }
            Self::Object(members) => {
                f.write_char('{')?;
                for (index, (name, value)) in members.iter().enumerate() {
                    write!(f, "{}\"{name}\":{value}", if index == 0 { "" } else { "," })?;
                }
                f.write_char('}')
            }
        }
    }
}

fn write_text(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    for character in text.chars() {
        match character {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            control if u32::from(control) < 0x20 => write!(f, "\\u{:04x}", u32::from(control))?,
            other => f.write_char(other)?,
        }
    }
    f.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_compact_and_pretty() {
        let value = Json::Object(vec![
            ("empty", Json::List(Vec::new())),
            ("list", Json::List(vec![Json::Number(1), Json::Bool(true), Json::Null])),
            ("text", Json::text("a \"b\"\\\n\u{1}é")),
        ]);
        let line = "{\"empty\":[],\"list\":[1,true,null],\"text\":\"a \\\"b\\\"\\\\\\n\\u0001é\"}";
        assert_eq!(value.to_string(), line);
        let pretty = value.pretty();
        assert!(pretty.starts_with("{\n  \"empty\": [],\n  \"list\": [\n    1,\n"), "{pretty}");
        assert!(pretty.ends_with("é\"\n}\n"), "{pretty}");
    }
}
