//! The CA of a mesh in tests.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
    date_time_ymd,
};

/// A CA that signs workload certificates and the certificate of the control plane.
#[derive(Debug)]
pub struct MeshAuthority {
    root: String,
    issuer: Issuer<'static, KeyPair>,
}

impl MeshAuthority {
    /// Creates a CA with a new key, and with the name of Istio's.
    pub fn create() -> Result<Self> {
        Self::with_name(DnType::OrganizationName, "cluster.local")
    }

    /// Creates a CA with a new key and a common name.
    pub fn named(common_name: &str) -> Result<Self> {
        Self::with_name(DnType::CommonName, common_name)
    }

    fn with_name(part: DnType, name: &str) -> Result<Self> {
        let mut params = CertificateParams::new([])?;
        params.distinguished_name.push(part, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_validity(&mut params);
        let key = KeyPair::generate()?;
        let root = params.self_signed(&key)?.pem();
        Ok(Self { root, issuer: Issuer::new(params, key) })
    }

    /// Returns the root certificate in PEM.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Returns certificate and key of a server with these DNS names, both in PEM.
    pub fn server(&self, names: &[String]) -> Result<(String, String)> {
        let mut params = CertificateParams::new(names)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        set_validity(&mut params);
        let key = KeyPair::generate()?;
        Ok((params.signed_by(&key, &self.issuer)?.pem(), key.serialize_pem()))
    }

    /// Signs the public key of a request. Returns the certificate in PEM.
    pub fn sign(&self, request: &str, leaf: &WorkloadLeaf) -> Result<String> {
        let request = CertificateSigningRequestParams::from_pem(request)?;
        Ok(leaf.params()?.signed_by(&request.public_key, &self.issuer)?.pem())
    }

    /// Signs a new key. Returns certificate and key in PEM.
    pub fn issue(&self, leaf: &WorkloadLeaf) -> Result<(String, String)> {
        let key = KeyPair::generate()?;
        Ok((leaf.params()?.signed_by(&key, &self.issuer)?.pem(), key.serialize_pem()))
    }
}

/// Identity and validity of a workload certificate.
#[derive(Clone, Debug)]
pub struct WorkloadLeaf {
    /// SPIFFE identity.
    pub identity: String,
    /// Begin of the validity.
    pub not_before: SystemTime,
    /// End of the validity. X.509 has whole seconds.
    pub not_after: SystemTime,
}

impl WorkloadLeaf {
    /// Returns a certificate that is backdated by two minutes, as Istio's are.
    pub fn new(identity: &str, lifetime: Duration) -> Self {
        let now = SystemTime::now();
        Self {
            identity: identity.to_owned(),
            not_before: now - Duration::from_secs(120),
            not_after: now + lifetime,
        }
    }

    fn params(&self) -> Result<CertificateParams> {
        let mut params = CertificateParams::default();
        // The name of the CA would make this certificate look self-signed.
        params.distinguished_name = DistinguishedName::new();
        let identity = self.identity.as_str().try_into().context("an identity in ASCII")?;
        params.subject_alt_names = vec![SanType::URI(identity)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.not_before = self.not_before.into();
        params.not_after = self.not_after.into();
        Ok(params)
    }
}

/// Sets the validity from yesterday for a month.
pub(crate) fn set_validity(params: &mut CertificateParams) {
    let midnight = |at: Timestamp| {
        let date = at.to_zoned(TimeZone::UTC).date();
        date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    let day = SignedDuration::from_hours(24);
    let now = Timestamp::now();
    params.not_before = midnight(now - day);
    params.not_after = midnight(now + 30 * day);
}
