//! Metrics of the DNS proxy.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Metrics of the DNS proxy.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Queries of the application.
    pub requests: Counter,
    /// Queries sent to name servers.
    pub upstream_requests: Counter,
    /// Queries that a name server did not answer.
    pub upstream_failures: Counter,
    /// Time to the answer of a name server.
    pub upstream_duration: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            requests: Counter::default(),
            upstream_requests: Counter::default(),
            upstream_failures: Counter::default(),
            // From half a millisecond to eight seconds.
            upstream_duration: Histogram::new(exponential_buckets(0.0005, 2.0, 15)),
        }
    }
}

impl Metrics {
    /// Adds the families.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "istio_agent_dns_requests",
            "DNS queries of the application",
            self.requests.clone(),
        );
        registry.register(
            "istio_agent_dns_upstream_requests",
            "DNS queries sent to name servers",
            self.upstream_requests.clone(),
        );
        registry.register(
            "istio_agent_dns_upstream_failures",
            "DNS queries that a name server did not answer",
            self.upstream_failures.clone(),
        );
        registry.register(
            "istio_agent_dns_upstream_request_duration_seconds",
            "Time to the answer of a name server",
            self.upstream_duration.clone(),
        );
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn families_have_the_names_of_istio() {
        let mut registry = Registry::default();
        Metrics::default().register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for name in [
            "istio_agent_dns_requests_total 0",
            "istio_agent_dns_upstream_requests_total 0",
            "istio_agent_dns_upstream_failures_total 0",
            "istio_agent_dns_upstream_request_duration_seconds_count 0",
        ] {
            assert!(text.contains(&format!("{name}\n")), "{name}: {text}");
        }
    }
}
