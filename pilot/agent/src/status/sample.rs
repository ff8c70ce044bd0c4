//! Validity of one line of metrics.

use memchr::memchr2;

use super::merge::MetricsFormat;

/// True for a comment, an empty line or a sample: a name with labels, a value, a timestamp and, in
/// `OpenMetrics`, an exemplar. Prometheus rejects a whole page for any other line.
pub(super) fn is_metrics_line(line: &[u8], format: MetricsFormat) -> bool {
    // Comments too are UTF-8. No byte of a longer character equals an ASCII one.
    if std::str::from_utf8(line).is_err() {
        return false;
    }
    let line = match format {
        MetricsFormat::Text => without_blanks(line),
        MetricsFormat::OpenMetrics => line,
    };
    match line.first() {
        None => true,
        Some(b'#') => is_comment(line, format),
        Some(_) => is_sample(line, format).is_some_and(<[u8]>::is_empty),
    }
}

fn without_blanks(line: &[u8]) -> &[u8] {
    let begin = line.iter().position(|byte| !b" \t".contains(byte));
    &line[begin.unwrap_or(line.len())..]
}

/// Skips a sample.
fn is_sample(line: &[u8], format: MetricsFormat) -> Option<&[u8]> {
    let rest = number(series(line)?)?;
    let rest = match rest.first() {
        None => return Some(rest),
        Some(b'#') => rest,
        Some(_) => timestamp(rest, format)?,
    };
    let exemplar = rest.strip_prefix(b"# ").filter(|_| format == MetricsFormat::OpenMetrics);
    let Some(exemplar) = exemplar else { return Some(rest) };
    let rest = number(labels(exemplar, false)?)?;
    if rest.is_empty() { Some(rest) } else { timestamp(rest, format) }
}

/// True unless the comment declares a type that the format does not have.
fn is_comment(line: &[u8], format: MetricsFormat) -> bool {
    let Some(declared) = line.strip_prefix(b"# TYPE ") else { return true };
    let (_, rest) = word(declared);
    let (kind, rest) = word(rest);
    let others: &[&[u8]] = match format {
        MetricsFormat::Text => &[b"untyped"],
        MetricsFormat::OpenMetrics => &[b"unknown", b"gaugehistogram", b"info", b"stateset"],
    };
    rest.is_empty() && (TYPES.contains(&kind) || others.contains(&kind))
}

/// Skips `NAME`, `NAME{LABELS}` or `{"NAME",LABELS}`.
fn series(line: &[u8]) -> Option<&[u8]> {
    let (name, rest) = name(line, METRIC);
    let after = trim_start(rest);
    match (name, after.first()) {
        (b"", _) => labels(rest, true),
        (_, Some(b'{')) => labels(after, false),
        (_, _) => (after.len() < rest.len()).then_some(after),
    }
}

/// Splits a name off, whose bytes have one of these classes.
fn name(text: &[u8], classes: u8) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| CLASSES[usize::from(*byte)] & classes == 0);
    match text.first() {
        Some(first) if !first.is_ascii_digit() => text.split_at(end.unwrap_or(text.len())),
        _ => (b"", text),
    }
}

/// Skips `{NAME="VALUE",…}`. The name of the metric stands first, quoted, if it `has_metric`.
fn labels(text: &[u8], has_metric: bool) -> Option<&[u8]> {
    let [b'{', rest @ ..] = text else { return None };
    let mut rest = trim_start(rest);
    let mut names = Names::default();
    if has_metric {
        (_, rest) = quoted(rest)?;
        rest = separator(rest)?;
    }
    loop {
        if let [b'}', rest @ ..] = rest {
            return Some(rest);
        }
        let (name, after) = match name(rest, LABEL) {
            (b"", _) => quoted(rest)?,
            unquoted => unquoted,
        };
        if !names.insert(name) {
            return None;
        }
        let [b'=', value @ ..] = trim_start(after) else { return None };
        (_, rest) = quoted(trim_start(value))?;
        rest = separator(rest)?;
    }
}

/// Names of a line's labels. The first ones need no allocation.
#[derive(Default)]
struct Names<'a> {
    first: [&'a [u8]; 8],
    number: usize,
    others: Vec<&'a [u8]>,
}

impl<'a> Names<'a> {
    /// Inserts a name. Returns false if it is in already.
    fn insert(&mut self, name: &'a [u8]) -> bool {
        if self.first[..self.number].contains(&name) || self.others.contains(&name) {
            return false;
        }
        match self.first.get_mut(self.number) {
            Some(free) => {
                *free = name;
                self.number += 1;
            }
            None => self.others.push(name),
        }
        true
    }
}

/// Skips the comma after a label. The last one needs none.
fn separator(text: &[u8]) -> Option<&[u8]> {
    match trim_start(text) {
        [b',', rest @ ..] => Some(trim_start(rest)),
        end @ [b'}', ..] => Some(end),
        _ => None,
    }
}

/// Splits a quoted text off, in which `\\`, `\"` and `\n` are escapes.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let [b'"', text @ ..] = text else { return None };
    let mut from = 0;
    loop {
        let end = from + memchr2(b'"', b'\\', &text[from..])?;
        if text[end] == b'"' {
            return Some((&text[..end], &text[end + 1..]));
        }
        text.get(end + 1).filter(|escaped| b"\\\"n".contains(escaped))?;
        from = end + 2;
    }
}

/// Skips a number and the spaces around it.
fn number(text: &[u8]) -> Option<&[u8]> {
    let (number, rest) = word(text);
    if is_plain(number) {
        return Some(rest);
    }
    let number = std::str::from_utf8(number).ok()?;
    let value: f64 = number.parse().ok()?;
    // Prometheus rejects what no number of 64 bits can hold.
    let is_infinity = number.to_ascii_lowercase().contains("inf");
    (value.is_finite() || value.is_nan() || is_infinity).then_some(rest)
}

/// True for digits with at most one point, so few that 64 bits hold the number.
fn is_plain(number: &[u8]) -> bool {
    let point = number.iter().position(|byte| *byte == b'.').unwrap_or(number.len());
    let (whole, fraction) = (&number[..point], number.get(point + 1..).unwrap_or_default());
    (1..300).contains(&(whole.len() + fraction.len()))
        && whole.iter().chain(fraction).all(u8::is_ascii_digit)
}

/// Skips a timestamp: whole milliseconds, or seconds in `OpenMetrics`.
fn timestamp(text: &[u8], format: MetricsFormat) -> Option<&[u8]> {
    match format {
        MetricsFormat::OpenMetrics => number(text),
        MetricsFormat::Text => {
            let (milliseconds, rest) = word(text);
            let milliseconds = std::str::from_utf8(milliseconds).ok()?;
            milliseconds.parse::<i64>().ok().map(|_| rest)
        }
    }
}

/// Splits a word off, without the spaces around it.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = trim_start(text);
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, trim_start(rest))
}

/// Most tokens follow each other without spaces.
fn trim_start(text: &[u8]) -> &[u8] {
    if let [0..=b' ', ..] = text { text.trim_ascii_start() } else { text }
}

/// Classes of each byte: those of names of labels and of metrics.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        if byte.is_ascii_alphanumeric() || byte == b'_' {
            classes[byte as usize] = LABEL | METRIC;
        }
        byte += 1;
    }
    classes[b':' as usize] = METRIC;
    classes
};
const LABEL: u8 = 1;
const METRIC: u8 = 2;

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
