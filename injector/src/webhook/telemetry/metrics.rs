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
use tokio::sync::watch;
use webhook_certs::serving::handshake_failure::HandshakeFailure;
use webhook_certs::status::Status;

use super::certificate_metrics::CertificateMetrics;
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
        page.0.register("sidecar_injector_build", "Version of the program", version);
        let metrics = Self {
            requests: page.add("sidecar_injection_requests", "Calls of the webhook"),
            success: page.add("sidecar_injection_success",
                "Calls answered with a review, including skipped and denied pods",
            ),
            failure: page.add("sidecar_injection_failure", "Calls that failed or were denied"),
            skip: page.add("sidecar_injection_skip", "Calls that left the pod unchanged"),
            time: page.add_metric("sidecar_injection_time_seconds",
                "Time from the head of a call to its answer",
                Histogram::new(SECONDS),
            ),
            results: page.add("sidecar_injection",
                "Calls by result (injected, skipped, denied, failed) and reason",
            ),
            panics: page.add("sidecar_injector_panics", "Calls that ended in a panic"),
            connections: page.add("sidecar_injector_connections",
                "Open connections to the webhook, including those in their handshake",
            ),
            handshake_failures: page.add("sidecar_injector_handshake_failures",
                "TLS handshakes that failed, by cause; docs/install.md has them",
            ),
            expired_connections: page.add("sidecar_injector_expired_connections",
                "Connections closed for slowness, by cause (idle, head, review, reply)",
            ),
            displaced_connections: page.add("sidecar_injector_displaced_connections",
                "Connections waiting for their client that were closed for new ones because all slots were taken",
            ),
            certificate_not_after: page.add("sidecar_injector_certificate_not_after_timestamp_seconds",
                "Expiry time of the serving certificate; 0 while there is none",
            ),
            generation: page.add("sidecar_injector_configuration_generation",
                "Configurations applied; 0 while there is none",
            ),
            refused: page.add("sidecar_injector_configuration_refused",
                "Configurations rejected; the last valid one stays",
            ),
            refused_at: page.add("sidecar_injector_configuration_refused_timestamp_seconds",
                "Time of the last rejected configuration; 0 if there was none",
            ),
            notices: page.add("sidecar_injector_configuration_notices",
                "Warnings about the configuration in use, such as unknown keys; the log names them",
            ),
            watches: page.add("sidecar_injector_watch",
                "Watches of the cluster by resource and state (pending, current, absent, forbidden, \
             failing): 1 for the current state",
            ),
            refused_proxy_configs: page.add("sidecar_injector_proxy_configs_refused",
                "Invalid ProxyConfig resources, which are ignored; the log names them",
            ),
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
        self.registry.register(
            "sidecar_injector_log_lines_lost",
            "Log lines dropped because stderr failed or was blocked",
            lost,
        );
    }

    /// Adds the counter of spans that did not reach a collector. Only a build with tracing has it.
    #[cfg(feature = "opentelemetry")]
    pub(in crate::webhook) fn follow_traces(&mut self, lost: Counter) {
        self.registry.register(
            "sidecar_injector_trace_spans_lost",
            "Spans dropped because the collector rejected them or was too slow",
            lost,
        );
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
        let labels = Labels { result: CallResult::Failed.word(), reason: "panic" };
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
    fn add<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        self.add_metric(name, help, M::default())
    }

    fn add_metric<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register(name, help, metric.clone());
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
