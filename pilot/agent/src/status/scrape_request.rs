//! Fields of a scrape that are passed on, and its time limits.

use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::{ACCEPT, HeaderName, HeaderValue, USER_AGENT};
use hyper::http::uri::PathAndQuery;

/// A scrape, as Prometheus sent it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct ScrapeRequest {
    /// Query of the request, for all sources.
    pub(super) query: Option<String>,
    /// Headers for the application.
    pub(super) headers: HeaderMap,
    /// Prometheus' own timeout, if it sent one.
    pub(super) timeout: Option<Duration>,
}

impl ScrapeRequest {
    /// Parses query and headers of a request.
    pub(super) fn parse(query: Option<&str>, headers: &HeaderMap) -> Self {
        let mut own = HeaderMap::new();
        own.insert(ACCEPT, text_formats(headers));
        for name in [USER_AGENT, SCRAPE_TIMEOUT] {
            own.extend(headers.get(&name).map(|value| (name, value.clone())));
        }
        let seconds = headers.get(SCRAPE_TIMEOUT).and_then(|value| value.to_str().ok());
        let seconds = seconds.and_then(|seconds| seconds.trim().parse::<f64>().ok());
        let timeout = seconds
            .filter(|seconds| *seconds > 0.0)
            .map(|seconds| Duration::from_secs_f64(seconds.min(LONGEST.as_secs_f64())));
        let query = query.filter(|query| !query.is_empty()).map(str::to_owned);
        Self { query, headers: own, timeout }
    }

    /// Returns a path with the query of the request.
    pub(super) fn path(&self, path: &PathAndQuery) -> PathAndQuery {
        let Some(query) = &self.query else { return path.clone() };
        let separator = if path.query().is_some() { '&' } else { '?' };
        // The query has been parsed as part of a URI already.
        format!("{path}{separator}{query}").parse().unwrap_or_else(|_| path.clone())
    }

    /// Returns the same scrape for a target that must answer in Prometheus' text format.
    pub(super) fn in_text(&self) -> Self {
        let mut request = self.clone();
        request.headers.insert(ACCEPT, HeaderValue::from_static(TEXT));
        request
    }

    /// Time until the sources must have answered with their headers.
    pub(super) fn header_timeout(&self) -> Duration {
        self.timeout.unwrap_or(DEFAULT) * 3 / 4
    }

    /// Time that the page may wait for one source.
    pub(super) fn source_timeout(&self) -> Duration {
        self.timeout.unwrap_or(DEFAULT) * 9 / 10
    }

    /// Time until the page must be complete. Without Prometheus' timeout, a slow reader has all the
    /// time of [`LONGEST`].
    pub(super) fn page_timeout(&self) -> Duration {
        self.timeout.map_or(LONGEST, |timeout| timeout * 9 / 10)
    }
}

/// Returns the text formats among the accepted ones. Pages in protobuf, which Prometheus prefers
/// for native histograms, cannot be merged.
fn text_formats(headers: &HeaderMap) -> HeaderValue {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges = accepted.flat_map(|value| value.split(',')).map(str::trim);
    let text: Vec<&str> = ranges
        .filter(|range| {
            let media_type = range.split(';').next().unwrap_or_default().trim();
            MERGEABLE.iter().any(|mergeable| media_type.eq_ignore_ascii_case(mergeable))
        })
        .collect();
    let text = if text.is_empty() { TEXT.to_owned() } else { text.join(",") };
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(TEXT))
}

/// Accepts Prometheus' text format alone.
pub(super) const TEXT: &str = "text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

/// Longest time for a page.
pub(super) const LONGEST: Duration = Duration::from_secs(120);

/// Prometheus' own default.
const DEFAULT: Duration = Duration::from_secs(10);
const MERGEABLE: [&str; 4] = ["text/plain", "application/openmetrics-text", "text/*", "*/*"];
const SCRAPE_TIMEOUT: HeaderName = HeaderName::from_static("x-prometheus-scrape-timeout-seconds");

#[cfg(test)]
mod tests {
    use super::*;

    fn request(query: Option<&str>, headers: &[(HeaderName, &'static str)]) -> ScrapeRequest {
        let value = HeaderValue::from_static;
        let headers = headers.iter().map(|(name, text)| (name.clone(), value(text)));
        ScrapeRequest::parse(query, &headers.collect())
    }

    #[test]
    fn protobuf_is_not_accepted() {
        for (accept, expected) in [
            (
                "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
                "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
            ),
            (
                "application/vnd.google.protobuf;proto=a;q=0.6, text/plain;q=0.5, */*;q=0.2",
                "text/plain;q=0.5,*/*;q=0.2",
            ),
            ("application/vnd.google.protobuf", TEXT),
            ("", TEXT),
        ] {
            assert_eq!(request(None, &[(ACCEPT, accept)]).headers[ACCEPT], expected);
        }
    }

    #[test]
    fn timeouts_follow_prometheus() {
        for (header, page) in [("10", 9), ("20.000000", 18), ("1e300", 108)] {
            let request = request(None, &[(SCRAPE_TIMEOUT, header)]);
            assert_eq!(request.page_timeout(), Duration::from_secs(page), "{header}");
            assert_eq!(request.headers[SCRAPE_TIMEOUT], header);
        }
        for header in ["0", "-1", "NaN", "x"] {
            assert_eq!(request(None, &[(SCRAPE_TIMEOUT, header)]).timeout, None, "{header}");
        }
    }

    #[test]
    fn query_is_appended_to_the_path_of_the_target() {
        let path =
            |query, path| request(query, &[]).path(&PathAndQuery::from_static(path)).to_string();
        assert_eq!(path(None, "/m"), "/m");
        assert_eq!(path(Some(""), "/m"), "/m");
        assert_eq!(path(Some("a=b"), "/m"), "/m?a=b");
        assert_eq!(path(Some("a=b"), "/m?c"), "/m?c&a=b");
    }
}
