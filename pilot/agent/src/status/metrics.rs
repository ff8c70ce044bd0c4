//! Metrics of the status port.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::merge::MergeSource;

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
