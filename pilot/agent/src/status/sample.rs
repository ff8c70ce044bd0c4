//! Validity of one line of metrics.

use super::merge::MetricsFormat;

/// True for a comment, an empty line or a sample: a name with labels, a value, a timestamp and, in
/// `OpenMetrics`, an exemplar. Prometheus rejects a whole page for any other line.
pub(super) fn is_metrics_line(line: &[u8], format: MetricsFormat) -> bool {
    // Comments too are UTF-8.
    let Ok(line) = std::str::from_utf8(line) else { return false };
    let line = match format {
        MetricsFormat::Text => line.trim_start_matches([' ', '\t']),
        MetricsFormat::OpenMetrics => line,
    };
    if line.is_empty() {
        return true;
    }
    if line.starts_with('#') {
        return is_comment(line, format);
    }
    let sample = || {
        let rest = number(series(line)?)?;
        let rest = match rest.as_bytes().first() {
            None | Some(b'#') => rest,
            _ => timestamp(rest, format)?,
        };
        let exemplar = rest.strip_prefix("# ").filter(|_| format == MetricsFormat::OpenMetrics);
        let Some(exemplar) = exemplar else { return Some(rest) };
        let rest = number(labels(exemplar, false)?)?;
        if rest.is_empty() { Some(rest) } else { timestamp(rest, format) }
    };
    sample().is_some_and(str::is_empty)
}

/// True unless the comment declares a type that the format does not have.
fn is_comment(line: &str, format: MetricsFormat) -> bool {
    let Some(declared) = line.strip_prefix("# TYPE ") else { return true };
    let mut words = declared.split_ascii_whitespace();
    let (_, kind, end) = (words.next(), words.next(), words.next());
    let others: &[&str] = match format {
        MetricsFormat::Text => &["untyped"],
        MetricsFormat::OpenMetrics => &["unknown", "gaugehistogram", "info", "stateset"],
    };
    end.is_none() && kind.is_some_and(|kind| TYPES.contains(&kind) || others.contains(&kind))
}

/// Skips `NAME`, `NAME{LABELS}` or `{"NAME",LABELS}`.
fn series(line: &str) -> Option<&str> {
    let (name, rest) = name(line, true);
    let after = rest.trim_ascii_start();
    match (name, after.starts_with('{')) {
        ("", _) => rest.starts_with('{').then(|| labels(rest, true))?,
        (_, true) => labels(after, false),
        (_, false) => (after.len() < rest.len()).then_some(after),
    }
}

/// Splits a name off: letters, digits, underscores and, of a metric, colons.
fn name(text: &str, of_metric: bool) -> (&str, &str) {
    let is_name = |letter: char| {
        letter.is_ascii_alphanumeric() || letter == '_' || (of_metric && letter == ':')
    };
    let end = text.find(|letter| !is_name(letter));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    if name.starts_with(|letter: char| letter.is_ascii_digit()) { ("", text) } else { (name, rest) }
}

/// Skips `{NAME="VALUE",…}`. The name of the metric stands first, quoted, if it `has_metric`.
fn labels(text: &str, has_metric: bool) -> Option<&str> {
    let mut rest = text.strip_prefix('{')?.trim_ascii_start();
    let mut names = Vec::new();
    if has_metric {
        (_, rest) = quoted(rest)?;
        rest = separator(rest)?;
    }
    while !rest.starts_with('}') {
        let (name, after) = match name(rest, false) {
            ("", _) => quoted(rest)?,
            unquoted => unquoted,
        };
        if names.contains(&name) {
            return None;
        }
        names.push(name);
        let value = after.trim_ascii_start().strip_prefix('=')?;
        (_, rest) = quoted(value.trim_ascii_start())?;
        rest = separator(rest)?;
    }
    rest.strip_prefix('}')
}

/// Skips the comma after a label. The last one needs none.
fn separator(text: &str) -> Option<&str> {
    let text = text.trim_ascii_start();
    match text.strip_prefix(',') {
        Some(rest) => Some(rest.trim_ascii_start()),
        None => text.starts_with('}').then_some(text),
    }
}

/// Splits a quoted text off, in which `\\`, `\"` and `\n` are escapes.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('"')?;
    let mut letters = text.char_indices();
    while let Some((index, letter)) = letters.next() {
        match letter {
            '"' => return Some((&text[..index], &text[index + 1..])),
            '\\' => {
                letters.next().filter(|(_, escaped)| matches!(escaped, '\\' | '"' | 'n'))?;
            }
            _ => {}
        }
    }
    None
}

