//! Certificates of workloads: signed for requests of any supported key by CAs of any supported
//! form, which OpenSSL makes.
#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use mesh::spiffe::SpiffeId;
use tempfile::TempDir;
use webhook_certs::authority::{Authority, Entropy, Lifetime};
use webhook_certs::bundle::{Bundle, TrustedCa};
use webhook_certs::workload::authority::{
    CaFiles, MAX_VALIDITY, ValidityLimit, WorkloadAuthority, WorkloadAuthorityError,
};
use webhook_certs::workload::handover::Handover;
use webhook_certs::workload::signing_request::{SigningRequest, SigningRequestError};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Runs `openssl` in a directory; the arguments are separated by spaces.
fn openssl(directory: &Path, arguments: &str) -> String {
    let output =
        Command::new("openssl").args(arguments.split(' ')).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn identity() -> SpiffeId {
    SpiffeId::parse("spiffe://cluster.local/ns/shop/sa/web").unwrap()
}

/// Options of `openssl` for a key.
const RSA: &str = "-newkey rsa:2048";
const P256: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256";
const P384: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-384";

/// A root and a signing CA below it, as Istio's Secret `cacerts`.
fn cacerts(key: &str) -> (TempDir, CaFiles) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    openssl(
        path,
        &format!(
            "req -x509 {key} -nodes -keyout root-key.pem -out root-cert.pem -days 30 -subj /CN=root \
             -addext keyUsage=critical,keyCertSign,cRLSign"
        ),
    );
    openssl(
        path,
        &format!("req -new {key} -nodes -keyout ca-key.pem -out ca.csr -subj /CN=signer"),
    );
    fs::write(
        path.join("ca.ext"),
        "basicConstraints=critical,CA:true,pathlen:0\nkeyUsage=critical,keyCertSign,cRLSign\n",
    )
    .unwrap();
    openssl(
        path,
        "x509 -req -in ca.csr -CA root-cert.pem -CAkey root-key.pem -CAcreateserial \
         -out ca-cert.pem -days 20 -extfile ca.ext",
    );
    let files = files(path);
    (directory, files)
}

fn files(path: &Path) -> CaFiles {
    let read = |name| fs::read(path.join(name)).unwrap();
    let mut chain = read("ca-cert.pem");
    chain.extend(read("root-cert.pem"));
    CaFiles {
        certificate: read("ca-cert.pem"),
        key: read("ca-key.pem").into(),
        chain,
        roots: read("root-cert.pem"),
    }
}

fn request(directory: &Path, key: &str) -> String {
    openssl(directory, &format!("req -new {key} -nodes -keyout leaf-key.pem -subj /O=x"))
}

#[test]
fn each_ca_signs_for_each_key() {
    for ca_key in [RSA, P256, P384] {
        let (directory, files) = cacerts(ca_key);
        let path = directory.path();
        let now = Timestamp::now();
        let authority = WorkloadAuthority::from_files(&files, now).unwrap();
        for leaf_key in [RSA, P256, P384] {
            let request = SigningRequest::parse(&request(path, leaf_key)).unwrap();
            let leaf = authority.issue(&request, &identity(), DAY, now).unwrap();
            let chain = authority.chain_pem(&leaf);
            assert_eq!(chain.len(), 3, "leaf, signing CA, root");
            fs::write(path.join("leaf.pem"), &chain[0]).unwrap();
            fs::write(path.join("presented.pem"), &chain[1]).unwrap();
            fs::write(path.join("roots.pem"), &chain[2]).unwrap();
            for purpose in ["sslserver", "sslclient"] {
                openssl(
                    path,
                    &format!(
                        "verify -x509_strict -purpose {purpose} -CAfile roots.pem \
                         -untrusted presented.pem leaf.pem"
                    ),
                );
            }
            let public_key = |command: &str| openssl(path, command);
            assert_eq!(
                public_key("x509 -in leaf.pem -noout -pubkey"),
                public_key("pkey -in leaf-key.pem -pubout"),
                "{ca_key} signs {leaf_key}"
            );
        }
    }
}

