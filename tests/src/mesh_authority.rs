//! The CA of the mesh in the tests' cluster.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};

/// A CA that signs workload certificates and the certificate of the control plane.
#[derive(Debug)]
pub struct MeshAuthority {
    root: String,
    issuer: Issuer<'static, KeyPair>,
}

impl MeshAuthority {
    /// Creates a CA with a new key.
    pub fn create() -> Result<Self> {
        let mut params = CertificateParams::new([])?;
        params.distinguished_name.push(DnType::OrganizationName, "cluster.local");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
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

    /// Signs the public key of a request for a SPIFFE identity. Returns the certificate in PEM,
    /// backdated by two minutes as Istio's are.
    pub fn sign_workload(
        &self,
        request: &str,
        identity: &str,
        lifetime: Duration,
    ) -> Result<String> {
        let request = CertificateSigningRequestParams::from_pem(request)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let identity = identity.try_into().context("an identity in ASCII")?;
        params.subject_alt_names = vec![SanType::URI(identity)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let now = SystemTime::now();
        params.not_before = (now - Duration::from_secs(120)).into();
        params.not_after = (now + lifetime).into();
        let certificate = params.signed_by(&request.public_key, &self.issuer)?;
        Ok(certificate.pem())
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