/// Skips a number and the spaces around it.
fn number(text: &str) -> Option<&str> {
    let (number, rest) = word(text);
    let value: f64 = number.parse().ok()?;
    // Prometheus rejects what no number of 64 bits can hold.
    let is_infinity = number.to_ascii_lowercase().contains("inf");
    (value.is_finite() || value.is_nan() || is_infinity).then_some(rest)
}

/// Skips a timestamp: whole milliseconds, or seconds in `OpenMetrics`.
fn timestamp(text: &str, format: MetricsFormat) -> Option<&str> {
    match format {
        MetricsFormat::OpenMetrics => number(text),
        MetricsFormat::Text => {
            let (milliseconds, rest) = word(text);
            milliseconds.parse::<i64>().ok().map(|_| rest)
        }
    }
}

/// Splits a word off, without the spaces around it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_ascii_start();
    let end = text.find(|letter: char| letter.is_ascii_whitespace()).unwrap_or(text.len());
    (&text[..end], text[end..].trim_ascii_start())
}

/// Types of both formats.
const TYPES: [&str; 4] = ["counter", "gauge", "histogram", "summary"];

#[cfg(test)]
mod tests {
    use super::MetricsFormat::{OpenMetrics, Text};
    use super::*;

    #[test]
    fn lines_of_both_formats_are_valid() {
        for line in [
            "",
            "# TYPE a counter",
            "# any comment",
            "a 1",
            "a:b_c9 1.5e-3",
            "a{} NaN",
            "a{b=\"c\"} +Inf",
            "a{b=\"} \\\" \\\\\",c=\"ü\",} -Inf 1700000000000",
            "a {b=\"c\"} 1 15",
            "a\t1",
            "a_bucket{le=\"0.5\"} 8 # {trace_id=\"x:y\"} 0.67",
            "a_bucket{le=\"0.5\"} 8 1.5 # {trace_id=\"x\"} 0.67 1520879607.789",
            "{\"a.b\",c=\"d\"} 1",
            "{\"a.b\"} 1",
            "{\"a.b\", \"c d\" = \"\\n\" , } 1",
        ] {
            let exemplar = line.contains("# {");
            assert_eq!(is_metrics_line(line.as_bytes(), Text), !exemplar, "{line}");
            assert!(is_metrics_line(line.as_bytes(), OpenMetrics), "{line}");
        }
    }

    #[test]
    fn other_lines_are_invalid() {
        for line in [
            "<!DOCTYPE html>",
            "Internal Server Error",
            "# TYPE a",
            "# TYPE a counter b",
            "# TYPE a meter",
            "a",
            "a ",
            "a b",
            "a{b=\"c\" 1",
            "a{b=\"c} 1",
            "a 1 2 3",
            "a 1 x",
            "1 2",
            "{\"status\": 1}",
            "{",
            "a+1",
            "a 1 # x",
            "error: connection refused",
            "a{l='x'} 1",
            "a{l=\"x\";m=\"y\"} 1",
            "a{,} 1",
            "a{l=\"x\",,m=\"y\"} 1",
            "a{\"b\"} 1",
            "{\"a\",\"b\"} 1",
            "a{l=\"x\",l=\"y\"} 1",
            "a{l=\"\\x\"} 1",
            "a{l:m=\"x\"} 1",
            "a 1e400",
        ] {
            assert!(!is_metrics_line(line.as_bytes(), Text), "{line}");
            assert!(!is_metrics_line(line.as_bytes(), OpenMetrics), "{line}");
        }
    }

    #[test]
    fn text_that_is_not_utf_8_is_invalid() {
        for line in [&b"a{l=\"\xff\"} 1"[..], b"{\"\xff\"} 1", b"# HELP a \xff"] {
            assert!(!is_metrics_line(line, Text) && !is_metrics_line(line, OpenMetrics));
        }
    }

    #[test]
    fn blanks_and_timestamps_differ_between_the_formats() {
        for line in ["  ", "\ta 1", " # TYPE a counter"] {
            assert!(is_metrics_line(line.as_bytes(), Text), "{line:?}");
            assert!(!is_metrics_line(line.as_bytes(), OpenMetrics), "{line:?}");
        }
        for line in ["a 1 1.5", "a 1 1e3", "a 1 17000000000000000000000"] {
            assert!(!is_metrics_line(line.as_bytes(), Text), "{line}");
            assert!(is_metrics_line(line.as_bytes(), OpenMetrics), "{line}");
        }
    }

    #[test]
    fn types_differ_between_the_formats() {
        for (line, text) in [("# TYPE a untyped", true), ("# TYPE a info", false)] {
            assert_eq!(is_metrics_line(line.as_bytes(), Text), text, "{line}");
            assert_eq!(is_metrics_line(line.as_bytes(), OpenMetrics), !text, "{line}");
        }
    }
}
