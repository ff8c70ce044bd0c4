//! Validity of one line of metrics.

use super::merge::MetricsFormat;

/// True for a comment, an empty line or a sample: a name with labels, a value, a timestamp and, in
/// `OpenMetrics`, an exemplar. Prometheus rejects a whole page for any other line.
pub(super) fn is_metrics_line(line: &[u8], format: MetricsFormat) -> bool {
    match line.first() {
        None => return true,
        Some(b'#') => return is_comment(line, format),
        _ => {}
    }
    let sample = || {
        let rest = number(series(line)?)?;
        let rest = match rest.first() {
            None | Some(b'#') => rest,
            _ => number(rest)?,
        };
        let exemplar = rest.strip_prefix(b"# ").filter(|_| format == MetricsFormat::OpenMetrics);
        let Some(exemplar) = exemplar else { return Some(rest) };
        let rest = number(labels(exemplar)?)?;
        if rest.is_empty() { Some(rest) } else { number(rest) }
    };
    sample().is_some_and(<[u8]>::is_empty)
}

/// True unless the comment declares a type that the format does not have.
fn is_comment(line: &[u8], format: MetricsFormat) -> bool {
    let Some(declared) = line.strip_prefix(b"# TYPE ") else { return true };
    let mut words = declared.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let (_, kind, end) = (words.next(), words.next(), words.next());
    let others: &[&[u8]] = match format {
        MetricsFormat::Text => &[b"untyped"],
        MetricsFormat::OpenMetrics => &[b"unknown", b"gaugehistogram", b"info", b"stateset"],
    };
    end.is_none() && kind.is_some_and(|kind| TYPES.contains(&kind) || others.contains(&kind))
}

/// Skips `NAME`, `NAME{LABELS}` or `{"NAME",LABELS}`.
fn series(line: &[u8]) -> Option<&[u8]> {
    let end = line.iter().position(|byte| !is_name_start(*byte) && !byte.is_ascii_digit());
    let (name, rest) = line.split_at(end.unwrap_or(line.len()));
    let after = rest.trim_ascii_start();
    let labelled = after.first() == Some(&b'{');
    match name.first() {
        Some(first) if !is_name_start(*first) => None,
        None if !labelled || !rest.starts_with(b"{\"") => None,
        _ if labelled => labels(after),
        _ => (after.len() < rest.len()).then_some(after),
    }
}

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte == b':'
}

/// Skips `{…}`, in which quoted text may have any characters.
fn labels(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"{")?;
    let mut quoted = false;
    // A colon outside quotes belongs to JSON.
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        match (byte, quoted) {
            (b'"', _) => quoted = !quoted,
            (b'\\', true) => rest = rest.get(1..)?,
            (b'}', false) => return Some(rest),
            (b'{' | b'[' | b':', false) => return None,
            _ => {}
        }
    }
}

/// Skips a number and the spaces around it.
fn number(text: &[u8]) -> Option<&[u8]> {
    let text = text.trim_ascii_start();
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let number = std::str::from_utf8(number).ok()?;
    number.parse::<f64>().ok().map(|_| rest.trim_ascii_start())
}

/// Types of both formats.
const TYPES: [&[u8]; 4] = [b"counter", b"gauge", b"histogram", b"summary"];

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
            "a {b=\"c\"} 1 1.5",
            "a\t1",
            "a_bucket{le=\"0.5\"} 8 # {trace_id=\"x:y\"} 0.67",
            "a_bucket{le=\"0.5\"} 8 1.5 # {trace_id=\"x\"} 0.67 1520879607.789",
            "{\"a.b\",c=\"d\"} 1",
            "{\"a.b\"} 1",
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
            " a 1",
            "a+1",
            "a 1 # x",
            "error: connection refused",
        ] {
            assert!(!is_metrics_line(line.as_bytes(), Text), "{line}");
            assert!(!is_metrics_line(line.as_bytes(), OpenMetrics), "{line}");
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
