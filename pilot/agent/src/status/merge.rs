//! Line scanner that joins several pages of metrics into one.

use memchr::memchr;

use super::sample::{is_metrics_line, may_be_long};

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

/// Scanner of one part. It passes whole lines on, so that a part that breaks off leaves a valid page;
/// a line above [`LINE_LIMIT`] is passed on in pieces.
#[derive(Debug)]
pub struct PartScanner {
    source: MergeSource,
    format: MetricsFormat,
    /// Start of a line whose end has not arrived.
    line: Vec<u8>,
    /// True if the start of the current line has been passed on already.
    in_long_line: bool,
}

/// The part has a line that is not a line of metrics.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InvalidLine;

/// Longest line that is held back until its end arrives.
pub const LINE_LIMIT: usize = 16 * 1024;

/// Last line of a page in `OpenMetrics`.
pub const END: &[u8] = b"# EOF\n";

impl PartScanner {
    /// Returns a scanner for a part of a page.
    pub fn new(source: MergeSource, format: MetricsFormat) -> Self {
        Self { source, format, line: Vec::new(), in_long_line: false }
    }

    /// Scans the next bytes of the part, and appends complete lines to `page`. After an error, the
    /// rest of the part must not follow.
    pub fn push(&mut self, mut input: &[u8], page: &mut Vec<u8>) -> Result<(), InvalidLine> {
        while let Some(end) = memchr(b'\n', input) {
            let (line, rest) = input.split_at(end + 1);
            input = rest;
            if self.in_long_line {
                page.extend_from_slice(line);
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
            page.extend_from_slice(input);
            return Ok(());
        }
        self.line.extend_from_slice(input);
        if self.line.len() > LINE_LIMIT {
            let start = std::mem::take(&mut self.line);
            if self.source == MergeSource::Application && !may_be_long(&start) {
                return Err(InvalidLine);
            }
            self.in_long_line = true;
            let start = self.rename(&start, page);
            page.extend_from_slice(start);
        }
        Ok(())
    }

    /// Ends the part. A last line without a newline belongs to a part that is `complete`, and is
    /// dropped from one that broke off.
    pub fn finish(mut self, complete: bool, page: &mut Vec<u8>) -> Result<(), InvalidLine> {
        if self.in_long_line {
            page.push(b'\n');
            return Ok(());
        }
        if self.line.is_empty() || !complete {
            return Ok(());
        }
        self.line.push(b'\n');
        let line = std::mem::take(&mut self.line);
        self.write(&line, page)
    }

    fn write(&self, line: &[u8], page: &mut Vec<u8>) -> Result<(), InvalidLine> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.trim_ascii_end() == b"# EOF" || self.is_unknown_to_openmetrics(line) {
            return Ok(());
        }
        if self.source == MergeSource::Application && !is_metrics_line(line, self.format) {
            return Err(InvalidLine);
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
        let part = "# HELP envoy_istio_requests_total x\n# TYPE envoy_istio_requests_total counter\n\
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
        let html = "<p>".repeat(LINE_LIMIT);
        for page in [&*html, "<html>\n", "a 1\n<html>\nb 2\n", "a 1\n{\"a\": 1}"] {
            let (result, page) = scan(MergeSource::Application, MetricsFormat::Text, page, 5);
            assert_eq!(result, Err(InvalidLine));
            assert!(["", "a 1\n"].contains(&&*page), "{page}");
        }
    }

    #[test]
    fn long_line_is_passed_on_in_pieces() {
        let long = format!("# HELP envoy_istio_x {}\n", "x".repeat(10 * LINE_LIMIT));
        let mut page = Vec::new();
        let mut scanner = PartScanner::new(MergeSource::Envoy, MetricsFormat::Text);
        let mut longest = 0;
        let mut passed = Vec::new();
        for piece in [&*long, "a 1\n"].iter().flat_map(|text| text.as_bytes().chunks(999)) {
            scanner.push(piece, &mut page).unwrap();
            longest = longest.max(scanner.line.len()).max(page.len());
            passed.append(&mut page);
        }
        assert_eq!(String::from_utf8(passed).unwrap(), long.replace("envoy_", "") + "a 1\n");
        assert!(longest <= LINE_LIMIT + 1000, "{longest}");
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
