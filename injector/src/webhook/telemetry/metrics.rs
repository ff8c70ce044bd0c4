//! Prometheus metrics of the injector.
//!
//! The five `sidecar_injection_*` metrics of Istio keep their names and meaning, so that dashboards
//! and alerts still work. Further families add what these five do not express.

use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};
use reason::words;
use tokio::sync::watch;
use webhook_certs::serving::handshake_failure::HandshakeFailure;
use webhook_certs::status::Status;

use super::certificate_metrics::CertificateMetrics;
use super::metric_table::{self as table, MetricSpec};
use super::watch_state::WatchState;

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Counter,
    success: Counter,
    failure: Counter,
    skip: Counter,
    time: Histogram,
    results: Family<Labels, Counter>,
    panics: Counter,
    pub(in crate::webhook) connections: Gauge,
    handshake_failures: Family<Cause, Counter>,
    expired_connections: Family<Cause, Counter>,
    displaced_connections: Counter,
    certificate_not_after: Gauge,
    generation: Gauge,
    refused: Counter,
    refused_at: Gauge,
    notices: Gauge,
    watches: Family<Watch, Gauge>,
    refused_proxy_configs: Gauge,
}

impl Metrics {
    /// Registers every metric.
    pub fn new() -> Self {
        let mut page = MetricsPage::default();
        let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        page.0.register(table::BUILD.name, table::BUILD.help, version);
        let metrics = Self {
            requests: page.add(table::INJECTION_REQUESTS),
            success: page.add(table::INJECTION_SUCCESS),
            failure: page.add(table::INJECTION_FAILURE),
            skip: page.add(table::INJECTION_SKIP),
            time: page.add_metric(table::INJECTION_TIME_SECONDS, Histogram::new(SECONDS)),
            results: page.add(table::INJECTIONS),
            panics: page.add(table::PANICS),
            connections: page.add(table::CONNECTIONS),
            handshake_failures: page.add(table::HANDSHAKE_FAILURES),
            expired_connections: page.add(table::EXPIRED_CONNECTIONS),
            displaced_connections: page.add(table::DISPLACED_CONNECTIONS),
            certificate_not_after: page.add(table::CERTIFICATE_NOT_AFTER_TIMESTAMP_SECONDS),
            generation: page.add(table::CONFIGURATION_GENERATION),
            refused: page.add(table::CONFIGURATION_REFUSED),
            refused_at: page.add(table::CONFIGURATION_REFUSED_TIMESTAMP_SECONDS),
            notices: page.add(table::CONFIGURATION_NOTICES),
            watches: page.add(table::WATCH),
            refused_proxy_configs: page.add(table::PROXY_CONFIGS_REFUSED),
            registry: page.0,
        };
        // `rate()` needs the value before the first event.
        let causes = HandshakeFailure::ALL.map(HandshakeFailure::word);
        for cause in causes.into_iter().chain([TIMEOUT]) {
            let _ = metrics.handshake_failures.get_or_create(&Cause { cause });
        }
        for cause in ["idle", "head", "review", "reply"] {
            let _ = metrics.expired_connections.get_or_create(&Cause { cause });
        }
        metrics
    }

    /// Adds the metrics of the certificate's reconciler, read at each scrape.
    pub(in crate::webhook) fn follow(&mut self, upkeep: watch::Receiver<Status>) {
        self.registry.register_collector(Box::new(CertificateMetrics(upkeep)));
    }

    /// Adds the counter of lost log lines.
    pub(in crate::webhook) fn follow_log(&mut self, lost: Counter) {
        let spec = table::LOG_LINES_LOST;
        self.registry.register(spec.name, spec.help, lost);
    }

    /// Adds a collector, read at each scrape.
    pub(in crate::webhook) fn collect(&mut self, collector: Box<dyn Collector>) {
        self.registry.register_collector(collector);
    }

    /// Counts an incoming call, whatever its result.
    pub(in crate::webhook) fn requested(&self) {
        self.requests.inc();
    }

    /// Counts an answered call by its result and reason, and observes its duration. `answered` is
    /// true if the response is a review, which Istio counts as success even for a denial.
    pub(in crate::webhook) fn answered(
        &self,
        result: CallResult,
        reason: &'static str,
        answered: bool,
        took: Duration,
    ) {
        if answered {
            self.success.inc();
        }
        match result {
            CallResult::Injected => {}
            CallResult::Skipped => {
                self.skip.inc();
            }
            CallResult::Denied | CallResult::Failed => {
                self.failure.inc();
            }
        }
        self.time.observe(took.as_secs_f64());
        self.results.get_or_create(&Labels { result: result.word(), reason }).inc();
    }

