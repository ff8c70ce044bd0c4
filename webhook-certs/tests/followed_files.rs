//! Certificate files that are replaced by ones that no client would accept.
#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;
use webhook_certs::authority::{Authority, Entropy, Leaf, Lifetime};
use webhook_certs::certificate_files::{CertificateFiles, FilesError};
use webhook_certs::server_names::ServerNames;
use webhook_certs::serving::client_authority::{ClientAuthority, ClientNames};
use webhook_certs::serving::{Identity, IdentityError, ServingCertificate};

const INTERVAL: Duration = Duration::from_millis(1);

/// A leaf that is valid from and until the given seconds after now.
fn leaf(from: i64, until: i64) -> Leaf {
    let lifetime = lifetime(from, until);
    let names = ServerNames::parse(["webhook.test.svc"]).unwrap();
    authority(from, until).issue(&names, lifetime, Entropy::draw().unwrap()).unwrap()
}

fn authority(from: i64, until: i64) -> Authority {
    Authority::create("test", 1, lifetime(from, until), Entropy::draw().unwrap()).unwrap()
}

fn lifetime(from: i64, until: i64) -> Lifetime {
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    let [not_before, not_after] =
        [from, until].map(|second| now + SignedDuration::from_secs(second));
    Lifetime { not_before, not_after }
}

fn pair(leaf: &Leaf) -> (String, String) {
    (leaf.certificate_pem(), leaf.key_pem().to_string())
}

/// Certificate files followed by a listener.
struct Followed {
    directory: TempDir,
    certificate: Arc<ServingCertificate>,
}

impl Followed {
    fn new(first: &Leaf) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let followed = Self { directory, certificate: ServingCertificate::new() };
        followed.write(&pair(first));
        followed.certificate.set(followed.files().load().unwrap());
        followed
    }

    fn files(&self) -> CertificateFiles {
        let at = |name| self.directory.path().join(name);
        CertificateFiles { certificate: at("tls.crt"), key: at("tls.key") }
    }

    fn write(&self, (certificate, key): &(String, String)) {
        write(self.directory.path(), certificate, key);
    }

    fn shows(&self, leaf: &Leaf) -> bool {
        self.certificate.current().unwrap().chain()[0] == *leaf.certificate()
    }

    async fn while_followed(&self, test: impl Future<Output = ()>) {
        let files = self.files();
        tokio::select! {
            never = files.follow(Arc::clone(&self.certificate), INTERVAL) => match never {},
            () = test => {}
        }
    }

    async fn until_shown(&self, leaf: &Leaf) {
        let shows = async || self.shows(leaf).then_some(()).ok_or("another is served");
        e2e::wait::until_async("the certificate is served", shows).await.unwrap();
    }
}

/// Writes the key first, so that a read in between finds no pair.
fn write(directory: &Path, certificate: &str, key: &str) {
    fs::write(directory.join("tls.key"), key).unwrap();
    fs::write(directory.join("tls.crt"), certificate).unwrap();
}

#[tokio::test]
async fn a_valid_certificate_outlasts_files_no_client_would_accept() {
    let good = leaf(-60, 3600);
    let followed = Followed::new(&good);
    let chained = leaf(-60, 3600);
    let long = chained.certificate_pem() + &good.certificate_pem().repeat(1999);
    let version_1 = include_str!("testdata/version_1.crt").to_owned();
    let test = async {
        for bad in [
            pair(&leaf(-7200, -3600)),
            pair(&leaf(3600, 7200)),
            (long, chained.key_pem().to_string()),
            (version_1, chained.key_pem().to_string()),
            (chained.certificate_pem(), good.key_pem().to_string()),
            ("-----BEGIN CERTIFICATE-----".to_owned(), String::new()),
        ] {
            followed.write(&bad);
            // Long enough for many reads.
            for _ in 0..50 {
                assert!(followed.shows(&good), "{}", bad.0);
                tokio::time::sleep(INTERVAL).await;
            }
        }
        let next = leaf(-60, 7200);
        followed.write(&pair(&next));
        followed.until_shown(&next).await;
    };
    followed.while_followed(test).await;
}

