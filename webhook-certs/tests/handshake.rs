//! Handshakes with leaves and bundles, in memory, as TLS clients do them.

#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};
use webhook_certs::authority::{Authority, Entropy, Leaf, Lifetime};
use webhook_certs::bundle::Bundle;
use webhook_certs::certificate_files::{CertificateFiles, FilesError};
use webhook_certs::server_names::ServerNames;
use webhook_certs::serving::{Identity, IdentityError, ServingCertificate, server_config};

const SERVICE: &str = "sidecar-injector.istio-system.svc";

fn now() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

fn hours(hours: i64) -> SignedDuration {
    SignedDuration::from_hours(hours)
}

fn names() -> ServerNames {
    let extra = ["injector.example".to_owned(), "192.0.2.7".to_owned()];
    ServerNames::from_service("sidecar-injector", "istio-system", "cluster.local", &extra).unwrap()
}

fn authority(generation: u64) -> Authority {
    let lifetime = Lifetime::starting(now(), hours(24 * 365));
    Authority::create("test", generation, lifetime, Entropy::draw().unwrap()).unwrap()
}

fn leaf(authority: &Authority, duration: SignedDuration) -> Leaf {
    let lifetime = Lifetime::starting(now(), duration);
    authority.issue(&names(), lifetime, Entropy::draw().unwrap()).unwrap()
}

fn serving(leaf: &Leaf) -> Arc<ServingCertificate> {
    let certificate = ServingCertificate::new();
    certificate.set(Identity::from_leaf(leaf).unwrap());
    certificate
}

fn bundle(authorities: &[&Authority]) -> Bundle {
    let (first, others) = authorities.split_first().unwrap();
    Bundle::new(first.ca().clone(), others.iter().map(|authority| authority.ca().clone()))
}

#[derive(Debug)]
struct Clock(Timestamp);

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let second = u64::try_from(self.0.as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(second)))
    }
}

/// Performs a handshake at the instant `at`, as an API server that trusts `bundle`, and returns the
/// server's certificate.
fn handshake(
    certificate: &Arc<ServingCertificate>,
    bundle: &Bundle,
    name: &str,
    alpn: &[&[u8]],
    at: Timestamp,
) -> Result<Vec<u8>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    for ca in bundle.certificates() {
        roots.add(ca.der().clone()).unwrap();
    }
    let mut config =
        ClientConfig::builder_with_details(Arc::new(default_provider()), Arc::new(Clock(at)))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name)?;
    let mut server = ServerConnection::new(server_config(Arc::clone(certificate)))?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        server.read_tls(&mut wire.as_slice()).unwrap();
        server.process_new_packets()?;
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        let mut wire = wire.as_slice();
        while !wire.is_empty() {
            client.read_tls(&mut wire).unwrap();
            client.process_new_packets()?;
        }
    }
    Ok(client.peer_certificates().unwrap()[0].to_vec())
}

fn accepts(certificate: &Arc<ServingCertificate>, bundle: &Bundle, name: &str) -> bool {
    handshake(certificate, bundle, name, &[b"http/1.1"], now()).is_ok()
}

#[test]
fn leaf_is_valid_for_the_services_names_only() {
    let authority = authority(1);
    let certificate = serving(&leaf(&authority, hours(168)));
    let bundle = bundle(&[&authority]);
    for name in [
        SERVICE,
        "sidecar-injector",
        "sidecar-injector.istio-system",
        "sidecar-injector.istio-system.svc.cluster.local",
        "injector.example",
        "192.0.2.7",
    ] {
        assert!(accepts(&certificate, &bundle, name), "{name}");
    }
    for name in ["sidecar-injector.other.svc", "istiod.istio-system.svc", "192.0.2.8"] {
        assert!(!accepts(&certificate, &bundle, name), "{name}");
    }
}

#[test]
fn ca_with_the_same_name_is_not_trusted() {
    let certificate = serving(&leaf(&authority(1), hours(168)));
    assert!(!accepts(&certificate, &bundle(&[&authority(1)]), SERVICE));
}

