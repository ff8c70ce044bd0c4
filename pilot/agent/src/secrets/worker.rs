//! Requests, renewals and replacements of the workload certificate.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::rand::{GetRandomFlags, getrandom};
use rustls_pki_types::CertificateDer;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Timing;
use super::certificate::{WorkloadCertificate, utc};
use super::conditions::{Conditions, Subject};
use super::files::KeyPairFiles;
use super::metrics::Metrics;
use super::publisher::Publisher;
use super::schedule::{self, Clocks, GraceRatio, Renewal};
use super::source::Source;
use super::trust::parse_roots;
use crate::config::CertificateOptions;

/// Change of a file or setting.
pub(super) enum Change {
    /// Mounted root certificates of the mesh, as PEM.
    MountedRoots(String),
    /// Root certificates in the mesh's `ProxyConfig`, as PEM.
    ConfiguredRoots(Vec<String>),
    /// Certificate revocation lists, as PEM.
    Revocations(Option<String>),
    /// Mounted workload certificate with its roots, as PEM.
    Mounted(KeyPairFiles, String),
}

/// Task that keeps the workload certificate current.
pub(super) struct Worker {
    pub(super) source: Source,
    pub(super) publisher: Publisher,
    pub(super) changes: mpsc::UnboundedReceiver<Change>,
    pub(super) timing: Timing,
    pub(super) conditions: Arc<Conditions>,
    pub(super) metrics: Metrics,
    pub(super) attempts: Attempts,
}

/// State of the attempts to get a certificate.
pub(super) struct Attempts {
    /// Failures since the last success.
    failures: u32,
    /// Reason of the last failure.
    reason: Option<String>,
    /// Instant of the next retry, or of a renewal for another reason than age.
    next: Option<Instant>,
    received: Instant,
    ratio: GraceRatio,
    /// True when mounted roots have been read once.
    has_mounted: bool,
    /// True when roots have been configured once.
    has_configured: bool,
}

impl Attempts {
    pub(super) fn new() -> Self {
        Self {
            failures: 0,
            reason: None,
            next: None,
            received: Instant::now(),
            ratio: GraceRatio::draw(0.5, 0.0, 0.0),
            has_mounted: false,
            has_configured: false,
        }
    }
}

impl Worker {
    /// Runs until all senders of changes are gone.
    pub(super) async fn run(mut self) {
        loop {
            let wait = match self.source {
                Source::Service(_) => self.wait(),
                Source::Files => schedule::CHECK_INTERVAL,
            };
            self.report();
            if wait.is_zero() {
                self.renew().await;
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                change = self.changes.recv() => match change {
                    Some(change) => self.apply(change).await,
                    None => return,
                },
            }
        }
    }

    /// Returns the time until the next attempt, or until the clocks are read again.
    fn wait(&self) -> Duration {
        let by_age = match self.publisher.certificate() {
            None => Duration::ZERO,
            Some(certificate) => {
                let elapsed = self.attempts.received.elapsed();
                let clocks = Clocks { now: SystemTime::now(), elapsed };
                match schedule::renewal(certificate.lifetime(), self.attempts.ratio, clocks) {
                    Renewal::Due => Duration::ZERO,
                    Renewal::Wait(wait) => wait,
                }
            }
        };
        let planned = self.attempts.next.map(|at| at.saturating_duration_since(Instant::now()));
        match (self.attempts.failures, planned) {
            // A retry has its own pace.
            (1.., Some(planned)) => planned.min(schedule::CHECK_INTERVAL),
            (_, Some(planned)) => planned.min(by_age),
            (_, None) => by_age,
        }
    }

    async fn renew(&mut self) {
        let Source::Service(service) = &self.source else { return };
        self.metrics.requested();
        let (current, trust) = (self.publisher.certificate(), self.publisher.trust());
        match service.request(current, &trust.mounted).await {
            Ok((certificate, roots)) => {
                let until = utc(certificate.lifetime().not_after);
                tracing::info!("workload certificate for {} until {until}", service.identity);
                let CertificateOptions { grace_ratio, grace_jitter, .. } = service.options;
                self.attempts.ratio = GraceRatio::draw(grace_ratio, grace_jitter, random());
                self.attempts.received = Instant::now();
                (self.attempts.failures, self.attempts.next) = (0, None);
                self.attempts.reason = None;
                self.publisher.publish(certificate, roots).await;
            }
            Err(error) => {
                self.metrics.request_failed(error.word());
                self.attempts.failures = self.attempts.failures.saturating_add(1);
                let delay = self.timing.backoff.delay(self.attempts.failures, random());
                self.attempts.next = Some(Instant::now() + delay);
                self.attempts.reason = Some(error.to_string());
            }
        }
    }

