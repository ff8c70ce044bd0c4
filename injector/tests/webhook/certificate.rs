//! Certificates in files, as another program maintains them.

use std::fs;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use webhook_certs::authority::{Authority, Entropy, Lifetime};
use webhook_certs::server_names::ServerNames;

/// Writes a new certificate of a new CA, and the CA beside it.
pub(crate) fn issue(directory: &Path) -> Vec<u8> {
    let lifetime = Lifetime::starting(Timestamp::now(), SignedDuration::from_hours(1));
    let authority = Authority::create("test", 1, lifetime, Entropy::draw().unwrap()).unwrap();
    let names = ServerNames::parse(["127.0.0.1"]).unwrap();
    let leaf = authority.issue(&names, lifetime, Entropy::draw().unwrap()).unwrap();
    let ca = authority.certificate_pem().into_bytes();
    fs::write(directory.join("tls.key"), leaf.key_pem().as_bytes()).unwrap();
    fs::write(directory.join("tls.crt"), leaf.certificate_pem()).unwrap();
    fs::write(directory.join("ca.pem"), &ca).unwrap();
    ca
}
