//! CA of workloads.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mesh::spiffe::SpiffeId;
use rcgen::{
    CertificateParams, DistinguishedName, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime};
use thiserror::Error;
use zeroize::Zeroizing;

use super::ca_key::CaKey;
use super::signing_request::SigningRequest;
use crate::authority::{
    Authority, AuthorityError, Lifetime, alternative_names, common_name, draw_serial, parameters,
};
use crate::bundle::{self, Bundle, BundleError, TrustedCa};
use crate::pem_error;
use crate::server_names::ServerNames;
use crate::serving::{Identity, IdentityError};

/// Files of a CA, as Istio's Secret `cacerts` has them.
#[derive(Clone, PartialEq, Eq)]
pub struct CaFiles {
    /// `ca-cert.pem`: the certificate that signs.
    pub certificate: Vec<u8>,
    /// `ca-key.pem`: its key, in PKCS #8, SEC 1 or PKCS #1.
    pub key: Zeroizing<Vec<u8>>,
    /// `cert-chain.pem`: certificates between `certificate` and a root; may be empty, and may hold
    /// `certificate` and the root.
    pub chain: Vec<u8>,
    /// `root-cert.pem`: trusted roots, those of other control planes among them.
    pub roots: Vec<u8>,
}

/// CA that signs certificates of workloads, with the roots that workloads trust.
#[derive(Clone, Debug)]
pub struct WorkloadAuthority {
    certificate: TrustedCa,
    key: Arc<CaKey>,
    intermediates: Vec<TrustedCa>,
    roots: Bundle,
    limit: ValidityLimit,
}

/// Bounds of the validity of certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidityLimit {
    /// Longest validity.
    pub longest: SignedDuration,
    /// Latest end, if the CA is about to be dropped.
    pub until: Option<Timestamp>,
}

impl Default for ValidityLimit {
    fn default() -> Self {
        Self { longest: MAX_VALIDITY, until: None }
    }
}

impl WorkloadAuthority {
    /// CA of our own; `roots` has its certificate and those of other generations.
    pub fn from_authority(
        authority: &Authority,
        roots: Bundle,
        limit: ValidityLimit,
    ) -> Result<Self, WorkloadAuthorityError> {
        let certificate = authority.ca().clone();
        let key = Arc::new(CaKey::from_pem(authority.key_pem().as_bytes(), &certificate)?);
        Ok(Self { certificate, key, intermediates: Vec::new(), roots, limit })
    }

    /// Parses the files of a CA, and checks at `now` that a proxy would trust its certificates.
    pub fn from_files(files: &CaFiles, now: Timestamp) -> Result<Self, WorkloadAuthorityError> {
        let file = |name| move |cause| WorkloadAuthorityError::File { name, cause };
        let certificate = bundle::first_certificate(&files.certificate)
            .and_then(TrustedCa::from_der)
            .map_err(file("ca-cert.pem"))?;
        let key = Arc::new(CaKey::from_pem(&files.key, &certificate)?);
        let roots = Bundle::parse(&files.roots).map_err(file("root-cert.pem"))?;
        let intermediates =
            intermediates(&files.chain, &certificate, &roots).map_err(file("cert-chain.pem"))?;
        let limit = ValidityLimit::default();
        let authority = Self { certificate, key, intermediates, roots, limit };
        authority.is_trusted_by(&authority.roots, now)?;
        Ok(authority)
    }

    /// Signs a certificate for `identity`. It is valid for `validity`, as far as the limit allows,
    /// and not beyond the CA's own certificates; 2 minutes earlier, for clocks that are behind.
    pub fn issue(
        &self,
        request: &SigningRequest,
        identity: &SpiffeId,
        validity: SignedDuration,
        now: Timestamp,
    ) -> Result<WorkloadCertificate, WorkloadAuthorityError> {
        let lifetime = self.lifetime(validity, now)?;
        let sign = |source| AuthorityError::Sign { source };
        let mut parameters = parameters(DistinguishedName::new(), draw_serial()?, lifetime)?;
        usages(&mut parameters, request);
        parameters.subject_alt_names =
            vec![SanType::URI(identity.to_string().try_into().map_err(sign)?)];
        let issuer = Issuer::from_ca_cert_der(self.certificate.der(), &*self.key).map_err(sign)?;
        let certificate = parameters.signed_by(request, &issuer).map_err(sign)?;
        Ok(WorkloadCertificate { certificate: certificate.into(), lifetime })
    }