    /// Counts a call that panicked and was answered with an error.
    pub(in crate::webhook) fn panicked(&self) {
        self.panics.inc();
        self.failure.inc();
        let labels = Labels { result: CallResult::Failed.word(), reason: words::PANIC.as_str() };
        self.results.get_or_create(&labels).inc();
    }

    /// Counts a failed TLS handshake.
    pub(in crate::webhook) fn handshake_failed(&self, cause: &'static str) {
        self.handshake_failures.get_or_create(&Cause { cause }).inc();
    }

    /// Counts a connection that was closed because its phase took too long.
    pub(in crate::webhook) fn connection_expired(&self, cause: &'static str) {
        self.expired_connections.get_or_create(&Cause { cause }).inc();
    }

    /// Counts a connection that a new one displaced.
    pub(in crate::webhook) fn displaced(&self) {
        self.displaced_connections.inc();
    }

    /// Records that new settings are in use; `generation` counts them from 1.
    pub(in crate::webhook) fn configured(&self, generation: i64) {
        self.generation.set(generation);
    }

    /// Records the number of warnings about the configuration in use.
    pub(in crate::webhook) fn notices(&self, count: usize) {
        self.notices.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts a rejected configuration.
    pub(in crate::webhook) fn configuration_refused(&self) {
        self.refused.inc();
        self.refused_at.set(Timestamp::now().as_second());
    }

    /// Records the state of a cluster watch: 1 for its current state and 0 for the others, so that
    /// each state is a series.
    pub(in crate::webhook) fn watch(&self, resource: &'static str, now: WatchState) {
        for state in WatchState::ALL {
            let watch = Watch { resource, state: state.word() };
            self.watches.get_or_create(&watch).set(i64::from(state == now));
        }
    }

    /// Records the number of invalid `ProxyConfig` resources.
    pub(in crate::webhook) fn proxy_configs_refused(&self, count: usize) {
        self.refused_proxy_configs.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Returns all metrics in the `OpenMetrics` text format. The scrape passes the certificate's
    /// expiry, because it changes without an event here.
    pub fn encode(&self, certificate_not_after: Option<Timestamp>) -> String {
        self.certificate_not_after.set(certificate_not_after.map_or(0, Timestamp::as_second));
        let mut page = String::with_capacity(8 * 1024);
        if text::encode(&mut page, &self.registry).is_err() {
            tracing::error!("metrics cannot be written");
        }
        page
    }
}

/// Metrics as they are registered, in the order of the page.
#[derive(Default)]
struct MetricsPage(Registry);

impl MetricsPage {
    fn add<M: Metric + Clone + Default>(&mut self, spec: &MetricSpec) -> M {
        self.add_metric(spec, M::default())
    }

    fn add_metric<M: Metric + Clone>(&mut self, spec: &MetricSpec, metric: M) -> M {
        self.0.register(spec.name, spec.help, metric.clone());
        metric
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Result of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CallResult {
    /// The review was answered with a patch.
    Injected,
    /// The review was answered without a patch.
    Skipped,
    /// The review was answered with a denial.
    Denied,
    /// The review was not answered.
    Failed,
}

impl CallResult {
    /// Returns the result in logs and labels.
    pub fn word(self) -> &'static str {
        match self {
            Self::Injected => "injected",
            Self::Skipped => "skipped",
            Self::Denied => "denied",
            Self::Failed => "failed",
        }
    }
}

/// Content type of the metrics page.
pub(in crate::webhook) const CONTENT_TYPE: &str =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Labels {
    result: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Cause {
    cause: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Watch {
    resource: &'static str,
    state: &'static str,
}

/// Histogram buckets in seconds. They start at 50 µs, because a review takes well below a
/// millisecond, and include Istio's own buckets, which queries may name.
const SECONDS: [f64; 18] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 1.0, 3.0,
    5.0, 10.0, 20.0, 30.0, 60.0,
];

/// Cause of a handshake that exceeded its timeout.
pub(in crate::webhook) const TIMEOUT: &str = "timeout";
