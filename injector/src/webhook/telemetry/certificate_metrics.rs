//! Metrics of the certificate's reconciler, read at each scrape.
//!
//! The `webhook_patch_*` names are Istio's, with their meaning: one attempt is one write of
//! `caBundle` that was sent.

use std::fmt;

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::sync::watch;
use webhook_certs::secret::Phase;
use webhook_certs::status::{Patches, Status};

use super::metric_table::{self as table, MetricSpec};

/// Latest status of the certificate's reconciler, as metrics.
#[derive(Debug)]
pub(in crate::webhook) struct CertificateMetrics(pub(in crate::webhook) watch::Receiver<Status>);

impl Collector for CertificateMetrics {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let status = self.0.borrow().clone();
        let mut page = Page(encoder);
        page.phase(status.phase)?;
        page.gauge(
            table::CA_GENERATION,
            status.generation.map_or(0, |generation| i64::try_from(generation).unwrap_or(i64::MAX)),
        )?;
        page.gauge(
            table::CA_NOT_AFTER_TIMESTAMP_SECONDS,
            status.authority_not_after.map_or(0, Timestamp::as_second),
        )?;
        page.gauge(table::WEBHOOK_ENTRIES, i64::try_from(status.entries).unwrap_or(i64::MAX))?;
        page.gauge(table::WEBHOOK_TRUSTED, i64::from(status.trusted))?;
        page.gauge(table::WEBHOOK_FOREIGN_CAS, i64::try_from(status.foreign).unwrap_or(i64::MAX))?;
        page.denied(&status.denied)?;
        page.gauge(table::CLOCK_SKEW_SECONDS, status.clock_ahead.unwrap_or_default().as_secs())?;
        page.overwrites(&status)?;
        page.probe(&status)?;
        page.counter(table::CA_SECRET_WRITES, status.secret_writes)?;
        page.counter(table::CERTIFICATE_UPKEEP_ERRORS, status.errors)?;
        page.gauge(table::CERTIFICATE_UPKEEP_FAILING, i64::from(status.last_error.is_some()))?;
        page.patches(table::WEBHOOK_PATCH_ATTEMPTS, &status, |patches, labels| {
            (patches.attempts, labels)
        })?;
        page.patches(table::WEBHOOK_PATCH_RETRIES, &status, |patches, labels| {
            (patches.retries, labels)
        })?;
        page.patches(table::WEBHOOK_PATCH_FAILURES, &status, |patches, mut labels| {
            labels.push(("reason", "webhook_update_failure"));
            (patches.failures, labels)
        })
    }
}

type Labels<'a> = Vec<(&'static str, &'a str)>;