    /// Makes a key and a certificate for a server of the control plane itself.
    pub fn serving_identity(
        &self,
        names: &ServerNames,
        validity: SignedDuration,
        now: Timestamp,
    ) -> Result<Identity, WorkloadAuthorityError> {
        let lifetime = self.lifetime(validity, now)?;
        let sign = |source| AuthorityError::Sign { source };
        let key = KeyPair::generate().map_err(sign)?;
        let mut parameters = parameters(common_name(&names.first()), draw_serial()?, lifetime)?;
        parameters.subject_alt_names = alternative_names(names)?;
        parameters.is_ca = IsCa::ExplicitNoCa;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        parameters.use_authority_key_identifier_extension = true;
        let issuer = Issuer::from_ca_cert_der(self.certificate.der(), &*self.key).map_err(sign)?;
        let certificate = parameters.signed_by(&key, &issuer).map_err(sign)?;
        let mut chain = vec![certificate.into()];
        chain.extend(self.presented().map(|ca| ca.der().clone()));
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok(Identity::from_der(chain, key.into())?)
    }

    /// Chain for the certificate service: `certificate`, the CAs up to a root, one PEM block each,
    /// and all roots in the last entry.
    pub fn chain_pem(&self, certificate: &WorkloadCertificate) -> Vec<String> {
        let mut chain = vec![bundle::pem(&certificate.certificate)];
        chain.extend(self.presented().map(|ca| bundle::pem(ca.der())));
        chain.push(self.roots.to_pem());
        chain
    }

    /// Roots that workloads trust.
    pub fn roots(&self) -> &Bundle {
        &self.roots
    }

    /// The same CA with other roots.
    #[must_use]
    pub fn with_roots(&self, roots: Bundle) -> Self {
        Self { roots, ..self.clone() }
    }

    /// Bounds of the validity of certificates.
    pub fn limit(&self) -> ValidityLimit {
        self.limit
    }

    /// The certificate that signs.
    pub fn certificate(&self) -> &TrustedCa {
        &self.certificate
    }

    /// CAs that a workload presents beside its certificate; none if a root signs.
    fn presented(&self) -> impl Iterator<Item = &TrustedCa> {
        let root = self.roots.certificates().contains(&self.certificate);
        std::iter::once(&self.certificate).filter(move |_| !root).chain(&self.intermediates)
    }

    /// Validity of a certificate that is signed now; an error if it would have ended.
    fn lifetime(
        &self,
        validity: SignedDuration,
        now: Timestamp,
    ) -> Result<Lifetime, WorkloadAuthorityError> {
        let second = |at: Timestamp| Timestamp::from_second(at.as_second()).unwrap_or(at);
        let ValidityLimit { longest, until } = self.limit;
        let wanted = now.saturating_add(validity.min(longest)).unwrap_or(Timestamp::MAX);
        let cas = self.intermediates.iter().chain([&self.certificate]).map(TrustedCa::not_after);
        let not_after = cas.chain(until).fold(second(wanted), Timestamp::min);
        if not_after <= now {
            return Err(WorkloadAuthorityError::Expired { not_after });
        }
        let not_before = second(now.saturating_sub(BACKDATED).unwrap_or(Timestamp::MIN));
        Ok(Lifetime { not_before, not_after })
    }

