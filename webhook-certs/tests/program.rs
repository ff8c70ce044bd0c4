//! The commands that need no cluster, as a user runs them.
#![expect(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use webhook_certs::authority::Authority;
use webhook_certs::files::CertificateFiles;

fn webhook_certs(args: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_webhook-certs"));
    program.args(args).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn issue_writes_a_ca_and_a_leaf_that_can_be_served() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("new/certificates");
    let path = out.to_str().unwrap();
    let output = webhook_certs(&["issue", "--dns", "a.b.svc", "--dns", "192.0.2.7", "--out", path]);
    assert!(output.status.success(), "{}", said(&output));

    let files = ["ca.crt", "ca.key", "tls.crt", "tls.key"].map(|file| out.join(file));
    let listed = files.clone().map(|file| format!("{}\n", file.display())).concat();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), listed);
    let mode = |file| fs::metadata(file).unwrap().permissions().mode() & 0o777;
    assert_eq!(files.clone().map(mode), [0o644, 0o600, 0o644, 0o600]);

    let [ca, ca_key, certificate, key] = files;
    assert!(CertificateFiles { certificate, key }.load().is_ok());
    assert!(Authority::from_pem(&fs::read(ca).unwrap(), &fs::read(ca_key).unwrap()).is_ok());
}

#[test]
fn errors_name_the_flag_and_the_value() {
    let output = webhook_certs(&["issue", "--dns", "a b", "--out", "/nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(said(&output), "error: --dns: `a b` is neither a DNS name nor an IP address\n");

    let output = webhook_certs(&["issue", "--dns", "a", "--out", "/dev/null/x"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).starts_with("error: --out: cannot create `/dev/null/x`: "));

    let output = webhook_certs(&["issue", "--dns", "a", "--out", "x", "--lifetime", "0s"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("'0s' for '--lifetime <DURATION>'"));

    let output = webhook_certs(&["status", "--kubeconfig", "/nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).starts_with("error: --kubeconfig `/nowhere`: "));
}
