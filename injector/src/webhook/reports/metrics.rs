//! Metrics of the reports, read at each scrape, so that a series ends when its count is zero.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::state::{ReportState, SharedReport};
use crate::report::tally::Counts;
use crate::webhook::telemetry::metric_table::{self as table, MetricSpec};

/// Latest report as metrics.
#[derive(Debug)]
pub(in crate::webhook) struct ReportMetrics(pub(in crate::webhook) SharedReport);

impl Collector for ReportMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let latest = self.0.latest();
        let mut counts = |spec: &MetricSpec, of: fn(&Counts) -> u64| {
            let mut metric = spec.describe(&mut encoder)?;
            for (namespace, counts) in &latest.namespaces {
                let count = i64::try_from(of(counts)).unwrap_or(i64::MAX);
                if count > 0 {
                    let labels = [("namespace", namespace.as_str())];
                    ConstGauge::new(count).encode(metric.encode_family(&labels)?)?;
                }
            }
            Ok(())
        };
        counts(table::PODS_WITHOUT_SIDECAR, |counts| counts.without_sidecar)?;
        counts(table::PODS_STALE, |counts| counts.stale)?;
        let mut metric = table::REPORT.describe(&mut encoder)?;
        for state in ReportState::STATES {
            let value = ConstGauge::new(i64::from(state == latest.state));
            value.encode(metric.encode_family(&[("state", state)])?)?;
        }
        let mut gauge = |spec: &MetricSpec, value: i64| {
            let metric = spec.describe(&mut encoder)?;
            ConstGauge::new(value).encode(metric)
        };
        gauge(
            table::REPORT_TIMESTAMP_SECONDS,
            latest.completed.map_or(0, jiff::Timestamp::as_second),
        )?;
        gauge(table::REPORT_PODS, i64::try_from(latest.pods).unwrap_or(i64::MAX))?;
        let [written, failed] = self.0.events();
        for (spec, value) in
            [(table::REPORT_EVENTS, written), (table::REPORT_EVENT_FAILURES, failed)]
        {
            let metric = spec.describe(&mut encoder)?;
            ConstCounter::new(value).encode(metric)?;
        }
        Ok(())
    }
}