#[test]
fn leaves_of_a_ca_and_its_renewal_verify_under_each_other() {
    let old = authority(1);
    let lifetime = Lifetime::starting(now(), hours(24 * 700));
    let new = old.renewed(lifetime, Entropy::draw().unwrap()).unwrap();
    assert_ne!(old.ca(), new.ca());
    for (signer, trusted) in [(&old, &new), (&new, &old), (&new, &new)] {
        let certificate = serving(&leaf(signer, hours(168)));
        assert!(accepts(&certificate, &bundle(&[trusted]), SERVICE));
        assert!(bundle(&[trusted]).trusts(signer.ca(), now()));
    }
}

#[test]
fn clients_with_wrong_clocks_accept_the_leaf() {
    let authority = authority(1);
    let certificate = serving(&leaf(&authority, hours(1)));
    let bundle = bundle(&[&authority]);
    let at = |minutes| {
        let at = now() + SignedDuration::from_mins(minutes);
        handshake(&certificate, &bundle, SERVICE, &[b"http/1.1"], at).is_ok()
    };
    assert!(at(-59) && at(-30) && at(0) && at(30) && at(59));
    assert!(!at(-61) && !at(61));
}

#[test]
fn a_leaf_does_not_outlive_its_ca() {
    let lifetime = Lifetime::starting(now(), hours(2));
    let authority = Authority::create("test", 1, lifetime, Entropy::draw().unwrap()).unwrap();
    let leaf = leaf(&authority, hours(168));
    assert_eq!(leaf.lifetime().not_after, authority.ca().not_after());
    assert_eq!(serving(&leaf).not_after(), Some(now() + hours(2)));
}

#[test]
fn http_1_is_negotiated_and_http_2_alone_is_rejected() {
    let authority = authority(1);
    let certificate = serving(&leaf(&authority, hours(1)));
    let bundle = bundle(&[&authority]);
    let offer = |alpn: &[&[u8]]| handshake(&certificate, &bundle, SERVICE, alpn, now()).is_ok();
    assert!(offer(&[b"http/1.1"]) && offer(&[b"h2", b"http/1.1"]) && offer(&[]));
    assert!(!offer(&[b"h2"]));
}

#[test]
fn only_the_newest_certificate_is_served() {
    let authority = authority(1);
    let bundle = bundle(&[&authority]);
    let certificate = ServingCertificate::new();
    assert!(!certificate.is_loaded() && !certificate.is_valid_at(now()));
    assert!(!accepts(&certificate, &bundle, SERVICE));
    for _ in 0..2 {
        let leaf = leaf(&authority, hours(1));
        certificate.set(Identity::from_leaf(&leaf).unwrap());
        assert!(certificate.is_loaded() && certificate.is_valid_at(now()));
        assert!(!certificate.is_valid_at(now() + hours(2)));
        let shown = handshake(&certificate, &bundle, SERVICE, &[], now()).unwrap();
        assert_eq!(shown, leaf.certificate().as_ref());
    }
}

#[test]
fn serial_numbers_are_positive_and_of_full_length() {
    use x509_parser::prelude::{FromDer, X509Certificate};
    let authority = authority(1);
    for der in [authority.ca().der().clone(), leaf(&authority, hours(1)).certificate().clone()] {
        let (_, parsed) = X509Certificate::from_der(&der).unwrap();
        let serial = parsed.raw_serial();
        assert_eq!(serial.len(), 16);
        assert!((0x40..0x80).contains(&serial[0]), "{serial:?}");
    }
}

#[test]
fn ca_pem_round_trips_and_a_foreign_key_is_rejected() {
    let one = authority(1);
    let read =
        Authority::from_pem(one.certificate_pem().as_bytes(), one.key_pem().as_bytes()).unwrap();
    let certificate = serving(&leaf(&read, hours(1)));
    assert!(accepts(&certificate, &bundle(&[&one]), SERVICE));
    let error =
        Authority::from_pem(one.certificate_pem().as_bytes(), authority(2).key_pem().as_bytes())
            .unwrap_err();
    assert_eq!(error.to_string(), "the CA key does not belong to the certificate `CN=test-ca 1`");
}