#[test]
fn keys_in_older_forms_are_accepted() {
    let (directory, _) = cacerts(RSA);
    let path = directory.path();
    let traditional = openssl(path, "rsa -in ca-key.pem -traditional");
    assert!(traditional.contains("BEGIN RSA PRIVATE KEY"));
    fs::write(path.join("ca-key.pem"), traditional).unwrap();
    WorkloadAuthority::from_files(&files(path), Timestamp::now()).unwrap();
    let (directory, _) = cacerts(P256);
    let path = directory.path();
    let sec1 = openssl(path, "ec -in ca-key.pem");
    assert!(sec1.contains("BEGIN EC PRIVATE KEY"));
    fs::write(path.join("ca-key.pem"), sec1).unwrap();
    WorkloadAuthority::from_files(&files(path), Timestamp::now()).unwrap();
}

#[test]
fn names_and_usages_come_from_the_identity() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let wishes = "-addext basicConstraints=critical,CA:TRUE -addext keyUsage=keyCertSign \
                  -addext subjectAltName=URI:spiffe://cluster.local/ns/bank/sa/vault,DNS:bank \
                  -addext extendedKeyUsage=codeSigning";
    let request = request(path, &format!("{P256} {wishes}"));
    let request = SigningRequest::parse(&request).unwrap();
    let now = Timestamp::now();
    let own = own_authority(now);
    let leaf = own.issue(&request, &identity(), DAY, now).unwrap();
    let (_, leaf) = X509Certificate::from_der(leaf.der()).unwrap();
    assert!(!leaf.is_ca());
    assert_eq!(leaf.subject().iter().count(), 0);
    let names = leaf.subject_alternative_name().unwrap().unwrap();
    assert!(names.critical, "a subject without names needs critical alternative names");
    let uri = "spiffe://cluster.local/ns/shop/sa/web";
    assert_eq!(names.value.general_names, [GeneralName::URI(uri)]);
    let usage = leaf.key_usage().unwrap().unwrap().value;
    assert!(usage.digital_signature() && !usage.key_cert_sign() && !usage.key_encipherment());
    let extended = leaf.extended_key_usage().unwrap().unwrap().value;
    assert!(extended.server_auth && extended.client_auth && !extended.code_signing);
    let constraints = leaf.extensions().iter().filter(|extension| {
        matches!(extension.parsed_extension(), ParsedExtension::BasicConstraints(_))
    });
    assert_eq!(constraints.count(), 1);
}

fn own_authority(now: Timestamp) -> WorkloadAuthority {
    let lifetime = Lifetime::starting(now, DAY * 365);
    let authority = Authority::create("mesh", 1, lifetime, Entropy::draw().unwrap()).unwrap();
    let roots = Bundle::new(authority.ca().clone(), []);
    WorkloadAuthority::from_authority(&authority, roots, ValidityLimit::default()).unwrap()
}

#[test]
fn root_that_signs_is_not_presented() {
    let now = Timestamp::now();
    let own = own_authority(now);
    let directory = tempfile::tempdir().unwrap();
    let request = SigningRequest::parse(&request(directory.path(), P256)).unwrap();
    let leaf = own.issue(&request, &identity(), DAY, now).unwrap();
    assert_eq!(own.chain_pem(&leaf).len(), 2, "leaf, roots");
}

