//! TLS negotiation, and authentication of clients.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, HandshakeKind, ProtocolVersion, SupportedProtocolVersion};
use serde_json::json;
use tempfile::TempDir;

use crate::client::{Client, trusting};
use crate::program::{Program, command};

#[test]
fn configured_tls_version_and_ciphers_are_negotiated() {
    let old = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256";
    let new = "TLS_AES_128_GCM_SHA256";
    let both = format!("{old},{new}");
    let table: [(&[&str], Option<CipherSuite>, Option<CipherSuite>); 5] = [
        (
            &[],
            Some(CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
            Some(CipherSuite::TLS13_AES_256_GCM_SHA384),
        ),
        (&["--tls-min-version", "TLSV1_3"], None, Some(CipherSuite::TLS13_AES_256_GCM_SHA384)),
        (
            &["--tls-cipher-suites", old],
            Some(CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
            Some(CipherSuite::TLS13_AES_256_GCM_SHA384),
        ),
        (&["--tls-cipher-suites", new], None, Some(CipherSuite::TLS13_AES_128_GCM_SHA256)),
        (
            &["--tls-cipher-suites", &both],
            Some(CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
            Some(CipherSuite::TLS13_AES_128_GCM_SHA256),
        ),
    ];
    for (flags, with_12, with_13) in table {
        let program = Program::start(flags);
        let (address, ca) = program.endpoint();
        let mut refused = 0.0;
        for (version, expected) in [(&TLS12, with_12), (&TLS13, with_13)] {
            let config = Arc::new(trusting(&ca, &[version]).with_no_client_auth());
            let Some(expected) = expected else {
                assert!(Client::connect_by(address, config).is_err(), "{flags:?} {version:?}");
                refused += 1.0;
                continue;
            };
            let mut client = Client::connect_by(address, config).unwrap();
            assert_eq!(client.negotiated().1, expected, "{flags:?}");
            assert_eq!(client.try_ready().unwrap(), 200);
        }
        program.metric_becomes(&failures("incompatible"), refused);
    }
}

#[test]
fn flags_without_usable_ciphers_are_rejected() {
    let table: [(&[&str], &str); 4] = [
        (&["--tls-min-version", "TLSV1_1"], "want TLSV1_2 or TLSV1_3"),
        (
            &["--tls-cipher-suites", "TLS_RSA_WITH_RC4_128_SHA"],
            "supported are: TLS_AES_256_GCM_SHA384",
        ),
        (&["--client-ca-file", "ca.pem"], "--client-allowed-names"),
        (&["--client-allowed-names", "apiserver"], "--client-ca-file"),
    ];
    for (flags, message) in table {
        let output = command().args(flags).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
        assert!(said.contains(message), "{flags:?}: {said}");
    }
}

#[test]
fn clients_without_trust_are_counted() {
    let (one, other) = (Program::start(&[]), Program::start(&[]));
    assert!(Client::connect(one.https, &other.endpoint().1).is_err());
    one.metric_becomes(&failures("distrusted"), 1.0);
}

#[test]
fn only_clients_with_a_valid_certificate_are_served() {
    let directory = TempDir::new().unwrap();
    let (ours, foreign) = (Authority::new(), Authority::new());
    let path = ours.write_to(directory.path());
    let names = "--client-allowed-names=apiserver,kube-apiserver.example";
    let program = Program::start(&["--client-ca-file", &path, names]);
    for version in [&TLS12, &TLS13] {
        let ask = |identity| status(&program, version, identity);
        assert_eq!(ask(Some(ours.issue("apiserver", &[]))), Some(200));
        assert_eq!(ask(Some(ours.issue("other", &["Kube-APIServer.example"]))), Some(200));
        assert_eq!(ask(None), None);
        assert_eq!(ask(Some(foreign.issue("apiserver", &[]))), None);
        // Every kubelet has such a certificate of the cluster's CA.
        assert_eq!(ask(Some(ours.issue("system:node:n1", &["n1.example"]))), None);
        assert_eq!(ask(Some(ours.issue("Apiserver", &[]))), None);
    }
    program.metric_becomes(&failures("client_certificate_missing"), 2.0);
    program.metric_becomes(&failures("client_certificate_refused"), 2.0);
    program.metric_becomes(&failures("client_name_refused"), 4.0);
}

#[test]
fn authenticated_sessions_are_not_resumed() {
    let directory = TempDir::new().unwrap();
    let ours = Authority::new();
    let path = ours.write_to(directory.path());
    let flags = ["--client-ca-file", &path, "--client-allowed-names", "apiserver"];
    let (open, restricted) = (Program::start(&[]), Program::start(&flags));
    for version in [&TLS12, &TLS13] {
        for (program, expected) in
            [(&open, HandshakeKind::Resumed), (&restricted, HandshakeKind::Full)]
        {
            let (address, ca) = program.endpoint();
            let (chain, key) = ours.issue("apiserver", &[]);
            let config = trusting(&ca, &[version]).with_client_auth_cert(chain, key).unwrap();
            let config = Arc::new(config);
            // The session ticket comes with or after the first answer.
            for kind in [HandshakeKind::Full, expected] {
                let mut client = Client::connect_by(address, Arc::clone(&config)).unwrap();
                assert_eq!(client.try_ready().unwrap(), 200);
                assert_eq!(client.negotiated().2, kind, "{version:?}");
            }
        }
    }
}

#[test]
fn client_ca_file_is_watched() {
    let directory = TempDir::new().unwrap();
    let (old, new) = (Authority::new(), Authority::new());
    let path = old.write_to(directory.path());
    let flags = ["--client-ca-file", &path, "--client-allowed-names", "apiserver"];
    let program = Program::start(&[&flags[..], &["--reload-interval", "10ms"]].concat());
    let mut kept = connect(&program, &TLS13, old.issue("apiserver", &[]));
    let skipped = json!({"uid": "u", "operation": "UPDATE", "object": {}});
    kept.review("/inject", &skipped);
    assert_eq!(status(&program, &TLS13, Some(new.issue("apiserver", &[]))), None);

    fs::write(&path, "").unwrap();
    let warning = format!(
        "--client-ca-file {path}: no CA certificates in PEM: no certificate in it; \
         the last valid client CAs stay"
    );
    program.log(&warning);
    assert_eq!(status(&program, &TLS13, Some(old.issue("apiserver", &[]))), Some(200));

    // The change is atomic, because a rename is.
    new.write_to(directory.path());
    program.log("client CAs are replaced");
    assert_eq!(status(&program, &TLS13, Some(new.issue("apiserver", &[]))), Some(200));
    assert_eq!(status(&program, &TLS13, Some(old.issue("apiserver", &[]))), None);
    // A client that had connected before gets one more answer.
    assert_eq!(kept.review("/inject", &skipped)["allowed"], true);
    assert!(kept.is_closed());
}

#[test]
fn client_ca_file_without_valid_ca_ends_the_program() {
    let directory = TempDir::new().unwrap();
    let empty = directory.path().join("empty.pem");
    fs::write(&empty, "").unwrap();
    let missing = directory.path().join("missing.pem");
    // The check happens before any port is bound: otherwise the error would be about the port in
    // use.
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    for (path, message) in [(empty, "no certificate in it"), (missing, "No such file")] {
        let flags = ["--client-allowed-names=a", "--client-ca-file", path.to_str().unwrap()];
        let own = ["--httpsAddr", &taken, "--adminAddr", &taken];
        let output = command().args(own).args(flags).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("error: --client-ca-file") && said.contains(message), "{said}");
        assert!(said.contains("\n  hint: "), "{said}");
    }
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Returns the status of the server's answer to a client; `None` without an answer.
fn status(
    program: &Program,
    version: &'static SupportedProtocolVersion,
    identity: Option<Identity>,
) -> Option<u16> {
    let (address, ca) = program.endpoint();
    let config = trusting(&ca, &[version]);
    let config = match identity {
        Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
        None => config.with_no_client_auth(),
    };
    Client::connect_by(address, Arc::new(config)).ok()?.try_ready().ok()
}

fn connect(
    program: &Program,
    version: &'static SupportedProtocolVersion,
    identity: Identity,
) -> Client {
    let (address, ca) = program.endpoint();
    let (chain, key) = identity;
    let config = trusting(&ca, &[version]).with_client_auth_cert(chain, key).unwrap();
    let client = Client::connect_by(address, Arc::new(config)).unwrap();
    let wanted =
        if version == &TLS13 { ProtocolVersion::TLSv1_3 } else { ProtocolVersion::TLSv1_2 };
    assert_eq!(client.negotiated().0, wanted);
    client
}

fn failures(cause: &str) -> String {
    format!("sidecar_injector_handshake_failures_total{{cause=\"{cause}\"}}")
}

/// A CA of clients.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, "clients");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = parameters.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(parameters, key), pem }
    }

    /// Writes its certificate to the file that the program reads.
    fn write_to(&self, directory: &Path) -> String {
        let path = directory.join("clients.pem");
        let new = directory.join("new.pem");
        fs::write(&new, &self.pem).unwrap();
        fs::rename(&new, &path).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn issue(&self, common_name: &str, dns_names: &[&str]) -> Identity {
        let key = KeyPair::generate().unwrap();
        let names: Vec<_> = dns_names.iter().copied().map(str::to_owned).collect();
        let mut parameters = CertificateParams::new(names).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, common_name);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        (vec![certificate.der().clone()], key)
    }
}
