//! YAML parsing as in kubectl, and YAML output that every parser reads alike.
//!
//! Only this module uses the YAML library. It sets the library's options and works around three
//! traps: numbers with a leading zero, numbers beyond floats, and block scalars that begin with a
//! TAB.

mod beyond_floats;
mod continuation_lines;
mod error;
mod lines;
mod ordinary;
mod outdented;
mod output;
mod whole;

pub use self::error::YamlError;
pub use self::lines::line_of;
pub use self::outdented::{indented, outdented};
pub use self::output::to_string;

use granit_parser::Event;
use serde_json::Value;
use serde_saphyr::options::AliasLimits;

/// Parses one document.
///
/// As in kubectl, `0644` is the number 420, `8080.0` is 8080, `yes` is true, merge keys are
/// resolved, and an empty document is `null`. A repeated key is an error.
///
/// Aliases may expand to at most ten thousand values, or one for every 16 bytes of the text if that
/// is more.
pub fn parse(text: &str) -> Result<Value, YamlError> {
    parse_with(text, aliases(text))
}

/// Parses one document of a file that the user named. The limit on aliases is the library's
/// default, because thousands of workloads may share a part by aliases.
pub fn parse_file(text: &str) -> Result<Value, YamlError> {
    parse_with(text, AliasLimits::default())
}

fn parse_with(text: &str, aliases: AliasLimits) -> Result<Value, YamlError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match ordinary::parse(text, scalar) {
        Some(value) => Ok(value),
        None => by_library(text, aliases),
    }
}

/// Parses the first document of a text as Go's `sigs.k8s.io/yaml` does. The last value of a
/// repeated key counts, text after the first document is ignored, and a quoted string may continue
/// in any column.
///
/// The second part of the result is the error with which [`parse`] rejects the text, if it does.
pub fn parse_first(text: &str) -> Result<(Value, Option<YamlError>), YamlError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (text, strict) = match outdented::parse(text) {
        (_, Ok(value)) => return Ok((value, None)),
        (text, Err(error)) => (text, error),
    };
    let options = serde_saphyr::options! {
        budget: budget(),
        alias_limits: aliases(&text),
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        emit_comments: false,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let documents = beyond_floats::parse(&text, |text| {
        serde_saphyr::from_multiple_with_options::<Option<Value>>(text, options.clone())
    });
    let documents = documents.map_err(|error| YamlError::from_library(&error))?;
    let first = documents.into_iter().next().flatten().unwrap_or_default();
    Ok((whole::numbers(first), Some(strict)))
}

/// Returns the value of a document from its parser events, without comments. `None` if only
/// [`parse`] can parse it, for example because of anchors or tags.
pub fn of_events<'a>(events: impl Iterator<Item = Event<'a>>) -> Option<Value> {
    ordinary::read(events, scalar)
}

fn scalar(text: &str) -> Option<Value> {
    by_library(text, aliases(text)).ok()
}

/// True if a string needs no quotes in any YAML parser.
pub fn is_word(text: &str) -> bool {
    ordinary::is_word(text)
}

