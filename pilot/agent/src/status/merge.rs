//! Line scanner that joins several pages of metrics into one.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use memchr::memchr;
use thiserror::Error;

use super::sample::is_metrics_line;

/// Source of a part of the page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MergeSource {
    /// The agent's own metrics.
    Agent,
    /// Envoy's, whose metrics `envoy_istio_…` are renamed to `istio_…`.
    Envoy,
    /// The application's, whose lines are checked.
    Application,
}

/// Format of a page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MetricsFormat {
    /// Prometheus' text format 0.0.4.
    Text,
    /// `OpenMetrics` 1.0.0.
    OpenMetrics,
}

/// Scanner of one part. It passes whole lines on, so that a part that breaks off leaves a valid
/// page. A line above [`LINE_LIMIT`] is dropped: its start must not be sent before its end is
/// known.
#[derive(Debug)]
pub struct PartScanner {
    source: MergeSource,
    format: MetricsFormat,
    /// Start of a line whose end has not arrived.
    line: Vec<u8>,
    /// True if the start of the current line has been dropped.
    in_long_line: bool,
    has_dropped: bool,
    descriptions: Descriptions,
}

/// Digests of the comments that describe metrics. Parsers like that of `promtool` reject a page that
/// describes a metric twice.
#[derive(Debug, Default)]
struct Descriptions(HashSet<u64>);

impl Descriptions {
    /// True if an earlier line is of the same kind and about the same metric.
    fn has_before(&mut self, line: &[u8]) -> bool {
        let comment = line.trim_ascii_start();
        let is_description = [&b"# TYPE "[..], b"# HELP ", b"# UNIT "];
        if !is_description.iter().any(|kind| comment.starts_with(kind)) {
            return false;
        }
        let mut words = comment.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let mut hasher = DefaultHasher::new();
        (words.nth(1), words.next()).hash(&mut hasher);
        let digest = hasher.finish();
        if self.0.len() < MOST_DESCRIPTIONS {
            return !self.0.insert(digest);
        }
        self.0.contains(&digest)
    }
}

/// Rejected line of a part.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Error)]
pub enum InvalidLine {
    /// A line that is not a line of metrics.
    #[error("a line is not a line of metrics; it and the rest are omitted")]
    Syntax,
    /// A line above [`LINE_LIMIT`].
    #[error("lines longer than {LINE_LIMIT} bytes are omitted")]
    TooLong,
}

/// Longest line in bytes.
pub const LINE_LIMIT: usize = 16 * 1024;

/// Remembered descriptions of a part, which bounds its memory to some 300 KB.
const MOST_DESCRIPTIONS: usize = 16 * 1024;

/// Last line of a page in `OpenMetrics`.
pub const END: &[u8] = b"# EOF\n";

impl PartScanner {
    /// Returns a scanner for a part of a page.
    pub fn new(source: MergeSource, format: MetricsFormat) -> Self {
        Self {
            source,
            format,
            line: Vec::new(),
            in_long_line: false,
            has_dropped: false,
            descriptions: Descriptions::default(),
        }
    }

    /// Scans the next bytes of the part, and appends complete lines to `page`. After an error, the
    /// rest of the part must not follow.
    pub fn push(&mut self, mut input: &[u8], page: &mut Vec<u8>) -> Result<(), InvalidLine> {
        while let Some(end) = memchr(b'\n', input) {
            let (line, rest) = input.split_at(end + 1);
            input = rest;
            if self.in_long_line {
                self.in_long_line = false;
            } else if self.line.is_empty() {
                self.write(line, page)?;
            } else {
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.write(&whole, page)?;
                // The buffer is reused.
                whole.clear();
                self.line = whole;
            }
        }
        if self.in_long_line {
            return Ok(());
        }
        self.line.extend_from_slice(input);
        if self.line.len() > LINE_LIMIT {
            self.line.clear();
            self.in_long_line = true;
            self.has_dropped = true;
        }
        Ok(())
    }

    /// Ends the part. A last line without a newline belongs to a part that is `complete`, and is
    /// dropped from one that broke off.
    pub fn finish(mut self, complete: bool, page: &mut Vec<u8>) -> Result<(), InvalidLine> {
        if complete && !self.line.is_empty() {
            self.line.push(b'\n');
            let line = std::mem::take(&mut self.line);
            self.write(&line, page)?;
        }
        if self.has_dropped { Err(InvalidLine::TooLong) } else { Ok(()) }
    }