    /// Verifies a certificate of this CA as a proxy does, by these roots.
    pub fn is_trusted_by(
        &self,
        roots: &Bundle,
        now: Timestamp,
    ) -> Result<(), WorkloadAuthorityError> {
        let untrusted = |reason: String| WorkloadAuthorityError::Untrusted { reason };
        let sign = |source| AuthorityError::Sign { source };
        let key = KeyPair::generate().map_err(sign)?;
        let request = CertificateParams::default().serialize_request(&key).map_err(sign)?;
        let request = SigningRequest::parse(&request.pem().map_err(sign)?)
            .map_err(|error| untrusted(error.to_string()))?;
        let identity =
            SpiffeId::parse(TEST_IDENTITY).map_err(|error| untrusted(error.to_string()))?;
        let certificate = self.issue(&request, &identity, MAX_VALIDITY, now)?;
        let mut store = RootCertStore::empty();
        for root in roots.certificates() {
            store.add(root.der().clone()).map_err(|error| untrusted(error.to_string()))?;
        }
        let provider = Arc::new(default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider)
            .build()
            .map_err(|error| untrusted(error.to_string()))?;
        let presented: Vec<_> = self.presented().map(|ca| ca.der().clone()).collect();
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        verifier
            .verify_client_cert(&certificate.certificate, &presented, now)
            .map_err(|error| untrusted(error.to_string()))?;
        Ok(())
    }
}

/// Certificate of a workload.
#[derive(Clone, Debug)]
pub struct WorkloadCertificate {
    certificate: CertificateDer<'static>,
    lifetime: Lifetime,
}

impl WorkloadCertificate {
    /// The certificate as DER.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Validity of the certificate.
    pub fn lifetime(&self) -> Lifetime {
        self.lifetime
    }
}

/// Reason for which a CA of workloads cannot be used, or a certificate not be signed.
#[derive(Debug, Error)]
pub enum WorkloadAuthorityError {
    /// A file of the CA has no usable certificates.
    #[error("{name} of the CA of workloads cannot be used: {cause}")]
    File {
        /// Name of the file in `cacerts`.
        name: &'static str,
        /// Reason.
        #[source]
        cause: BundleError,
    },
    /// The certificate or the key cannot be used, or a signature failed.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The certificate of the control plane's own server cannot be served.
    #[error("the server's own certificate cannot be served: {0}")]
    Serving(#[from] IdentityError),
    /// A proxy would not trust the certificates.
    #[error(
        "workloads would not trust certificates of this CA: {reason}; check that ca-cert.pem and \
         cert-chain.pem lead to a certificate in root-cert.pem"
    )]
    Untrusted {
        /// Reason of the verifier.
        reason: String,
    },
    /// The CA's own certificates have expired.
    #[error("the CA of workloads has expired at {not_after}: replace it")]
    Expired {
        /// End of its validity.
        not_after: Timestamp,
    },
}

/// Certificates between the signing one and the roots.
fn intermediates(
    chain: &[u8],
    certificate: &TrustedCa,
    roots: &Bundle,
) -> Result<Vec<TrustedCa>, BundleError> {
    let mut intermediates = Vec::new();
    for der in CertificateDer::pem_slice_iter(chain) {
        let der = der.map_err(|error| BundleError::Pem { reason: pem_error::describe(&error) })?;
        let ca = TrustedCa::from_der(der)?;
        if &ca != certificate && !roots.certificates().contains(&ca) {
            intermediates.push(ca);
        }
    }
    Ok(intermediates)
}

fn usages(parameters: &mut CertificateParams, request: &SigningRequest) {
    parameters.is_ca = IsCa::ExplicitNoCa;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    if request.is_rsa() {
        parameters.key_usages.push(KeyUsagePurpose::KeyEncipherment);
    }
    parameters.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    parameters.use_authority_key_identifier_extension = true;
}

/// Longest validity of a workload's certificate, as Istio's default.
pub const MAX_VALIDITY: SignedDuration = SignedDuration::from_hours(90 * 24);
const BACKDATED: SignedDuration = SignedDuration::from_mins(2);
const TEST_IDENTITY: &str = "spiffe://test/ns/test/sa/test";