    async fn apply(&mut self, change: Change) {
        match change {
            Change::MountedRoots(text) => {
                let Ok(roots) = parse_roots(text.as_bytes()) else { return };
                let was = self.announced();
                self.publisher.set_mounted(roots).await;
                if std::mem::replace(&mut self.attempts.has_mounted, true) {
                    self.renew_for_roots(&was);
                }
            }
            Change::ConfiguredRoots(texts) => {
                let was = self.announced();
                self.publisher.set_configured(self.configured(&texts)).await;
                if std::mem::replace(&mut self.attempts.has_configured, true) {
                    self.renew_for_roots(&was);
                }
            }
            Change::Revocations(revocations) => self.publisher.set_revocations(revocations).await,
            Change::Mounted(pair, roots) => self.publish_files(pair, &roots).await,
        }
    }

    /// Returns the usable roots: Envoy rejects all roots if one is invalid.
    fn configured(&self, texts: &[String]) -> Vec<CertificateDer<'static>> {
        let mut roots = Vec::new();
        let mut invalid = None;
        for text in texts {
            match parse_roots(text.as_bytes()) {
                Ok(parsed) => roots.extend(parsed),
                Err(error) => invalid = Some(error),
            }
        }
        match invalid {
            Some(error) => {
                let message = format!("root certificate in caCertificatesPem is ignored: {error}");
                self.conditions.set(Subject::ConfiguredRoots, message);
            }
            None => self.conditions.clear(&Subject::ConfiguredRoots),
        }
        roots
    }

    fn announced(&self) -> Announced {
        let is_own = self.publisher.is_announced(SystemTime::now());
        Announced { roots: self.publisher.trust().announced(), is_own }
    }

    /// Plans a renewal after a change of the announced roots: at once if the certificate's own
    /// root is no longer among them, else spread over time, because all pods see the change.
    fn renew_for_roots(&mut self, was: &Announced) {
        let is = self.announced();
        if is.roots == was.roots || self.attempts.failures > 0 {
            return;
        }
        let delay = if was.is_own && !is.is_own {
            Duration::ZERO
        } else {
            self.timing.root_spread.mul_f64(random())
        };
        tracing::info!("the root certificates have changed: renewing the workload certificate");
        self.attempts.next = Some(Instant::now() + delay);
    }

    async fn publish_files(&mut self, pair: KeyPairFiles, roots: &str) {
        let now = SystemTime::now();
        let parsed = WorkloadCertificate::from_pem(pair.chain.as_bytes(), pair.key, now);
        // Both were checked when they were read.
        if let (Ok(certificate), Ok(roots)) = (parsed, parse_roots(roots.as_bytes())) {
            tracing::info!("mounted certificate until {}", utc(certificate.lifetime().not_after));
            self.publisher.publish(certificate, roots).await;
        }
    }

    /// Sets the condition and the metric of the certificate.
    fn report(&self) {
        let now = SystemTime::now();
        let until = self.publisher.certificate().map(|it| it.lifetime().not_after);
        if let Some(until) = until {
            self.metrics.set_expiry(match until.duration_since(now) {
                Ok(left) => seconds(left),
                Err(error) => -seconds(error.duration()),
            });
        }
        match condition(until, now, self.attempts.reason.as_deref()) {
            Some(message) => {
                self.conditions.set(Subject::Workload, message);
            }
            None => self.conditions.clear(&Subject::Workload),
        }
    }
}

/// Root certificates that the mesh announces.
struct Announced {
    roots: Vec<CertificateDer<'static>>,
    /// True if the own certificate verifies under them.
    is_own: bool,
}

/// Returns the sentence about a certificate and its last failed renewal.
fn condition(until: Option<SystemTime>, now: SystemTime, failure: Option<&str>) -> Option<String> {
    match (until, failure) {
        (None, Some(failure)) => Some(format!("no workload certificate: {failure}")),
        (Some(until), Some(failure)) if until < now => {
            Some(format!("the workload certificate expired at {}: {failure}", utc(until)))
        }
        (Some(until), Some(failure)) => Some(format!(
            "the workload certificate, valid until {}, cannot be renewed: {failure}",
            utc(until)
        )),
        (Some(until), None) if until < now => {
            Some(format!("the workload certificate expired at {}", utc(until)))
        }
        (_, None) => None,
    }
}

/// Returns a random number in 0 to 1. Without randomness, spread is lost and nothing else.
fn random() -> f64 {
    let mut bytes = [0; 4];
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX)
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn condition_tells_expiry_from_failed_renewal() {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let (later, earlier) = (now + Duration::from_secs(60), now - Duration::from_secs(60));
        let sentence = |until, failure| condition(until, now, failure).unwrap_or_default();
        insta::assert_snapshot!([
            sentence(None, Some("no answer")),
            sentence(Some(later), Some("no answer")),
            sentence(Some(earlier), Some("no answer")),
            sentence(Some(earlier), None),
            sentence(Some(later), None),
        ].join("\n"), @"
        no workload certificate: no answer
        the workload certificate, valid until 2027-01-15 08:01:00 UTC, cannot be renewed: no answer
        the workload certificate expired at 2027-01-15 07:59:00 UTC: no answer
        the workload certificate expired at 2027-01-15 07:59:00 UTC
        ");
    }
}
