//! Readiness of the process for reviews.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use webhook_certs::serving::ServingCertificate;

use crate::webhook::reload::Configuration;

/// Conditions that must hold before the first review, and afterwards.
///
/// Ready means: the listener is bound, a certificate is loaded that is valid now, a configuration
/// is loaded, and the process is not shutting down.
#[derive(Debug)]
pub struct Readiness {
    bound: AtomicBool,
    draining: AtomicBool,
    certificate: Arc<ServingCertificate>,
    configuration: Arc<Configuration>,
}

impl Readiness {
    /// Returns a state without a bound listener.
    pub fn new(certificate: Arc<ServingCertificate>, configuration: Arc<Configuration>) -> Self {
        Self {
            bound: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            certificate,
            configuration,
        }
    }

    /// Records that the webhook's listener accepts connections.
    pub fn set_bound(&self) {
        self.bound.store(true, Ordering::Release);
    }

    /// Records that the process is shutting down, for good.
    pub fn set_draining(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Returns the first missing condition at `now`, in words for the operator; `Ok` if none is
    /// missing.
    pub fn check(&self, now: Timestamp) -> Result<(), &'static str> {
        if self.draining.load(Ordering::Acquire) {
            return Err("shutting down");
        }
        if !self.bound.load(Ordering::Acquire) {
            return Err("the webhook's listener is not bound yet");
        }
        if !self.certificate.is_loaded() {
            return Err("no certificate yet");
        }
        if !self.certificate.is_valid_at(now) {
            return Err("the certificate is not valid now");
        }
        if self.configuration.current().is_none() {
            return Err("no configuration yet");
        }
        Ok(())
    }
}