#[test]
fn validity_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let request = SigningRequest::parse(&request(directory.path(), P256)).unwrap();
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    let own = own_authority(now);
    let end = |validity| own.issue(&request, &identity(), validity, now).unwrap().lifetime();
    assert_eq!(end(HOUR).not_after, now + HOUR);
    assert_eq!(end(HOUR).not_before, now - SignedDuration::from_mins(2));
    assert_eq!(end(SignedDuration::MAX).not_after, now + MAX_VALIDITY);
    let late = now + DAY * 364;
    let leaf = own.issue(&request, &identity(), DAY * 30, late).unwrap();
    assert_eq!(leaf.lifetime().not_after, own.certificate().not_after());
    let error = own.issue(&request, &identity(), DAY, now + DAY * 366).unwrap_err();
    assert!(matches!(error, WorkloadAuthorityError::Expired { .. }), "{error}");
}

#[test]
fn untrusted_or_mixed_files_are_rejected() {
    let now = Timestamp::now();
    let (_one, one) = cacerts(P256);
    let (_other, other) = cacerts(P256);
    let with = |change: &dyn Fn(&mut CaFiles)| {
        let mut files = one.clone();
        change(&mut files);
        WorkloadAuthority::from_files(&files, now).unwrap_err().to_string()
    };
    let error = with(&|files| files.roots.clone_from(&other.roots));
    assert!(error.contains("would not trust"), "{error}");
    let error = with(&|files| files.key = other.key.clone());
    assert!(error.contains("does not belong"), "{error}");
    let error = with(&|files| files.key = b"nothing".to_vec().into());
    assert!(error.contains("CA key"), "{error}");
    let error = with(&|files| files.roots.clear());
    assert!(error.contains("root-cert.pem"), "{error}");
    let late = now + DAY * 25;
    assert!(WorkloadAuthority::from_files(&one, late).is_err(), "the signing CA has expired");
}

#[test]
fn invalid_requests_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let error = |pem: &str| SigningRequest::parse(pem).unwrap_err();
    assert!(matches!(error(""), SigningRequestError::Pem { .. }));
    assert!(matches!(error(&"x".repeat(1 << 20)), SigningRequestError::Size { .. }));
    for key in ["-newkey rsa:1024", "-newkey ed25519", "-newkey rsa:8192"] {
        let pem = request(path, key);
        let error = error(&pem).to_string();
        assert!(error.contains("is not supported: expected ECDSA P-256"), "{key}: {error}");
    }
    let pem = request(path, P256);
    let mut lines: Vec<_> = pem.lines().map(str::to_owned).collect();
    let signature = lines.len() - 2;
    let swapped = if lines[signature].starts_with('A') { "B" } else { "A" };
    lines[signature].replace_range(..1, swapped);
    let forged = lines.join("\n");
    assert!(SigningRequest::parse(&forged).is_err());
    let policies = request(path, &format!("{P256} -addext tlsfeature=status_request"));
    assert!(matches!(error(&policies), SigningRequestError::Invalid { .. }));
}

#[test]
fn curve_of_the_key_is_kept_whatever_signed_the_request() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let now = Timestamp::now();
    let request = SigningRequest::parse(&request(path, &format!("{P256} -sha384")));
    if let Ok(request) = request {
        let leaf = own_authority(now).issue(&request, &identity(), DAY, now).unwrap();
        let (_, leaf) = X509Certificate::from_der(leaf.der()).unwrap();
        let point = leaf.public_key().parsed().unwrap();
        assert_eq!(point.key_size(), 256);
    }
}

/// A self-signed CA that is valid for two days.
fn ca(name: &str) -> WorkloadAuthority {
    let lifetime = Lifetime::starting(Timestamp::now(), DAY * 2);
    let authority = Authority::create(name, 1, lifetime, Entropy::draw().unwrap()).unwrap();
    let roots = Bundle::new(authority.ca().clone(), []);
    WorkloadAuthority::from_authority(&authority, roots, ValidityLimit::default()).unwrap()
}

/// The CA that signs after some minutes, and the published roots.
fn step(
    handover: &mut Handover,
    minutes: i64,
    published: Option<&[Bundle]>,
) -> (String, Vec<String>) {
    let now = Timestamp::now() + SignedDuration::from_mins(minutes);
    let authority = handover.authority(now, SignedDuration::from_mins(5), published);
    let name = |ca: &TrustedCa| ca.installation().unwrap().trim_end_matches("-ca").to_owned();
    (name(authority.certificate()), authority.roots().certificates().iter().map(name).collect())
}

