//! Metrics of the certificate service and of the CA.

use std::fmt;

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use webhook_certs::bundle::TrustedCa;
use webhook_certs::secret::Phase;

use super::Certificates;
use crate::metrics::Count;

/// Counters of the certificate service. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct CertificateMetrics {
    /// Requests for a certificate.
    pub requests: Count,
    /// Requests whose signing request is invalid.
    pub invalid: Count,
    /// Requests that the CA could not sign.
    pub unsigned: Count,
    /// Certificates that were signed.
    pub signed: Count,
}

/// Name, labels and help of the CA's metrics.
pub const CA_METRICS: [(&str, &str, &str); 8] =
    [ROOT_EXPIRY, ROOT_REST, CHAIN_EXPIRY, CHAIN_REST, PHASE, GENERATION, FAILING, DENIED];

const ROOT_EXPIRY: Spec = (
    "citadel_server_root_cert_expiry_timestamp",
    "",
    "End of the validity of the CA's root, in seconds since 1970; of a mounted CA the first of its \
     roots to expire. Absent until there is a CA",
);
const ROOT_REST: Spec =
    ("citadel_server_root_cert_expiry_seconds", "", "Seconds until that; negative afterwards");
const CHAIN_EXPIRY: Spec = (
    "citadel_server_cert_chain_expiry_timestamp",
    "",
    "End of the validity of the certificate that signs, in seconds since 1970",
);
const CHAIN_REST: Spec =
    ("citadel_server_cert_chain_expiry_seconds", "", "Seconds until that; negative afterwards");
const PHASE: Spec = (
    "pilot_ca_phase",
    "phase",
    "1 for the phase of the rotation of our own CA: `steady`, `prepared`, `activated`",
);
const GENERATION: Spec =
    ("pilot_ca_generation", "", "Generation of the CA's Secret, which grows with every change");
const FAILING: Spec = (
    "pilot_ca_upkeep_failing",
    "",
    "1 if the latest reconciliation of the CA and its roots had errors, which the log has",
);
const DENIED: Spec =
    ("pilot_ca_rbac_denied", "call", "1 for each write that the control plane may not make");

type Spec = (&'static str, &'static str, &'static str);

impl Collector for Certificates {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (authority, status) = (self.authority.borrow().clone(), self.status.borrow().clone());
        let now = Timestamp::now().as_second();
        let mut page = Page(encoder);
        if let Some(authority) = authority {
            let signs = authority.certificate();
            let roots = authority.roots().certificates();
            let root = if roots.contains(signs) {
                Some(signs.not_after())
            } else {
                roots.iter().map(TrustedCa::not_after).min()
            };
            if let Some(root) = root {
                page.gauge(&ROOT_EXPIRY, root.as_second())?;
                page.gauge(&ROOT_REST, root.as_second() - now)?;
            }
            page.gauge(&CHAIN_EXPIRY, signs.not_after().as_second())?;
            page.gauge(&CHAIN_REST, signs.not_after().as_second() - now)?;
        }
        let phases = Phase::WORDS.map(|phase| (phase, i64::from(status.phase == Some(phase))));
        page.gauges(&PHASE, "phase", phases)?;
        let generation = status.generation.unwrap_or_default();
        page.gauge(&GENERATION, i64::try_from(generation).unwrap_or(i64::MAX))?;
        page.gauge(&FAILING, i64::from(status.last_error.is_some()))?;
        page.gauges(&DENIED, "call", status.denied.iter().map(|call| (call.as_str(), 1)))
    }
}

/// Metrics page that is being written.
struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    fn gauge(&mut self, (name, _, help): &Spec, value: i64) -> fmt::Result {
        let metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(metric)
    }

    fn gauges<'a>(
        &mut self,
        (name, _, help): &Spec,
        label: &str,
        values: impl IntoIterator<Item = (&'a str, i64)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (text, value) in values {
            ConstGauge::new(value).encode(metric.encode_family(&[(label, text)])?)?;
        }
        Ok(())
    }
}
