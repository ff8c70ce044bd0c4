//! YAML output that every parser reads alike.

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use super::YamlError;

/// Returns a value as a block document that ends with a line break.
///
/// Strings that a YAML 1.1 parser would read as another type (`yes`, `1_000`, `12:30:45`) are
/// quoted, so that Go's parser returns the same value.
pub fn to_string(value: &Value) -> Result<String, YamlError> {
    let options = serde_saphyr::ser_options! {
        folded_wrap_chars: NEVER_FOLDED,
    };
    serde_saphyr::to_string_with_options(&Guarded(value), options).map_err(|error| YamlError {
        line: 0,
        column: 0,
        problem: error.to_string(),
    })
}

/// A value whose strings are written so that libyaml accepts them.
struct Guarded<'a>(&'a Value);

impl Serialize for Guarded<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) => {
                let mut seq = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    seq.serialize_element(&Self(item))?;
                }
                seq.end()
            }
            Value::Object(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, &Self(value))?;
                }
                map.end()
            }
            Value::String(text) if !suits_a_block(text) => {
                serde_saphyr::DoubleQuoted(text).serialize(serializer)
            }
            Value::String(text) if is_json(text) => {
                serde_saphyr::SingleQuoted(text).serialize(serializer)
            }
            scalar => scalar.serialize(serializer),
        }
    }
}

/// True if the text can be a block scalar. libyaml rejects a block scalar whose first line of text
/// starts with a TAB. A block scalar that ends with empty lines would absorb empty lines after it.
fn suits_a_block(text: &str) -> bool {
    let body = text.trim_start_matches('\n');
    !body.starts_with('\t') && !text.ends_with("\n\n") && (text.is_empty() || !body.is_empty())
}

/// True if the text is JSON that needs no escapes in single quotes, where it is easier to read.
fn is_json(text: &str) -> bool {
    let printable = |c: char| c != '\'' && (c == ' ' || c.is_ascii_graphic());
    text.starts_with(['{', '[']) && text.contains('"') && text.chars().all(printable)
}

/// Line width that disables folding. Folding would only split long strings over several lines.
const NEVER_FOLDED: usize = 1 << 30;
