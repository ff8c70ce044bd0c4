//! Metrics of the certificate service, with Istio's names.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// Counters of the certificate service.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Requests for a certificate.
    pub requests: Counter,
    /// Requests whose signing request is invalid.
    pub invalid: Counter,
    /// Certificates that were signed.
    pub signed: Counter,
}

impl Metrics {
    /// Registers the counters.
    pub fn register(&self, registry: &mut Registry) {
        for (name, help, counter) in [
            ("citadel_server_csr_count", "Certificate signing requests", &self.requests),
            (
                "citadel_server_csr_parsing_err_count",
                "Certificate signing requests that are invalid",
                &self.invalid,
            ),
            (
                "citadel_server_success_cert_issuance_count",
                "Certificates of workloads that were signed",
                &self.signed,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
    }
}
