//! Metrics of the status port.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::merge::{MergeSource, MetricsFormat};

/// Counters of scrapes.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    scrapes: Counter,
    failures: Family<[(&'static str, &'static str); 1], Counter>,
}

impl Metrics {
    /// Adds the families to the agent's registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "istio_agent_scrapes",
            "Scrapes of the merged metrics",
            self.scrapes.clone(),
        );
        registry.register(
            "istio_agent_scrape_failures",
            "Sources of merged metrics that failed, in part or whole",
            self.failures.clone(),
        );
    }

    /// Counts a scrape.
    pub(super) fn count_scrape(&self) {
        self.scrapes.inc();
    }

    /// Counts a failure of one source in a scrape.
    pub(super) fn count_failure(&self, source: MergeSource) {
        let kind = match source {
            MergeSource::Agent => "agent",
            MergeSource::Envoy => "envoy",
            MergeSource::Application => "application",
        };
        self.failures.get_or_create(&[("type", kind)]).inc();
    }
}

/// Returns the agent's own page. The registry writes `OpenMetrics`, in which the suffixes of
/// counters stand in samples only, and which has more types.
pub(super) fn own_page(registry: &Registry, format: MetricsFormat) -> Result<String, fmt::Error> {
    let mut page = String::new();
    encode(&mut page, registry)?;
    Ok(match format {
        MetricsFormat::OpenMetrics => page,
        MetricsFormat::Text => in_text(&page),
    })
}

fn in_text(page: &str) -> String {
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let types: BTreeMap<&str, &str> = types.collect();
    let mut text = String::with_capacity(2 * page.len());
    for line in page.lines() {
        let comment = ["# HELP ", "# TYPE "].iter().find_map(|comment| {
            let (name, rest) = line.strip_prefix(comment)?.split_once(' ')?;
            let (suffix, kind) = match *types.get(name)? {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" | "stateset" | "gaugehistogram" => ("", "untyped"),
                kind => ("", kind),
            };
            let rest = if *comment == "# TYPE " { kind } else { rest };
            Some(format!("{comment}{name}{suffix} {rest}"))
        });
        text.push_str(comment.as_deref().unwrap_or(line));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_the_same_name_in_both_formats() {
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        metrics.count_scrape();
        metrics.count_failure(MergeSource::Envoy);
        let text = own_page(&registry, MetricsFormat::Text).unwrap();
        assert!(text.contains("# TYPE istio_agent_scrapes_total counter\n"), "{text}");
        let openmetrics = own_page(&registry, MetricsFormat::OpenMetrics).unwrap();
        assert!(openmetrics.contains("# TYPE istio_agent_scrapes counter\n"), "{openmetrics}");
        for page in [text, openmetrics] {
            assert!(page.contains("\nistio_agent_scrapes_total 1\n"), "{page}");
            let failures = "\nistio_agent_scrape_failures_total{type=\"envoy\"} 1\n";
            assert!(page.contains(failures), "{page}");
        }
    }

    #[test]
    fn types_of_openmetrics_are_replaced_in_text() {
        let page = "# HELP a A.\n# TYPE a info\na_info{v=\"1\"} 1\n# TYPE b unknown\nb 1\n\
            # TYPE c histogram\nc_count 1\n";
        let expected = "# HELP a_info A.\n# TYPE a_info gauge\na_info{v=\"1\"} 1\n\
            # TYPE b untyped\nb 1\n# TYPE c histogram\nc_count 1\n";
        assert_eq!(in_text(page), expected);
    }
}
