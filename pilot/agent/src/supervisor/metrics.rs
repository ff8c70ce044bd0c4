//! Metrics of supervision.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Metrics of supervision.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Started processes of Envoy.
    pub starts: Counter,
    /// Failed starts and hot restarts.
    pub failures: Counter,
    /// Serving epoch, -1 without one.
    pub epoch: Gauge,
}

impl Metrics {
    /// Adds the families to a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "istio_agent_envoy_starts",
            "Started Envoy processes",
            self.starts.clone(),
        );
        registry.register(
            "istio_agent_envoy_start_failures",
            "Failed starts and hot restarts of Envoy",
            self.failures.clone(),
        );
        registry.register(
            "istio_agent_envoy_epoch",
            "Restart epoch of the serving Envoy, or -1",
            self.epoch.clone(),
        );
    }
}
