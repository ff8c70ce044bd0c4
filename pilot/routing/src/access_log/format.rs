//! Formats of access logs. Envoy rejects a listener whose format is invalid, and the format is the
//! same for all proxies.

use std::fmt::{self, Display, Formatter};

use serde_json::Value;
use thiserror::Error;

use super::operators::check;

/// Invalid format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {problem}")]
pub struct InvalidFormat {
    place: String,
    problem: Problem,
}

/// Problem of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    Percent,
    Unknown,
    NoArguments,
    NeedsArguments,
    NoLength,
    Field,
    Header(String),
    Argument(String, &'static [&'static str]),
}

impl Display for Problem {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent => formatter.write_str(
                "no operator begins here: expected %NAME%, %NAME(ARGUMENTS)% or \
                 %NAME(ARGUMENTS):LENGTH%; hint: %% is a percent sign",
            ),
            Self::Unknown => formatter.write_str("unknown or unsupported operator"),
            Self::NoArguments => formatter.write_str("the operator takes no arguments"),
            Self::NeedsArguments => formatter.write_str("the operator needs an argument"),
            Self::NoLength => formatter.write_str("the operator takes no length"),
            Self::Field => {
                formatter.write_str("expected KEY, KEY:PLAIN, KEY:TYPED or KEY:FIELD:NAME")
            }
            Self::Header(found) => {
                write!(formatter, "{found:?}: expected the name of a header, or two with ? between")
            }
            Self::Argument(found, words) => {
                write!(formatter, "invalid argument {found:?}")?;
                let words: Vec<&str> =
                    words.iter().copied().filter(|word| !word.is_empty()).collect();
                if words.is_empty() {
                    return Ok(());
                }
                write!(formatter, ": expected one of {}", words.join(", "))
            }
        }
    }
}

/// Validates a text with operators.
pub fn check_text(text: &str) -> Result<(), InvalidFormat> {
    let mut rest = text;
    while let Some(start) = rest.find('%') {
        rest = &rest[start..];
        if let Some(after) = rest.strip_prefix("%%") {
            rest = after;
            continue;
        }
        let Some(operator) = Operator::parse(rest) else {
            let place = rest.chars().take(SHOWN).collect();
            return Err(InvalidFormat { place, problem: Problem::Percent });
        };
        let (text, after) = rest.split_at(operator.length);
        check(operator.name, operator.arguments, operator.has_length)
            .map_err(|problem| InvalidFormat { place: text.to_owned(), problem })?;
        rest = after;
    }
    Ok(())
}

/// Validates the texts in a value. Names of fields are no formats.
pub fn check_value(value: &Value) -> Result<(), InvalidFormat> {
    match value {
        Value::String(text) => check_text(text),
        Value::Array(items) => items.iter().try_for_each(check_value),
        Value::Object(fields) => fields.values().try_for_each(check_value),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// Operator at the begin of a text.
struct Operator<'a> {
    name: &'a str,
    arguments: &'a str,
    has_length: bool,
    /// Bytes of the operator.
    length: usize,
}

impl<'a> Operator<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let inner = text.strip_prefix('%')?;
        let is_name = |it: char| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_';
        let end = inner.find(|it| !is_name(it)).filter(|end| *end > 0)?;
        let (name, rest) = inner.split_at(end);
        let (arguments, rest) = match rest.strip_prefix('(') {
            // The first parenthesis after which the operator can end is the end of its arguments.
            Some(rest) => rest.match_indices(')').find_map(|(end, _)| {
                let (arguments, after) = (&rest[..end], &rest[end + 1..]);
                (!arguments.contains('\n') && tail(after).is_some()).then_some((arguments, after))
            })?,
            None => ("", rest),
        };
        let (has_length, rest) = tail(rest)?;
        Some(Self { name, arguments, has_length, length: text.len() - rest.len() })
    }
}

/// Parses the end of an operator, `%` or `:LENGTH%`. Returns what follows.
fn tail(text: &str) -> Option<(bool, &str)> {
    if let Some(rest) = text.strip_prefix('%') {
        return Some((false, rest));
    }
    let (length, rest) = text.strip_prefix(':')?.split_once('%')?;
    let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && length.parse::<u64>().is_ok()).then_some((true, rest))
}

/// Characters of an invalid format in its message.
const SHOWN: usize = 20;