    fn write(&mut self, line: &[u8], page: &mut Vec<u8>) -> Result<(), InvalidLine> {
        let line = if let [line @ .., b'\n'] = line { line } else { line };
        if line.len() > LINE_LIMIT {
            self.has_dropped = true;
            return Ok(());
        }
        let line = if let [line @ .., b'\r'] = line { line } else { line };
        let is_end = line.first() == Some(&b'#') && line.trim_ascii_end() == b"# EOF";
        if is_end || self.is_unknown_to_openmetrics(line) {
            return Ok(());
        }
        if self.source == MergeSource::Application {
            if !is_metrics_line(line, self.format) {
                return Err(InvalidLine::Syntax);
            }
            if self.descriptions.has_before(line) {
                return Ok(());
            }
        }
        let line = self.rename(line, page);
        page.extend_from_slice(line);
        page.push(b'\n');
        Ok(())
    }

    /// True for an empty line, or a comment that describes no metric, in `OpenMetrics`: its parsers
    /// reject them.
    fn is_unknown_to_openmetrics(&self, line: &[u8]) -> bool {
        let known = [&b"# TYPE "[..], b"# HELP ", b"# UNIT "];
        self.format == MetricsFormat::OpenMetrics
            && match line.first() {
                None => true,
                Some(b'#') => !known.iter().any(|known| line.starts_with(known)),
                Some(_) => false,
            }
    }

