//! Metrics of the reports, read at each scrape, so that a series ends when its count is zero.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::state::{ReportState, SharedReport};
use crate::report::tally::Counts;

/// Latest report as metrics.
#[derive(Debug)]
pub(super) struct ReportMetrics(pub(super) SharedReport);

impl Collector for ReportMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let told = self.0.told();
        let mut counts = |name, help, of: fn(&Counts) -> u64| {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (namespace, counts) in &told.namespaces {
                let count = i64::try_from(of(counts)).unwrap_or(i64::MAX);
                if count > 0 {
                    let labels = [("namespace", namespace.as_str())];
                    ConstGauge::new(count).encode(metric.encode_family(&labels)?)?;
                }
            }
            Ok(())
        };
        counts(
            "sidecar_injector_pods_without_sidecar",
            "Pods without a sidecar that would get one if created now; the hundred namespaces with the most, all others together as (others)",
            |counts| counts.without_sidecar,
        )?;
        counts(
            "sidecar_injector_pods_stale",
            "Pods whose sidecar differs from the one that a new pod would get",
            |counts| counts.stale,
        )?;
        let help = "State of the latest report on pods (pending, current, forbidden, failing): 1 for the current state";
        let name = "sidecar_injector_report";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for state in ReportState::STATES {
            let value = ConstGauge::new(i64::from(state == told.state));
            value.encode(metric.encode_family(&[("state", state)])?)?;
        }
        let mut gauge = |name, help, value: i64| {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)
        };
        gauge(
            "sidecar_injector_report_timestamp_seconds",
            "Time of the latest complete report; 0 if there was none",
            told.completed.map_or(0, jiff::Timestamp::as_second),
        )?;
        gauge(
            "sidecar_injector_report_pods",
            "Pods in the latest complete report",
            i64::try_from(told.pods).unwrap_or(i64::MAX),
        )?;
        let [written, failed] = self.0.events();
        for (name, help, value) in [
            ("sidecar_injector_report_events", "Events written about workloads", written),
            ("sidecar_injector_report_event_failures", "Events that could not be written", failed),
        ] {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(metric)?;
        }
        Ok(())
    }
}