#[tokio::test]
async fn certificate_is_served_once_it_is_valid() {
    let followed = Followed::new(&leaf(-60, 3600));
    let early = leaf(2, 7200);
    followed.write(&pair(&early));
    let test = async {
        followed.until_shown(&early).await;
        assert!(followed.certificate.is_valid_at(Timestamp::now()));
    };
    followed.while_followed(test).await;
}

#[tokio::test]
async fn expired_files_at_the_start_wait_for_valid_ones() {
    let expired = leaf(-7200, -3600);
    let followed = Followed::new(&expired);
    // Clients see an expired certificate, not a missing one.
    assert!(followed.shows(&expired) && !followed.certificate.is_valid_at(Timestamp::now()));
    let next = leaf(-60, 3600);
    followed.write(&pair(&next));
    followed.while_followed(followed.until_shown(&next)).await;
    assert!(followed.certificate.is_valid_at(Timestamp::now()));
}

#[test]
fn files_that_never_serve_a_handshake_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name| directory.path().join(name);
    let files = CertificateFiles { certificate: at("tls.crt"), key: at("tls.key") };
    let leaf = leaf(-60, 3600);
    write(directory.path(), &leaf.certificate_pem().repeat(2000), &leaf.key_pem());
    let Err(FilesError::Identity { source: IdentityError::Handshake { reason }, .. }) =
        files.load()
    else {
        panic!("a chain of 2,000 certificates is no error");
    };
    assert!(!reason.is_empty());
    let version_1 = include_str!("testdata/version_1.crt");
    write(directory.path(), version_1, &leaf.key_pem());
    let error = files.load().unwrap_err().to_string();
    assert!(error.contains("is of version 1 of X.509; want version 3"), "{error}");
    // Junk beside a good leaf would be sent along, so it is an error.
    let junk = "-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n";
    write(directory.path(), &(leaf.certificate_pem() + junk), &leaf.key_pem());
    assert!(matches!(files.load(), Err(FilesError::Identity { .. })));
    // Repeating a self-issued certificate gives a chain of some length.
    write(directory.path(), &leaf.certificate_pem().repeat(20), &leaf.key_pem());
    assert!(files.load().is_ok());
}

#[test]
fn pem_errors_are_readable() {
    let leaf = leaf(-60, 3600);
    let (certificate, key) = pair(&leaf);
    let cut = |text: &str| text.lines().take(2).collect::<Vec<_>>().join("\n");
    for (certificate, key, reason) in [
        (cut(&certificate), key.clone(), "there is no line `-----END CERTIFICATE-----`"),
        (certificate.clone(), cut(&key), "there is no line `-----END PRIVATE KEY-----`"),
        (
            certificate.clone(),
            key.replace('\n', " "),
            "a section has no line `-----END LABEL-----`",
        ),
        (certificate, String::new(), "no such section in it"),
    ] {
        let error = Identity::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(reason) && !error.contains("45, 45"), "{error}");
        let secret = key.lines().nth(1).unwrap_or("no second line");
        assert!(!error.contains(secret), "{error}");
    }
}

#[test]
fn cas_of_clients_that_end_every_handshake_are_errors() {
    let authorities = |count: u64| -> String {
        (1..=count)
            .map(|number| {
                let lifetime = lifetime(-60, 3600);
                let install = "a-name-of-some-length-in-every-certificate";
                let entropy = Entropy::draw().unwrap();
                Authority::create(install, number, lifetime, entropy).unwrap().certificate_pem()
            })
            .collect()
    };
    let names = ClientNames::new(vec!["kube-apiserver".to_owned()]).unwrap();
    let read = |pem: &str| ClientAuthority::from_pem(pem.as_bytes(), names.clone());
    let good = read(&authorities(3)).unwrap();
    assert!(good.is_valid_at(Timestamp::now()));
    let error = read(&authorities(2000)).unwrap_err().to_string();
    assert!(error.contains("a handshake with them fails"), "{error}");
    let expired = read(&authority(-7200, -3600).certificate_pem()).unwrap();
    assert!(!expired.is_valid_at(Timestamp::now()));
    let error = read(include_str!("testdata/version_1.crt")).unwrap_err().to_string();
    assert!(error.contains("version 1 of X.509"), "{error}");
}