fn expect(signs: &str, roots: &[&str]) -> (String, Vec<String>) {
    (signs.to_owned(), roots.iter().map(|&name| name.to_owned()).collect())
}

#[test]
fn replaced_ca_hands_over_in_steps_of_the_propagation_delay() {
    let (old, new, now) = (Arc::new(ca("old")), Arc::new(ca("new")), Timestamp::now());
    let alone = [old.roots().clone()];
    let before = [old.roots().joined(new.roots().certificates())];
    let after = [new.roots().joined(old.roots().certificates())];
    let done = [new.roots().clone()];
    let mut handover = Handover::from_former(&old, Arc::clone(&new), now);
    for (minutes, published, expected) in [
        (0, Some(&alone[..]), expect("old", &["old", "new"])),
        // The delay begins when all namespaces have both roots.
        (9, Some(&alone[..]), expect("old", &["old", "new"])),
        (10, None, expect("old", &["old", "new"])),
        (14, Some(&before[..]), expect("old", &["old", "new"])),
        (16, Some(&before[..]), expect("new", &["new", "old"])),
        (30, Some(&before[..]), expect("new", &["new", "old"])),
        (34, Some(&after[..]), expect("new", &["new", "old"])),
        (36, Some(&after[..]), expect("new", &["new"])),
        (37, Some(&done[..]), expect("new", &["new"])),
    ] {
        assert_eq!(step(&mut handover, minutes, published), expected, "after {minutes} minutes");
    }
    // Another replica was faster.
    let mut handover = Handover::from_former(&old, Arc::clone(&new), now);
    assert_eq!(step(&mut handover, 1, Some(&alone)), expect("old", &["old", "new"]));
    let some = [after[0].clone(), before[0].clone()];
    assert_eq!(step(&mut handover, 1, Some(&some)), expect("old", &["old", "new"]));
    assert_eq!(step(&mut handover, 1, Some(&after)), expect("new", &["new", "old"]));
    assert_eq!(step(&mut handover, 2, Some(&done)), expect("new", &["new"]));
    // It was replaced while no replica ran.
    let mut handover = Handover::first(Arc::clone(&new), now);
    handover.retain(old.roots(), now);
    assert_eq!(step(&mut handover, 0, Some(&alone)), expect("new", &["new", "old"]));
    assert_eq!(step(&mut handover, 6, Some(&after)), expect("new", &["new"]));
    // The operator had published the new root before.
    let known = Arc::new(old.with_roots(before[0].clone()));
    let mut handover = Handover::from_former(&known, Arc::clone(&new), now);
    assert_eq!(step(&mut handover, 0, Some(&before)), expect("new", &["new", "old"]));
    // A CA that has expired signs no longer.
    let mut handover = Handover::from_former(&old, new, now);
    assert_eq!(step(&mut handover, 3 * 24 * 60, Some(&alone)).0, "new");
}

/// Otherwise replicas that have seen different histories would rewrite each other's order for ever.
#[test]
fn order_of_roots_follows_from_the_files_alone() {
    let (own, other, now) = (ca("own"), ca("other"), Timestamp::now());
    let both = own.roots().joined(other.roots().certificates());
    let reversed = other.roots().joined(own.roots().certificates());
    let files = Arc::new(own.with_roots(reversed.clone()));
    let mut restarted = Handover::first(Arc::clone(&files), now);
    restarted.retain(&reversed, now);
    let mut changed = Handover::from_former(&Arc::new(own), Arc::clone(&files), now);
    for handover in [&mut restarted, &mut changed] {
        let found = step(handover, 0, Some(std::slice::from_ref(&both)));
        assert_eq!(found, expect("own", &["own", "other"]));
    }
}
