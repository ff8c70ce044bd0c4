//! Every metric family of the process. The registration takes names and help from this table, and
//! the reference page is written from it.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;

/// Row of the table.
#[derive(Clone, Copy, Debug)]
pub(in crate::webhook) struct MetricSpec {
    /// Name without the suffix that its type adds.
    pub(in crate::webhook) name: &'static str,
    /// Type.
    pub(in crate::webhook) kind: MetricType,
    /// Names of the labels.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reference page"))]
    pub(in crate::webhook) labels: &'static [&'static str],
    /// Help text.
    pub(in crate::webhook) help: &'static str,
}

impl MetricSpec {
    /// Writes the head of the family.
    pub(in crate::webhook) fn describe<'a>(
        &'a self,
        encoder: &'a mut DescriptorEncoder<'_>,
    ) -> Result<MetricEncoder<'a>, fmt::Error> {
        encoder.encode_descriptor(self.name, self.help, None, self.kind)
    }
}

macro_rules! metrics {
    ($($(#[$attribute:meta])* $constant:ident = $name:literal, $kind:ident, [$($label:literal),*], $help:literal;)*) => {
        $(
            $(#[$attribute])*
            pub(in crate::webhook) const $constant: &MetricSpec = &MetricSpec {
                name: $name, kind: MetricType::$kind, labels: &[$($label),*], help: $help,
            };
        )*

        /// The whole table.
        #[cfg(test)]
        pub(in crate::webhook) const METRICS: &[&MetricSpec] = &[$($constant),*];
    };
}

#[rustfmt::skip]
metrics! {
    LOG_LINES_LOST = "sidecar_injector_log_lines_lost", Counter, [],
        "Log lines dropped because stderr failed or was blocked";
    BUILD = "sidecar_injector_build", Info, ["version"],
        "Version of the program";
    INJECTION_REQUESTS = "sidecar_injection_requests", Counter, [],
        "Calls of the webhook";
    INJECTION_SUCCESS = "sidecar_injection_success", Counter, [],
        "Calls answered with a review, including skipped and denied pods";
    INJECTION_FAILURE = "sidecar_injection_failure", Counter, [],
        "Calls that failed or were denied";
    INJECTION_SKIP = "sidecar_injection_skip", Counter, [],
        "Calls that left the pod unchanged";
    INJECTION_TIME_SECONDS = "sidecar_injection_time_seconds", Histogram, [],
        "Time from the head of a call to its answer";
    INJECTIONS = "sidecar_injection", Counter, ["result", "reason"],
        "Calls by result (injected, skipped, denied, failed) and reason";
    PANICS = "sidecar_injector_panics", Counter, [],
        "Calls that ended in a panic";
    CONNECTIONS = "sidecar_injector_connections", Gauge, [],
        "Open connections to the webhook, including those in their handshake";
    HANDSHAKE_FAILURES = "sidecar_injector_handshake_failures", Counter, ["cause"],
        "TLS handshakes that failed, by cause; docs/install.md has them";
    EXPIRED_CONNECTIONS = "sidecar_injector_expired_connections", Counter, ["cause"],
        "Connections closed for slowness, by cause (idle, head, review, reply)";
    DISPLACED_CONNECTIONS = "sidecar_injector_displaced_connections", Counter, [],
        "Connections waiting for their client that were closed for new ones because all slots were taken";
    CERTIFICATE_NOT_AFTER_TIMESTAMP_SECONDS = "sidecar_injector_certificate_not_after_timestamp_seconds", Gauge, [],
        "Expiry time of the serving certificate; 0 while there is none";
    CONFIGURATION_GENERATION = "sidecar_injector_configuration_generation", Gauge, [],
        "Configurations applied; 0 while there is none";
    CONFIGURATION_REFUSED = "sidecar_injector_configuration_refused", Counter, [],
        "Configurations rejected; the last valid one stays";
    CONFIGURATION_REFUSED_TIMESTAMP_SECONDS = "sidecar_injector_configuration_refused_timestamp_seconds", Gauge, [],
        "Time of the last rejected configuration; 0 if there was none";
    CONFIGURATION_NOTICES = "sidecar_injector_configuration_notices", Gauge, [],
        "Warnings about the configuration in use, such as unknown keys; the log names them";
    WATCH = "sidecar_injector_watch", Gauge, ["resource", "state"],
        "Watches of the cluster by resource and state (pending, current, absent, forbidden, failing): 1 for the current state";
    PROXY_CONFIGS_REFUSED = "sidecar_injector_proxy_configs_refused", Gauge, [],
        "Invalid ProxyConfig resources, which are ignored; the log names them";
    CA_GENERATION = "sidecar_injector_ca_generation", Gauge, [],
        "Generation of the CA's Secret; 0 until it was read";
    CA_NOT_AFTER_TIMESTAMP_SECONDS = "sidecar_injector_ca_not_after_timestamp_seconds", Gauge, [],
        "Expiry time of the active CA; 0 until it was read";
    WEBHOOK_ENTRIES = "sidecar_injector_webhook_entries", Gauge, [],
        "Webhook entries whose caBundle is maintained";
    WEBHOOK_TRUSTED = "sidecar_injector_webhook_trusted", Gauge, [],
        "1 if every such entry trusts the serving certificate";
    WEBHOOK_FOREIGN_CAS = "sidecar_injector_webhook_foreign_cas", Gauge, [],
        "CAs in those entries that are not in the CA's Secret";
    CLOCK_SKEW_SECONDS = "sidecar_injector_clock_skew_seconds", Gauge, [],
        "Minimum lead of this machine's clock over the API server's; negative if behind";
    CA_SECRET_WRITES = "sidecar_injector_ca_secret_writes", Counter, [],
        "Writes of this process to the CA's Secret";
    CERTIFICATE_UPKEEP_ERRORS = "sidecar_injector_certificate_upkeep_errors", Counter, [],
        "Failed certificate reconciliations; the log has the causes";
    CERTIFICATE_UPKEEP_FAILING = "sidecar_injector_certificate_upkeep_failing", Gauge, [],
        "1 if the latest certificate reconciliation failed";
    WEBHOOK_PATCH_ATTEMPTS = "webhook_patch_attempts", Counter, ["name"],
        "Writes of caBundle, by webhook configuration";
    WEBHOOK_PATCH_RETRIES = "webhook_patch_retries", Counter, ["name"],
        "Writes of caBundle retried after a conflict";
    WEBHOOK_PATCH_FAILURES = "webhook_patch_failures", Counter, ["name", "reason"],
        "Writes of caBundle that were rejected or got no answer";
    TRUST_PROBE_SUCCESS = "sidecar_injector_trust_probe_success", Gauge, [],
        "1 if the API server was recently seen to call the webhook";
    CA_PHASE = "sidecar_injector_ca_phase", Gauge, ["phase"],
        "Phase of the CA's rotation: 1 for the current phase";
    RBAC_DENIED = "sidecar_injector_rbac_denied", Gauge, ["verb", "resource"],
        "Writes of the certificate reconciliation for which the account lacks permission";
    CA_BUNDLE_OVERWRITES = "sidecar_injector_ca_bundle_overwrites", Counter, ["manager"],
        "Invalid caBundle values written by others, by field manager";
    TRUST_PROBE_FAILURE = "sidecar_injector_trust_probe_failure", Gauge, ["cause"],
        "Cause of the latest failed trust probe: 1 for that cause";
    PODS_WITHOUT_SIDECAR = "sidecar_injector_pods_without_sidecar", Gauge, ["namespace"],
        "Pods without a sidecar that would get one if created now; the hundred namespaces with the most, all others together as (others)";
    PODS_STALE = "sidecar_injector_pods_stale", Gauge, ["namespace"],
        "Pods whose sidecar differs from the one that a new pod would get";
    REPORT_TIMESTAMP_SECONDS = "sidecar_injector_report_timestamp_seconds", Gauge, [],
        "Time of the latest complete report; 0 if there was none";
    REPORT_PODS = "sidecar_injector_report_pods", Gauge, [],
        "Pods in the latest complete report";
    REPORT = "sidecar_injector_report", Gauge, ["state"],
        "State of the latest report on pods (pending, current, forbidden, failing): 1 for the current state";
    REPORT_EVENTS = "sidecar_injector_report_events", Counter, [],
        "Events written about workloads";
    REPORT_EVENT_FAILURES = "sidecar_injector_report_event_failures", Counter, [],
        "Events that could not be written";
}