/// Parses with the library's own deserializer.
fn by_library(text: &str, aliases: AliasLimits) -> Result<Value, YamlError> {
    let options = serde_saphyr::options! {
        budget: budget(),
        alias_limits: aliases,
        emit_comments: false,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let library = |text: &str| serde_saphyr::from_str_with_options(text, options.clone());
    beyond_floats::parse(text, library)
        .map(|value: Option<Value>| whole::numbers(value.unwrap_or_default()))
        .map_err(|error| YamlError::from_library(&error))
}

/// Returns the library's limits, raised for a file of thousands of workloads: the text is from the
/// user who runs the program. Expansion of aliases has a limit of its own.
fn budget() -> Option<serde_saphyr::Budget> {
    serde_saphyr::budget! {
        max_events: 100_000_000,
        max_nodes: 50_000_000,
        max_recorded_anchor_events: 50_000_000,
        enforce_alias_anchor_ratio: false,
    }
}

/// Returns the limit on aliases. Without it, ten lines could expand to a thousand million values.
fn aliases(text: &str) -> AliasLimits {
    serde_saphyr::alias_limits! {
        max_total_replayed_events: (text.len() / 16).max(10_000),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn alias_expansion_is_limited_by_the_text_length() {
        let nested = |levels: usize, items: usize| {
            let level = |level: usize| {
                let item = if level == 0 { "x".to_owned() } else { format!("*a{}", level - 1) };
                format!("a{level}: &a{level} [{}]\n", vec![item; items].join(", "))
            };
            (0..levels).map(level).collect::<String>()
        };
        assert!(parse(&nested(3, 10)).is_ok());
        for error in [parse(&nested(6, 10)).unwrap_err(), parse_first(&nested(6, 10)).unwrap_err()]
        {
            assert!(error.problem.contains("aliases stand for too many values"), "{error}");
        }
        let shared = format!("a: &a [1, 2, 3, 4, 5]\nb:\n{}", "- *a\n".repeat(4_000));
        assert!(parse(&shared).is_err());
        assert!(parse_file(&shared).is_ok());
    }

    #[test]
    fn documents_parse_as_in_kubectl() {
        let read = |text| parse(text).unwrap();
        assert_eq!(read("mode: 0644"), json!({"mode": 420}));
        assert_eq!(read("a: yes"), json!({"a": true}));
        assert_eq!(
            read("a: &x {b: 1}\nc: {<<: *x, d: 2}"),
            json!({"a": {"b": 1}, "c": {"b": 1, "d": 2}})
        );
        assert_eq!(read(""), Value::Null);
        assert_eq!(read("# nothing\n"), Value::Null);
        assert_eq!(read("\u{feff}a: 1\r\n"), json!({"a": 1}));
        let numbers = read("[8080.0, 1e3, -0.0, 1.5, 1e19, {a: 2.0}]");
        assert_eq!(numbers.to_string(), r#"[8080,1000,0,1.5,1e+19,{"a":2}]"#);
        let hashes = json!({"commit": "12e4567", "-1E400": "+.5e999"});
        assert_eq!(read("commit: 12e4567\n-1E400: +.5e999\n"), hashes);
        assert_eq!(read(&to_string(&hashes).unwrap()), hashes);
        assert!(parse("a: .inf").is_err() && parse("a: .nan").is_err());
    }

    #[test]
    fn parse_error_has_line_and_column() {
        let error = parse("a: 1\nb: [1\nc: 2\n").unwrap_err();
        assert!(error.line > 1, "{error:?}");
        let error = parse("a: 1\na: 2\n").unwrap_err();
        insta::assert_snapshot!(error, @"line 2, column 1: duplicate mapping key: a");
        let error = parse("a: 1\n---\nb: 2\n").unwrap_err();
        insta::assert_snapshot!(error, @"line 3, column 1: multiple YAML documents detected");
        let error = parse("{null: 1}").unwrap_err().problem;
        insta::assert_snapshot!(error, @"cannot deserialize null into string");
    }

    #[test]
    fn last_repeated_key_and_first_document_are_used() {
        for (text, value, refused) in [
            ("a: 1\nb: 2\na: 3\n", json!({"a": 3, "b": 2}), Some("duplicate mapping key: a")),
            ("{a: {b: 1, b: 2}}", json!({"a": {"b": 2}}), Some("duplicate mapping key: b")),
            ("a: 1\n---\na: 2\n", json!({"a": 1}), Some("document")),
            ("a: 1\n", json!({"a": 1}), None),
            ("", Value::Null, None),
        ] {
            let (first, problem) = parse_first(text).unwrap();
            assert_eq!(first, value, "{text}");
            let problem = problem.map(|error| error.problem);
            let contains = |word| problem.as_deref().is_some_and(|problem| problem.contains(word));
            assert_eq!(refused.is_some(), problem.is_some(), "{text}: {problem:?}");
            assert!(refused.is_none_or(contains), "{text}: {problem:?}");
        }
        assert!(parse_first("a: [\n").is_err());
    }

    #[test]
    fn yaml_1_1_ambiguous_scalars_are_quoted() {
        let value = json!([
            "yes",
            "on",
            "y",
            "1_000",
            "12:30:45",
            "2001-01-01",
            "=",
            "<<",
            "0644",
            "~",
            ""
        ]);
        insta::assert_snapshot!(to_string(&value).unwrap(), @r#"
        - "yes"
        - "on"
        - "y"
        - "1_000"
        - "12:30:45"
        - "2001-01-01"
        - "="
        - "<<"
        - "0644"
        - "~"
        - ""
        "#);
    }

    #[test]
    fn ambiguous_block_scalars_are_not_written() {
        let value = json!({"a": "\tx\ny", "b": "\n\n\tx\ny", "c": "x\n\n", "d": "\n"});
        insta::assert_snapshot!(to_string(&value).unwrap(), @r#"
        a: "\tx\ny"
        b: "\n\n\tx\ny"
        c: "x\n\n"
        d: "\n"
        "#);
    }

    #[test]
    fn json_text_is_written_in_single_quotes() {
        let value = json!({"status": r#"{"revision":"default"}"#});
        insta::assert_snapshot!(to_string(&value).unwrap(), @r#"status: '{"revision":"default"}'"#);
    }

    /// Generates the tokens that matter to the choice of parser: marks, quotes, numbers and text
    /// that looks like a number.
    fn piece() -> impl Strategy<Value = String> {
        let words = prop::sample::select(vec![
            "a",
            "b: ",
            "c:",
            "- ",
            "\n",
            "\n  ",
            "\n    ",
            "? ",
            "yes",
            "y",
            "True",
            "null",
            "~",
            "\"x\"",
            "'y'",
            "|",
            ">-",
            "{",
            "}",
            "[",
            "]",
            ", ",
            "1",
            "0644",
            "0x1f",
            "1_000",
            "1e3",
            "-1",
            ".5",
            ".inf",
            "nan",
            "Infinity",
            "100m",
            "1Gi",
            "10s",
            "12h",
            "registry.example/a/b:1.4.2@c",
            "12:30:45",
            "2001-01-01",
            "<<: ",
            "&x ",
            "*x",
            "!!str ",
            "# c",
            "---",
            "...",
            "=",
            "%",
            "/v",
            "$(A)",
            "--",
            "--domain",
            "--a=$(B)",
            "\t",
            "99999999999999999999",
        ]);
        prop_oneof![12 => words.prop_map(str::to_owned), 1 => "\\PC{0,3}"]
    }

    proptest! {
        #[test]
        fn fast_parser_agrees_with_the_library(pieces in prop::collection::vec(piece(), 0..12)) {
            let text = pieces.concat();
            prop_assert_eq!(parse(&text), by_library(&text, aliases(&text)), "{}", text);
        }

        #[test]
        fn scalar_parses_alike_in_every_position(piece in piece(), other in piece()) {
            for text in [format!("k: {piece}{other}"), format!("- {piece}{other}\n- {{{piece}: [{other}]}}\n")] {
                prop_assert_eq!(parse(&text), by_library(&text, aliases(&text)), "{}", text);
            }
        }

        #[test]
        fn plain_word_is_written_without_quotes(text in "[a-zA-Z/][-a-zA-Z0-9./_]{0,70}|y|yes|inf|no|On|nan") {
            if is_word(&text) {
                prop_assert_eq!(to_string(&json!({ &text: &text })).unwrap(), format!("{text}: {text}\n"));
            }
        }

        #[test]
        fn written_document_parses_to_the_same_value(
            text in "\\PC*|[ \\t\\na-c:#'\"-]{0,12}|[a \\r\\n\u{0}\u{1b}\u{7f}\u{85}\u{2028}\u{feff}]{0,6}"
        ) {
            let value = json!({ "a": [text.clone()], (text.clone()): text });
            prop_assert_eq!(parse(&to_string(&value).unwrap()).unwrap(), value);
        }
    }
}
