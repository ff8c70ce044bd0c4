//! Metrics of the certificate service.

use crate::metrics::Count;

/// Counters of the certificate service. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct CertificateMetrics {
    /// Requests for a certificate.
    pub requests: Count,
    /// Requests whose signing request is invalid.
    pub invalid: Count,
    /// Certificates that were signed.
    pub signed: Count,
}
