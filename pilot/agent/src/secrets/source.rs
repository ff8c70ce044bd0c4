//! Sources of the workload certificate.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use mesh::spiffe::SpiffeId;
use rustls::sign::CertifiedKey;
use rustls_pki_types::CertificateDer;
use tokio::sync::watch;
use zeroize::Zeroizing;

use super::certificate::{CertificateError, WorkloadCertificate};
use super::client::{CertificateClient, RequestError};
use super::csr::{SigningRequest, SigningRequestError};
use super::files::{FileError, KeyPairFiles};
use super::trust::{RootError, parse_roots};
use crate::config::CertificateOptions;

/// Source of the workload certificate.
pub(super) enum Source {
    /// The certificate service.
    Service(Box<CertificateService>),
    /// Mounted files, which arrive as [`Change::Mounted`](super::worker::Change::Mounted).
    Files,
}

/// The certificate service, and the certificate to request from it.
pub(super) struct CertificateService {
    pub(super) client: CertificateClient,
    /// Certificate in `PROV_CERT`, which authenticates to the service.
    pub(super) provisioned: Option<Provisioned>,
    pub(super) options: CertificateOptions,
    pub(super) identity: SpiffeId,
}

/// Certificate that authenticates to the certificate service.
pub(super) struct Provisioned {
    pub(super) folder: PathBuf,
    pub(super) identity: watch::Sender<Option<Arc<CertifiedKey>>>,
}

impl CertificateService {
    /// Requests a certificate with a new key. Returns it with the signer's roots.
    ///
    /// `current` is the certificate in use; `mounted` are roots beside those of the answer.
    pub(super) async fn request(
        &self,
        current: Option<&WorkloadCertificate>,
        mounted: &[CertificateDer<'static>],
    ) -> Result<(WorkloadCertificate, Vec<CertificateDer<'static>>), RenewalError> {
        if let Some(provisioned) = &self.provisioned {
            let identity = provisioned.read(current)?;
            provisioned.identity.send_replace(Some(Arc::new(identity)));
        }
        let CertificateOptions { key, pkcs8, lifetime, .. } = self.options;
        let request = SigningRequest::new(&self.identity, key, pkcs8)?;
        let texts = self.client.sign(request.pem, lifetime).await?;
        self.accept(&texts, request.key, mounted)
    }

    /// Verifies the answer of the certificate service.
    fn accept(
        &self,
        texts: &[String],
        key: Zeroizing<String>,
        mounted: &[CertificateDer<'static>],
    ) -> Result<(WorkloadCertificate, Vec<CertificateDer<'static>>), RenewalError> {
        let now = SystemTime::now();
        let [chain @ .., roots] = texts else {
            return Err(RenewalError::Answer { reason: "it is empty".to_owned() });
        };
        let roots = parse_roots(roots.as_bytes()).map_err(|cause| RenewalError::Roots { cause })?;
        // Entries may lack their line end.
        let certificate = WorkloadCertificate::from_pem(chain.join("\n").as_bytes(), key, now)
            .map_err(RenewalError::Certificate)?;
        let trusted: Vec<_> = roots.iter().chain(mounted).cloned().collect();
        certificate.verify(&self.identity, &trusted, now).map_err(RenewalError::Certificate)?;
        Ok((certificate, roots))
    }
}

impl Provisioned {
    /// Reads the certificate in `PROV_CERT`; without it, the current certificate serves.
    fn read(&self, current: Option<&WorkloadCertificate>) -> Result<CertifiedKey, RenewalError> {
        let read = KeyPairFiles::read(&self.folder.join(CHAIN), &self.folder.join(KEY));
        match (read, current.and_then(WorkloadCertificate::certified_key)) {
            (Ok(pair), _) => {
                let now = SystemTime::now();
                WorkloadCertificate::from_pem(pair.chain.as_bytes(), pair.key, now)
                    .map_err(RenewalError::Certificate)?
                    .certified_key()
                    .ok_or(RenewalError::ProvisionedKey { folder: self.folder.clone() })
            }
            (Err(_), Some(current)) => Ok(current),
            (Err(cause), None) => Err(RenewalError::Provisioned { cause }),
        }
    }
}

/// Error of a renewal.
#[derive(Debug, thiserror::Error)]
pub(super) enum RenewalError {
    /// The signing request could not be made.
    #[error(transparent)]
    SigningRequest(#[from] SigningRequestError),
    /// The certificate service.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The answer has no usable certificate.
    #[error("the answer of the certificate service cannot be used: {reason}")]
    Answer { reason: String },
    /// The certificate in the answer cannot be used.
    #[error("the certificate in the answer of the certificate service cannot be used: {0}")]
    Certificate(CertificateError),
    /// The roots in the answer cannot be used.
    #[error("the roots in the answer of the certificate service cannot be used: {cause}")]
    Roots { cause: RootError },
    /// The certificate for the service cannot be read.
    #[error("no certificate for the certificate service (PROV_CERT): {cause}")]
    Provisioned { cause: FileError },
    /// The key for the service has an unknown algorithm.
    #[error("the key in {} (PROV_CERT) is neither RSA nor ECDSA", folder.display())]
    ProvisionedKey { folder: PathBuf },
}

impl RenewalError {
    /// Word for the metric of failures.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::SigningRequest(_) => "signing_request",
            Self::Request(error) => error.word(),
            Self::Certificate(
                CertificateError::NotYetValid { .. } | CertificateError::Expired { .. },
            ) => "clock",
            Self::Answer { .. } | Self::Certificate(_) | Self::Roots { .. } => "answer",
            Self::Provisioned { .. } | Self::ProvisionedKey { .. } => "provisioned",
        }
    }
}

/// File of the chain in a folder of certificates.
pub(super) const CHAIN: &str = "cert-chain.pem";
/// File of the private key.
pub(super) const KEY: &str = "key.pem";
