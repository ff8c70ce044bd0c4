//! Publication of certificates and roots, in an order that loses no connection.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::sign::CertifiedKey;
use rustls_pki_types::CertificateDer;
use tokio::sync::watch;

use super::certificate::WorkloadCertificate;
use super::output::Copies;
use super::pem;
use super::resource::SecretName;
use super::sds::{certificate_secret, roots_secret};
use super::store::SecretStore;
use super::trust::TrustBundle;

/// Current certificate and trust bundle, and their receivers.
pub(super) struct Publisher {
    store: Arc<SecretStore>,
    certificate: Option<WorkloadCertificate>,
    trust: TrustBundle,
    revocations: Option<String>,
    identity: watch::Sender<Option<Arc<CertifiedKey>>>,
    copies: watch::Sender<Option<Copies>>,
}

impl Publisher {
    pub(super) fn new(
        store: Arc<SecretStore>,
        identity: watch::Sender<Option<Arc<CertifiedKey>>>,
        copies: watch::Sender<Option<Copies>>,
    ) -> Self {
        Self {
            store,
            certificate: None,
            trust: TrustBundle::default(),
            revocations: None,
            identity,
            copies,
        }
    }

    /// The current certificate.
    pub(super) fn certificate(&self) -> Option<&WorkloadCertificate> {
        self.certificate.as_ref()
    }

    /// The current roots by source.
    pub(super) fn trust(&self) -> &TrustBundle {
        &self.trust
    }

    /// Publishes a new certificate with the signer's roots.
    ///
    /// Envoy gets the new roots beside the old ones first, then the certificate, and loses the old
    /// roots last. So its connections to itself and to others verify at every moment.
    pub(super) async fn publish(
        &mut self,
        certificate: WorkloadCertificate,
        signer: Vec<CertificateDer<'static>>,
    ) {
        let next = TrustBundle { signer, ..self.trust.clone() };
        self.set_roots(&self.trust.joined(&next)).await;
        let secret = certificate_secret(certificate.chain_pem(), certificate.key_pem().clone());
        self.identity.send_replace(certificate.certified_key().map(Arc::new));
        self.certificate = Some(certificate);
        let version = self.store.set(&SecretName::Workload, secret);
        self.store.is_answered(&SecretName::Workload, version, ANSWER_TIMEOUT).await;
        self.trust = next;
        self.set_current_roots().await;
    }

    /// Replaces the mounted roots.
    pub(super) async fn set_mounted(&mut self, roots: Vec<CertificateDer<'static>>) {
        self.trust.mounted = roots;
        self.set_current_roots().await;
    }

    /// Replaces the roots in the mesh's `ProxyConfig`.
    pub(super) async fn set_configured(&mut self, roots: Vec<CertificateDer<'static>>) {
        self.trust.configured = roots;
        self.set_current_roots().await;
    }

    /// Replaces the certificate revocation lists.
    pub(super) async fn set_revocations(&mut self, revocations: Option<String>) {
        self.revocations = revocations;
        self.set_current_roots().await;
    }

    /// True if the certificate verifies under the roots that the mesh announces.
    pub(super) fn is_announced(&self, now: SystemTime) -> bool {
        let announced = self.trust.announced();
        self.certificate
            .as_ref()
            .is_some_and(|certificate| certificate.verify_chain(&announced, now).is_ok())
    }

    async fn set_current_roots(&self) {
        // Before the first certificate the bundle may lack the signer's roots.
        if self.certificate.is_some() {
            self.set_roots(&self.trust.roots()).await;
        }
        let copies = self.certificate.as_ref().map(|certificate| Copies {
            chain: certificate.chain_pem(),
            key: certificate.key_pem().clone(),
            roots: pem::certificates(&self.trust.roots()),
        });
        self.copies.send_if_modified(|current| {
            let is_changed = *current != copies;
            *current = copies;
            is_changed
        });
    }

    async fn set_roots(&self, roots: &[CertificateDer<'static>]) {
        let secret = roots_secret(pem::certificates(roots), self.revocations.clone());
        let version = self.store.set(&SecretName::Roots, secret);
        if !self.store.is_answered(&SecretName::Roots, version, ANSWER_TIMEOUT).await {
            tracing::warn!("Envoy has not answered the root certificates yet");
        }
    }
}

/// Envoy answers within milliseconds; a hanging one must not delay a certificate for long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
