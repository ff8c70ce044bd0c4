//! Metrics of the node agent, under Istio's names.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Metrics of the node agent.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    installs: Family<InstallLabels, Counter>,
    ready: Gauge,
    repairs: Family<RepairLabels, Counter>,
    missing: Counter,
}

/// Result of an installation.
#[derive(Clone, Copy, Debug, EncodeLabelValue, Eq, Hash, PartialEq)]
#[expect(non_camel_case_types, reason = "the names are values of Istio's label")]
pub enum InstallResult {
    /// Plugin and configuration are in place.
    SUCCESS,
    /// The plugin cannot be copied.
    COPY_BINARIES_FAILURE,
    /// The configuration cannot be written.
    CREATE_CNI_CONFIG_FAILURE,
}

/// Action for a pod without capture.
#[derive(Clone, Copy, Debug, EncodeLabelValue, Eq, Hash, PartialEq)]
#[expect(non_camel_case_types, reason = "the names are values of Istio's label")]
pub enum RepairType {
    /// The rules are programmed.
    repair,
    /// The pod is deleted.
    delete,
    /// The pod is labelled.
    label,
}

/// Result of an action.
#[derive(Clone, Copy, Debug, EncodeLabelValue, Eq, Hash, PartialEq)]
#[expect(non_camel_case_types, reason = "the names are values of Istio's label")]
pub enum RepairResult {
    /// It is done.
    success,
    /// It failed.
    fail,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct InstallLabels {
    result: InstallResult,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct RepairLabels {
    r#type: RepairType,
    result: RepairResult,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let (installs, ready) = (Family::default(), Gauge::default());
        let (repairs, missing) = (Family::<RepairLabels, Counter>::default(), Counter::default());
        let [
            (installs_name, _, of_installs),
            (ready_name, _, of_ready),
            (repairs_name, _, of_repairs),
            (missing_name, _, of_missing),
        ] = METRICS;
        // The library adds `_total` to the name of a counter.
        let without = |name: &'static str| name.trim_end_matches("_total");
        registry.register(without(installs_name), of_installs, installs.clone());
        registry.register(ready_name, of_ready, ready.clone());
        registry.register(without(repairs_name), of_repairs, repairs.clone());
        registry.register(without(missing_name), of_missing, missing.clone());
        // An alert sees the increase of a series, not its first value.
        for r#type in [RepairType::repair, RepairType::delete, RepairType::label] {
            for result in [RepairResult::success, RepairResult::fail] {
                let _ = repairs.get_or_create(&RepairLabels { r#type, result });
            }
        }
        Self { registry, installs, ready, repairs, missing }
    }
}

/// Names, labels and meaning.
pub(crate) const METRICS: [(&str, &str, &str); 4] = [
    (
        "istio_cni_installs_total",
        "result",
        "Changed results of installations: SUCCESS, COPY_BINARIES_FAILURE, CREATE_CNI_CONFIG_FAILURE",
    ),
    ("istio_cni_install_ready", "", "1 while plugin and configuration are in place"),
    (
        "istio_cni_repair_pods_repaired_total",
        "type, result",
        "Pods that started without the plugin, by action (repair, delete, label) and its result (success, fail)",
    ),
    ("istio_cni_pods_without_capture_total", "", "Running pods found without capture"),
];

impl Metrics {
    /// Counts an installation, and sets readiness.
    pub fn count_install(&self, result: InstallResult) {
        self.installs.get_or_create(&InstallLabels { result }).inc();
        self.ready.set(i64::from(result == InstallResult::SUCCESS));
    }

    /// Counts an action for a pod without capture.
    pub fn count_repair(&self, r#type: RepairType, result: RepairResult) {
        self.repairs.get_or_create(&RepairLabels { r#type, result }).inc();
    }

    /// Counts a running pod without capture.
    pub fn count_missing(&self) {
        self.missing.inc();
    }

    /// Returns the metrics in the text format of Prometheus.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = text::encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_istios() {
        let metrics = Metrics::default();
        metrics.count_install(InstallResult::SUCCESS);
        metrics.count_install(InstallResult::CREATE_CNI_CONFIG_FAILURE);
        metrics.count_repair(RepairType::delete, RepairResult::success);
        let text = metrics.text();
        for line in [
            r#"istio_cni_installs_total{result="SUCCESS"} 1"#,
            "istio_cni_install_ready 0",
            r#"istio_cni_repair_pods_repaired_total{type="delete",result="success"} 1"#,
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
    }
}