/// Metrics page that is being written.
struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    fn gauge(&mut self, spec: &MetricSpec, value: i64) -> fmt::Result {
        let metric = spec.describe(&mut self.0)?;
        ConstGauge::new(value).encode(metric)
    }

    fn counter(&mut self, spec: &MetricSpec, value: u64) -> fmt::Result {
        let metric = spec.describe(&mut self.0)?;
        ConstCounter::new(value).encode(metric)
    }

    /// Writes 1 for the current phase and 0 for the others, so that each phase is a series.
    fn phase(&mut self, now: Option<&str>) -> fmt::Result {
        let mut metric = table::CA_PHASE.describe(&mut self.0)?;
        for phase in Phase::WORDS {
            let value = ConstGauge::new(i64::from(now == Some(phase)));
            value.encode(metric.encode_family(&[("phase", phase)])?)?;
        }
        Ok(())
    }

    /// Writes one series for each write that the account may not make; none if all are allowed.
    fn denied(&mut self, denied: &[String]) -> fmt::Result {
        let mut metric = table::RBAC_DENIED.describe(&mut self.0)?;
        for call in denied {
            let (verb, resource) = call.split_once(' ').unwrap_or((call, ""));
            let labels = [("verb", verb), ("resource", resource)];
            ConstGauge::new(1_i64).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn overwrites(&mut self, status: &Status) -> fmt::Result {
        let mut metric = table::CA_BUNDLE_OVERWRITES.describe(&mut self.0)?;
        for (manager, &count) in &status.overwrites {
            let labels = [("manager", manager.as_str())];
            ConstCounter::new(count).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// Writes the result of the trust probe; nothing without a probe.
    fn probe(&mut self, status: &Status) -> fmt::Result {
        let Some(probe) = &status.probe else {
            return Ok(());
        };
        self.gauge(table::TRUST_PROBE_SUCCESS, i64::from(probe.cause.is_none()))?;
        let mut metric = table::TRUST_PROBE_FAILURE.describe(&mut self.0)?;
        if let Some(cause) = probe.cause {
            ConstGauge::new(1_i64).encode(metric.encode_family(&[("cause", cause)])?)?;
        }
        Ok(())
    }

    fn patches<'a>(
        &mut self,
        spec: &MetricSpec,
        status: &'a Status,
        pick: impl Fn(&Patches, Labels<'a>) -> (u64, Labels<'a>),
    ) -> fmt::Result {
        let mut metric = spec.describe(&mut self.0)?;
        for (configuration, patches) in &status.patches {
            let (count, labels) = pick(patches, vec![("name", configuration.as_str())]);
            ConstCounter::new(count).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use webhook_certs::status::Probe;

    use super::*;
    use crate::webhook::telemetry::metrics::Metrics;

    #[test]
    fn certificate_status_is_exported() {
        let (sender, receiver) = watch::channel(Status::default());
        let mut metrics = Metrics::new();
        metrics.follow(receiver);
        let patches = Patches { attempts: 5, retries: 2, failures: 1 };
        sender.send_replace(Status {
            phase: Some("prepared"),
            generation: Some(3),
            entries: 4,
            trusted: true,
            authority_not_after: Timestamp::from_second(1_800_000_000).ok(),
            leaf_not_after: None,
            foreign: 1,
            clock_ahead: Some(SignedDuration::from_secs(-90)),
            overwrites: [("flux".to_owned(), 3)].into(),
            probe: Some(Probe { cause: Some("untrusted"), message: String::new() }),
            denied: vec!["patch mutatingwebhookconfigurations/hook".to_owned()],
            secret_writes: 2,
            patches: [("istio-sidecar-injector".to_owned(), patches)].into(),
            errors: 7,
            last_error: Some("not a label".to_owned()),
            ..Status::default()
        });
        let page = metrics.encode(None);
        let is_shown = |line: &&str| {
            ["_ca_", "_webhook_", "rbac", "upkeep", "webhook_patch", "_skew_", "_probe_"]
                .iter()
                .any(|part| line.contains(part))
                && !line.starts_with('#')
        };
        insta::assert_snapshot!(page.lines().filter(is_shown).collect::<Vec<_>>().join("\n"), @r#"
        sidecar_injector_ca_phase{phase="steady"} 0
        sidecar_injector_ca_phase{phase="prepared"} 1
        sidecar_injector_ca_phase{phase="activated"} 0
        sidecar_injector_ca_generation 3
        sidecar_injector_ca_not_after_timestamp_seconds 1800000000
        sidecar_injector_webhook_entries 4
        sidecar_injector_webhook_trusted 1
        sidecar_injector_webhook_foreign_cas 1
        sidecar_injector_rbac_denied{verb="patch",resource="mutatingwebhookconfigurations/hook"} 1
        sidecar_injector_clock_skew_seconds -90
        sidecar_injector_ca_bundle_overwrites_total{manager="flux"} 3
        sidecar_injector_trust_probe_success 0
        sidecar_injector_trust_probe_failure{cause="untrusted"} 1
        sidecar_injector_ca_secret_writes_total 2
        sidecar_injector_certificate_upkeep_errors_total 7
        sidecar_injector_certificate_upkeep_failing 1
        webhook_patch_attempts_total{name="istio-sidecar-injector"} 5
        webhook_patch_retries_total{name="istio-sidecar-injector"} 2
        webhook_patch_failures_total{name="istio-sidecar-injector",reason="webhook_update_failure"} 1
        "#);
    }
}