    /// Removes `envoy_` from Istio's metrics, in samples and in their `HELP` and `TYPE` lines.
    /// Appends the part before it to the page, and returns the rest of the line.
    fn rename<'a>(&self, line: &'a [u8], page: &mut Vec<u8>) -> &'a [u8] {
        if self.source != MergeSource::Envoy {
            return line;
        }
        let comments = [&b"# TYPE "[..], b"# HELP "];
        let comment = comments.iter().find(|comment| line.starts_with(comment));
        let (before, name) = line.split_at(comment.map_or(0, |comment| comment.len()));
        match name.strip_prefix(b"envoy_") {
            Some(name) if name.starts_with(b"istio_") => {
                page.extend_from_slice(before);
                name
            }
            _ => line,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Scans a part in pieces of this size.
    fn scan(
        source: MergeSource,
        format: MetricsFormat,
        part: &str,
        size: usize,
    ) -> (Result<(), InvalidLine>, String) {
        let mut scanner = PartScanner::new(source, format);
        let mut page = Vec::new();
        let mut pieces = part.as_bytes().chunks(size);
        let scanned = pieces.try_for_each(|piece| scanner.push(piece, &mut page));
        let scanned = scanned.and_then(|()| scanner.finish(true, &mut page));
        (scanned, String::from_utf8(page).unwrap())
    }

    fn merge(source: MergeSource, part: &str) -> String {
        let (result, page) = scan(source, MetricsFormat::OpenMetrics, part, 7);
        result.unwrap();
        page
    }

    #[test]
    fn istio_metrics_of_envoy_are_renamed() {
        let part = "# HELP envoy_istio_requests_total x\n\
            # TYPE envoy_istio_requests_total counter\n\
            envoy_istio_requests_total{a=\"envoy_istio_b\"} 1\nenvoy_istiod 2\n\
            envoy_cluster_x{name=\"envoy_istio_\"} 3\n";
        let expected = "# HELP istio_requests_total x\n# TYPE istio_requests_total counter\n\
            istio_requests_total{a=\"envoy_istio_b\"} 1\nenvoy_istiod 2\n\
            envoy_cluster_x{name=\"envoy_istio_\"} 3\n";
        assert_eq!(merge(MergeSource::Envoy, part), expected);
        assert_eq!(merge(MergeSource::Agent, part), part);
    }

    #[test]
    fn end_of_openmetrics_is_removed() {
        for end in ["# EOF", "# EOF\n", "# EOF\r\n", "# EOF\n# EOF\n", "\n# EOF\n\n"] {
            assert_eq!(merge(MergeSource::Application, &format!("a 1\n{end}")), "a 1\n");
        }
    }

    #[test]
    fn empty_lines_and_other_comments_stay_in_text_only() {
        let part = "a 1\n\n# EOFx\nb 2\n";
        let (_, page) = scan(MergeSource::Application, MetricsFormat::Text, part, 3);
        assert_eq!(page, part);
        assert_eq!(merge(MergeSource::Application, part), "a 1\nb 2\n");
    }

    #[test]
    fn windows_line_ends_are_replaced() {
        let part = "# TYPE a counter\r\na 1\r\n";
        assert_eq!(merge(MergeSource::Application, part), "# TYPE a counter\na 1\n");
    }

    #[test]
    fn second_description_of_a_metric_is_dropped() {
        let part = "# HELP a x\n# TYPE a counter\na 1\n# TYPE b gauge\n# TYPE  a gauge\n\
            # HELP a y\nb 2\n";
        let once = "# HELP a x\n# TYPE a counter\na 1\n# TYPE b gauge\nb 2\n";
        assert_eq!(merge(MergeSource::Application, part), once);
        assert_eq!(merge(MergeSource::Envoy, part), part);
    }

    #[test]
    fn descriptions_take_bounded_memory() {
        let mut descriptions = Descriptions::default();
        for metric in 0..2 * MOST_DESCRIPTIONS {
            assert!(!descriptions.has_before(format!("# TYPE a{metric} gauge").as_bytes()));
        }
        assert_eq!(descriptions.0.len(), MOST_DESCRIPTIONS);
        assert!(descriptions.has_before(b"# TYPE a0 gauge"));
    }

    #[test]
    fn last_line_gets_a_newline() {
        assert_eq!(merge(MergeSource::Application, "a 1\nb 2"), "a 1\nb 2\n");
        assert_eq!(merge(MergeSource::Envoy, ""), "");
    }

    #[test]
    fn part_that_breaks_off_ends_with_a_whole_line() {
        let mut page = Vec::new();
        let mut scanner = PartScanner::new(MergeSource::Application, MetricsFormat::Text);
        scanner.push(b"a 1\nb{c=\"", &mut page).unwrap();
        scanner.finish(false, &mut page).unwrap();
        assert_eq!(page, b"a 1\n");
    }

    #[test]
    fn invalid_line_of_the_application_ends_its_part() {
        for page in ["<html>\n", "a 1\n<html>\nb 2\n", "a 1\n{\"a\": 1}"] {
            let (result, page) = scan(MergeSource::Application, MetricsFormat::Text, page, 5);
            assert_eq!(result, Err(InvalidLine::Syntax));
            assert!(["", "a 1\n"].contains(&&*page), "{page}");
        }
    }

    #[test]
    fn long_line_is_dropped_whole() {
        let long = format!("a 1\nx{{y=\"{}\"}} 1\nb 2\n", "z".repeat(10 * LINE_LIMIT));
        let html = format!("a 1\n{}\nb 2\n", "<p>".repeat(LINE_LIMIT));
        let envoy = long.replace("x{", "envoy_istio_x{");
        for (source, part) in [
            (MergeSource::Application, &long),
            (MergeSource::Application, &html),
            (MergeSource::Envoy, &envoy),
        ] {
            for size in [999, LINE_LIMIT, part.len()] {
                let (result, page) = scan(source, MetricsFormat::Text, part, size);
                assert_eq!((result, &*page), (Err(InvalidLine::TooLong), "a 1\nb 2\n"), "{size}");
            }
        }
    }

    #[test]
    fn line_at_the_limit_is_passed_on() {
        let start = "# HELP a ";
        for (length, expected) in
            [(LINE_LIMIT, Ok(())), (LINE_LIMIT + 1, Err(InvalidLine::TooLong))]
        {
            let line = format!("{start}{}\n", "x".repeat(length - start.len()));
            for size in [7, 4096, line.len()] {
                let (result, page) =
                    scan(MergeSource::Application, MetricsFormat::Text, &line, size);
                assert_eq!(result, expected, "{length} {size}");
                assert_eq!(page, if expected.is_ok() { &*line } else { "" }, "{length} {size}");
            }
        }
    }

    #[test]
    fn endless_line_leaves_a_valid_page_in_bounded_memory() {
        for source in [MergeSource::Envoy, MergeSource::Application] {
            let mut page = Vec::new();
            let mut scanner = PartScanner::new(source, MetricsFormat::Text);
            scanner.push(b"a 1\nx{y=\"", &mut page).unwrap();
            for _ in 0..100 {
                scanner.push(&[b'z'; 1000], &mut page).unwrap();
                assert!(scanner.line.len() <= LINE_LIMIT, "{}", scanner.line.len());
            }
            assert_eq!(scanner.finish(false, &mut page), Err(InvalidLine::TooLong));
            assert_eq!(page, b"a 1\n");
        }
    }

    proptest! {
        #[test]
        fn page_does_not_depend_on_the_pieces(
            part in "(envoy_istio_a 1|# TYPE envoy_istio_a x|# EOF|b 2|\n|x){0,20}",
            size in 1_usize..40,
        ) {
            for source in [MergeSource::Agent, MergeSource::Envoy, MergeSource::Application] {
                let whole = scan(source, MetricsFormat::OpenMetrics, &part, 10_000);
                prop_assert_eq!(scan(source, MetricsFormat::OpenMetrics, &part, size), whole);
            }
        }
    }
}
