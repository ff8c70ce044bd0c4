//! Certificate authorities of the mesh.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateSigningRequestParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
};

/// A certificate authority.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// Names and validity of a certificate.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) uri: String,
    pub(crate) not_before: SystemTime,
    pub(crate) not_after: SystemTime,
}

impl Leaf {
    /// A certificate of a service account, backdated by two minutes as Istio's are.
    pub(crate) fn new(account: &str, lifetime: Duration) -> Self {
        let now = SystemTime::now();
        Self {
            uri: format!("spiffe://cluster.local/ns/shop/sa/{account}"),
            not_before: now - Duration::from_secs(120),
            // X.509 has whole seconds.
            not_after: now + lifetime,
        }
    }
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let pem = parameters.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(parameters, key) }
    }

    /// Signs the key of a request.
    pub(crate) fn sign(&self, csr: &str, leaf: &Leaf) -> String {
        let request = CertificateSigningRequestParams::from_pem(csr).unwrap();
        self.sign_key(&request.public_key, leaf).pem()
    }

    /// Signs a new key; returns certificate and key as PEM.
    pub(crate) fn issue(&self, leaf: &Leaf) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        (self.sign_key(&key, leaf).pem(), key.serialize_pem())
    }

    /// Signs a serving certificate for a DNS name; returns it with its key.
    pub(crate) fn issue_server(&self, name: &str) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new([name.to_owned()]).unwrap();
        (parameters.signed_by(&key, &self.issuer).unwrap(), key)
    }

    fn sign_key(&self, key: &impl PublicKeyData, leaf: &Leaf) -> Certificate {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters.subject_alt_names = vec![SanType::URI(leaf.uri.as_str().try_into().unwrap())];
        parameters.not_before = leaf.not_before.into();
        parameters.not_after = leaf.not_after.into();
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        parameters.signed_by(key, &self.issuer).unwrap()
    }
}
