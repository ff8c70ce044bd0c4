//! Numbers that exceed every float, such as the commit hash `12e4567`. Go reads them as strings,
//! but the library rejects them. A quoted one is a string for both.

use std::borrow::Cow;

use serde_saphyr::Error;

/// Parses a text with the library, which gets such numbers in quotes.
pub(super) fn parse<T>(text: &str, library: impl Fn(&str) -> Result<T, Error>) -> Result<T, Error> {
    let mut text = Cow::Borrowed(text);
    for _ in 0..MOST_NUMBERS {
        match library(&text) {
            Err(error) => match with_quotes(&text, &error) {
                Some(quoted) => text = quoted.into(),
                None => return Err(error),
            },
            value => return value,
        }
    }
    library(&text)
}

/// Returns the text with quotes around the number of the error; `None` for other errors.
fn with_quotes(text: &str, error: &Error) -> Option<String> {
    let Error::NonFiniteFloat { value, location } = error.without_snippet() else { return None };
    let digits = value.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    if !digits {
        // Go rejects `.inf` and `.nan` too: JSON does not have them.
        return None;
    }
    let line = usize::try_from(location.line()).ok()?.checked_sub(1)?;
    let column = usize::try_from(location.column()).ok()?.checked_sub(1)?;
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let column: usize = text[start..].chars().take(column).map(char::len_utf8).sum();
    // An anchor or a tag may stand before the number.
    let start = start + column + text[start + column..].find(&**value)?;
    let (before, number) = text.split_at(start);
    let (number, after) = number.split_at(value.len());
    Some([before, "\"", number, "\"", after].concat())
}

/// Most numbers that are quoted: each costs another parse of the text.
const MOST_NUMBERS: usize = 256;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::yaml::{parse, parse_first};

    #[test]
    fn number_beyond_floats_is_a_string_as_in_go() {
        for (text, value) in [
            ("12e4567", json!("12e4567")),
            ("a: &x 1\nk: 12e4567", json!({"a": 1, "k": "12e4567"})),
            ("a: &x -1E400\nb: *x", json!({"a": "-1E400", "b": "-1E400"})),
            (
                "é: !!str 1\nk: [ü, 12e4567, 12e4567]",
                json!({"é": "1", "k": ["ü", "12e4567", "12e4567"]}),
            ),
            (
                "a: &x {12e4567: +.5e999}\nb: {<<: *x}",
                json!({"a": {"12e4567": "+.5e999"}, "b": {"12e4567": "+.5e999"}}),
            ),
        ] {
            assert_eq!(parse(text), Ok(value.clone()), "{text}");
            assert_eq!(parse_first(text), Ok((value, None)), "{text}");
        }
        let repeated = "a: &x 12e4567\na: *x\n";
        assert!(parse(repeated).is_err());
        assert_eq!(parse_first(repeated).unwrap().0, json!({"a": "12e4567"}));
        for text in ["a: &x -.inf", "a: &x 1\nb: .nan"] {
            assert!(parse(text).is_err() && parse_first(text).is_err(), "{text}");
        }
    }
}
