use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType,
};

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap().into();
        Self { certificate, issuer: Issuer::new(parameters, key) }
    }

    fn sign(&self, uris: &[&str], not_before: SystemTime, not_after: SystemTime) -> Signed {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.subject_alt_names =
            uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())).collect();
        parameters.not_before = not_before.into();
        parameters.not_after = not_after.into();
        parameters.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let chain = parameters.signed_by(&key, &self.issuer).unwrap().pem();
        Signed { chain, key: Zeroizing::new(key.serialize_pem()) }
    }
}

struct Signed {
    chain: String,
    key: Zeroizing<String>,
}

impl Signed {
    fn parse(self) -> WorkloadCertificate {
        WorkloadCertificate::from_pem(self.chain.as_bytes(), self.key, now()).unwrap()
    }
}

const WEB: &str = "spiffe://cluster.local/ns/shop/sa/web";

#[test]
fn certificate_of_the_pod_is_accepted() {
    let authority = Authority::new("mesh");
    let certificate = authority.sign(&[WEB], now() - HOUR, now() + HOUR).parse();
    let identity = SpiffeId::parse(WEB).unwrap();
    certificate.verify(&identity, &[authority.certificate], now()).unwrap();
    assert_eq!(certificate.lifetime().not_after, now() + HOUR);
}

#[test]
fn unusable_certificates_are_rejected_with_a_reason() {
    let authority = Authority::new("mesh");
    let identity = SpiffeId::parse(WEB).unwrap();
    let reject = |uris: &[&str], from, until| {
        let certificate = authority.sign(uris, from, until).parse();
        let roots = [authority.certificate.clone()];
        certificate.verify(&identity, &roots, now()).unwrap_err().to_string()
    };
    let (start, end) = (now() - HOUR, now() + HOUR);
    insta::assert_snapshot!([
        reject(&["spiffe://cluster.local/ns/shop/sa/other"], start, end),
        reject(&[WEB, "spiffe://cluster.local/ns/shop/sa/other"], start, end),
        reject(&[], start, end),
        reject(&[WEB], now() + HOUR, now() + 2 * HOUR),
        reject(&[WEB], start, now() - HOUR / 2),
    ].join("\n"), @r#"
    it is for "spiffe://cluster.local/ns/shop/sa/other", but this pod is spiffe://cluster.local/ns/shop/sa/web
    it is for "spiffe://cluster.local/ns/shop/sa/web, spiffe://cluster.local/ns/shop/sa/other", but this pod is spiffe://cluster.local/ns/shop/sa/web
    it is for "", but this pod is spiffe://cluster.local/ns/shop/sa/web
    it is valid from 2027-01-15 09:00:00 UTC on, but the clock of this node shows 2027-01-15 08:00:00 UTC: set the node's clock
    it expired at 2027-01-15 07:30:00 UTC; the clock of this node shows 2027-01-15 08:00:00 UTC
    "#);
}

#[test]
fn foreign_root_is_rejected_whatever_its_name() {
    let (authority, foreign) = (Authority::new("mesh"), Authority::new("mesh"));
    let identity = SpiffeId::parse(WEB).unwrap();
    let certificate = authority.sign(&[WEB], now() - HOUR, now() + HOUR).parse();
    let foreign_root = foreign.certificate.clone();
    let error = certificate.verify(&identity, &[foreign_root], now()).unwrap_err();
    assert!(matches!(error, CertificateError::Chain { .. }), "{error}");
    let error = certificate.verify(&identity, &[], now()).unwrap_err();
    assert!(matches!(error, CertificateError::NoRoots), "{error}");
    let both = [foreign.certificate, authority.certificate];
    certificate.verify(&identity, &both, now()).unwrap();
}

#[test]
fn small_clock_difference_is_tolerated() {
    let authority = Authority::new("mesh");
    let certificate = authority.sign(&[WEB], now() + TOLERANCE / 2, now() + HOUR).parse();
    let identity = SpiffeId::parse(WEB).unwrap();
    certificate.verify(&identity, &[authority.certificate], now()).unwrap();
}

#[test]
fn key_of_another_certificate_is_rejected() {
    let authority = Authority::new("mesh");
    let sign = || authority.sign(&[WEB], now() - HOUR, now() + HOUR);
    let error = WorkloadCertificate::from_pem(sign().chain.as_bytes(), sign().key, now());
    assert!(matches!(error, Err(CertificateError::KeyMismatch)));
}

#[test]
fn invalid_text_is_an_error() {
    let authority = Authority::new("mesh");
    let Signed { chain, key } = authority.sign(&[WEB], now() - HOUR, now() + HOUR);
    let parse = |chain: &str, key: &str| {
        WorkloadCertificate::from_pem(chain.as_bytes(), Zeroizing::new(key.to_owned()), now())
            .unwrap_err()
    };
    assert!(matches!(parse("", &key), CertificateError::Empty));
    assert!(matches!(parse(&chain[..chain.len() / 2], &key), CertificateError::Parse { .. }));
    assert!(matches!(parse(&chain, ""), CertificateError::Key { .. }));
}

#[test]
fn debug_output_hides_the_key() {
    let authority = Authority::new("mesh");
    let certificate = authority.sign(&[WEB], now() - HOUR, now() + HOUR).parse();
    assert!(!format!("{certificate:?}").contains("PRIVATE"));
}
