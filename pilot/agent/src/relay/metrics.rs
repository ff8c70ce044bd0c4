//! Metrics of the relay, with the names of Istio's agent where it has them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;

/// Counters and gauges of the relay. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    pub(super) requests: Count,
    pub(super) responses: Count,
    pub(super) connection_failures: Count,
    pub(super) upstream_terminations: Family<Termination, Count>,
    pub(super) downstream_terminations: Family<Termination, Count>,
    pub(super) rejected_responses: Count,
    pub(super) streams: Gauge,
    pub(super) queued_requests: Gauge,
}

impl Metrics {
    /// Adds the families to a registry.
    pub fn register(&self, registry: &mut Registry) {
        let Self {
            requests,
            responses,
            connection_failures,
            upstream_terminations,
            downstream_terminations,
            rejected_responses,
            streams,
            queued_requests,
        } = self.clone();
        registry.register(
            "istio_agent_xds_proxy_requests",
            "xDS requests sent to the control plane",
            requests,
        );
        registry.register(
            "istio_agent_xds_proxy_responses",
            "xDS responses received from the control plane",
            responses,
        );
        registry.register(
            "istio_agent_istiod_connection_failures",
            "Failed connections to the control plane",
            connection_failures,
        );
        registry.register(
            "istio_agent_istiod_connection_terminations",
            "Streams that the control plane ended, with or without an error",
            upstream_terminations,
        );
        registry.register(
            "istio_agent_envoy_connection_terminations",
            "Streams that Envoy ended, with or without an error",
            downstream_terminations,
        );
        registry.register(
            "istio_agent_xds_proxy_rejected_responses",
            "Responses of the agent's own types that could not be decoded",
            rejected_responses,
        );
        registry.register("istio_agent_xds_proxy_streams", "Open streams of Envoy", streams);
        registry.register(
            "istio_agent_xds_proxy_queued_requests",
            "Requests of Envoy that the control plane has not taken yet",
            queued_requests,
        );
    }
}

/// Counter whose name has no `_total`, as Istio's. `OpenMetrics` allows that for unknown types
/// only.
#[derive(Clone, Debug, Default)]
pub(super) struct Count(Arc<AtomicU64>);

impl Count {
    pub(super) fn inc(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl EncodeMetric for Count {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_gauge(&self.0.load(Ordering::Relaxed))
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Unknown
    }
}

impl TypedMetric for Count {
    const TYPE: MetricType = MetricType::Unknown;
}

/// Label of a stream's end.
#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(super) struct Termination {
    /// `error`, or `cancel` without one.
    pub(super) r#type: &'static str,
}

impl Termination {
    pub(super) const CANCEL: Self = Self { r#type: "cancel" };
    pub(super) const ERROR: Self = Self { r#type: "error" };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_istio() {
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        metrics.requests.inc();
        metrics.upstream_terminations.get_or_create(&Termination::ERROR).inc();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("\nistio_agent_xds_proxy_requests 1\n"), "{text}");
        let terminations = "\nistio_agent_istiod_connection_terminations{type=\"error\"} 1\n";
        assert!(text.contains(terminations), "{text}");
    }
}