#[test]
fn mismatched_certificate_and_key_are_rejected() {
    let authority = authority(1);
    let (one, other) = (leaf(&authority, hours(1)), leaf(&authority, hours(1)));
    let mixed = Identity::from_pem(one.certificate_pem().as_bytes(), other.key_pem().as_bytes());
    assert_eq!(mixed.err(), Some(IdentityError::Mismatch));
    assert!(Identity::from_pem(b"", other.key_pem().as_bytes()).is_err());
    assert!(Identity::from_pem(one.certificate_pem().as_bytes(), b"").is_err());
}

/// Mounts a generation as the kubelet does: the files are links into `..data`, which is a link to
/// the generation's directory.
fn mount(directory: &Path, generation: &str, certificate: &str, key: &str) {
    let files = directory.join(generation);
    fs::create_dir(&files).unwrap();
    fs::write(files.join("tls.crt"), certificate).unwrap();
    fs::write(files.join("tls.key"), key).unwrap();
    let link = directory.join("..data_tmp");
    symlink(generation, &link).unwrap();
    fs::rename(link, directory.join("..data")).unwrap();
    for file in ["tls.crt", "tls.key"] {
        let _ = symlink(Path::new("..data").join(file), directory.join(file));
    }
}

#[tokio::test]
async fn mounted_files_are_followed_and_bad_pairs_skipped() {
    let directory = tempfile::tempdir().unwrap();
    let files = CertificateFiles {
        certificate: directory.path().join("tls.crt"),
        key: directory.path().join("tls.key"),
    };
    assert!(matches!(files.load(), Err(FilesError::Read { .. })));
    let authority = authority(1);
    let bundle = bundle(&[&authority]);
    let certificate = ServingCertificate::new();
    let interval = Duration::from_millis(5);
    let test = async {
        let mut before = None;
        for round in 0..10 {
            let (good, other) = (leaf(&authority, hours(1)), leaf(&authority, hours(2)));
            let (pem, key) = (good.certificate_pem(), good.key_pem());
            mount(directory.path(), &format!("..good{round}"), &pem, &key);
            assert!(files.load().is_ok());
            let after = Some(good.certificate().clone());
            let new_pair = async || {
                let shown = certificate.current().map(|identity| identity.chain()[0].clone());
                if shown == after {
                    return Ok(());
                }
                assert_eq!(shown, before, "only good pairs are served");
                Err("the old pair is served")
            };
            e2e::wait::until_async("the new pair is served", new_pair).await.unwrap();
            assert!(accepts(&certificate, &bundle, SERVICE));
            before = after;
            mount(directory.path(), &format!("..bad{round}"), &other.certificate_pem(), &key);
            assert!(matches!(files.load(), Err(FilesError::Identity { .. })));
            tokio::time::sleep(interval).await;
        }
    };
    tokio::select! {
        never = files.follow(Arc::clone(&certificate), interval) => match never {},
        () = test => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn handshakes_succeed_exactly_for_trusted_signers(
        signer in 0_usize..4,
        trusted in prop::collection::vec(0_usize..4, 1..4),
        lived in 1_i64..400 * 24,
    ) {
        let authorities: Vec<_> = (1..=4)
            .map(|generation| {
                let lifetime = Lifetime::starting(
                    now(),
                    hours(24 * 100 * i64::try_from(generation).unwrap()),
                );
                Authority::create("test", generation, lifetime, Entropy::draw().unwrap()).unwrap()
            })
            .collect();
        let signer = &authorities[signer];
        let trusted: Vec<_> = trusted.iter().map(|position| &authorities[*position]).collect();
        let bundle = bundle(&trusted);
        let certificate = serving(&leaf(signer, hours(24 * 1000)));
        let at = now() + hours(lived);
        prop_assert_eq!(
            handshake(&certificate, &bundle, SERVICE, &[], at).is_ok(),
            bundle.trusts(signer.ca(), at)
        );
    }
}
