//! The commands that need no cluster, as a user runs them.
#![expect(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use webhook_certs::authority::Authority;
use webhook_certs::certificate_files::CertificateFiles;

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
fn names_that_no_object_can_have_are_refused_before_a_cluster_is_asked() {
    for (flag, name) in [
        ("--namespace", "A_B"),
        ("--install", "X/y"),
        ("--service", "a.b"),
        ("--cluster-domain", "a/b"),
        ("--extra-san", "a b"),
        ("--revision", "X/y"),
        ("--secret-name", "../x"),
        ("--webhook-configuration", "a..b"),
    ] {
        for command in ["serve", "status"] {
            let output = webhook_certs(&[command, flag, name]);
            let said = said(&output);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains(flag) && said.contains(name) && said.contains("want"), "{said}");
            assert!(output.stdout.is_empty());
        }
    }
}

#[test]
fn a_kubeconfig_that_leads_nowhere_is_named_and_each_cause_said_once() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    let kubeconfig = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}]}"#;
    fs::write(&file, kubeconfig).unwrap();
    let missing = directory.path().join("missing");
    let server = "error: server https://127.0.0.1:1/: ";
    for (file, cause, start) in [
        (&file, "Connection refused", server),
        (&missing, "No such file or directory", "error: --kubeconfig "),
    ] {
        let output = webhook_certs(&["status", "--kubeconfig", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1));
        let said = said(&output);
        assert_eq!(said.matches(cause).count(), 1, "{said}");
        assert!(said.starts_with(start), "{said}");
        assert!(output.stdout.is_empty());
    }
    let mut program = Command::new(env!("CARGO_BIN_EXE_webhook-certs"));
    program.arg("status").env("KUBECONFIG", &missing).env("HOME", directory.path());
    let said = said(&program.env_remove("KUBERNETES_SERVICE_HOST").output().unwrap());
    assert_eq!(said.matches("No such file or directory").count(), 1, "{said}");
    assert!(said.contains("hint: name one with --kubeconfig"), "{said}");
}

#[test]
fn a_context_that_is_not_there_is_blamed_on_its_flag() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    let kubeconfig = r#"{"current-context": "lost",
        "contexts": [{"name": "lost", "context": {"cluster": "nowhere", "user": "u"}},
                     {"name": "whose", "context": {"cluster": "c", "user": "nobody"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}]}"#;
    fs::write(&file, kubeconfig).unwrap();
    let by_flag = format!("--kubeconfig `{}`", file.display());
    for (context, wrong) in [
        (
            Some("nope"),
            "--context `nope`: no such context in ORIGIN\nhint: its contexts are: `lost`",
        ),
        (Some("whose"), "ORIGIN: the context `whose` names the user `nobody`, which is not there"),
        (None, "ORIGIN: the context `lost` names the cluster `nowhere`, which is not there"),
    ] {
        let flags = context.map(|context| ["--context", context]);
        let flags = flags.as_ref().map_or(&[][..], |flags| &flags[..]);
        let args = [&["status", "--kubeconfig", file.to_str().unwrap()], flags].concat();
        let output = webhook_certs(&args);
        let said_by_flag = said(&output);
        let expected = format!("error: {}", wrong.replace("ORIGIN", &by_flag));
        assert_eq!(output.status.code(), Some(1));
        assert!(said_by_flag.starts_with(&expected), "{said_by_flag}");
        if context.is_none() {
            continue;
        }
        let mut program = Command::new(env!("CARGO_BIN_EXE_webhook-certs"));
        program.arg("status").args(flags).env("KUBECONFIG", &file);
        let said = said(&program.output().unwrap());
        let origin = "the kubeconfig of KUBECONFIG or ~/.kube/config";
        assert!(said.starts_with(&format!("error: {}", wrong.replace("ORIGIN", origin))), "{said}");
    }
}

#[test]
fn issue_signs_again_by_the_ca_that_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().to_str().unwrap();
    let issue = |more: &[&str]| {
        let args = [&["issue", "--dns", "a.b.svc", "--out", out], more].concat();
        let output = webhook_certs(&args);
        let read = |file: &str| fs::read(directory.path().join(file)).unwrap_or_default();
        (output.status.code(), said(&output), read("ca.crt"), read("tls.crt"))
    };
    let (_, _, ca, leaf) = issue(&[]);
    // A mode that somebody gave to the old file is not the new one's.
    let key = directory.path().join("tls.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let (code, _, same_ca, next_leaf) = issue(&[]);
    assert_eq!((code, &same_ca), (Some(0), &ca));
    assert_ne!(next_leaf, leaf);
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    // Besides, `..data` and what it leads to.
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 6);

    let (_, _, new_ca, _) = issue(&["--new-ca"]);
    assert_ne!(new_ca, ca);
    fs::remove_file(directory.path().join("ca.key")).unwrap();
    let (code, said, _, _) = issue(&[]);
    assert_eq!(code, Some(1));
    assert!(said.starts_with(&format!("error: --out `{out}`: the CA key is not ")), "{said}");
    assert!(said.ends_with("\nhint: --new-ca makes another one in its place\n"), "{said}");
}

#[test]
fn a_signer_is_asked_for_by_name_and_only_in_its_mode() {
    for (line, message) in [
        ("serve --cert-mode csr", "--signer-name <NAME>"),
        ("serve --signer-name example.com/serving", "--cert-mode"),
        ("serve --cert-mode own --signer-name example.com/serving", "error: --signer-name: only"),
        ("serve --cert-mode csr --signer-name serving", "want a domain and a path"),
        ("serve --cert-mode csr --signer-name example/serving", "want a domain and a path"),
        ("serve --cert-mode csr --signer-name example.com/a/b", "want a domain and a path"),
        ("serve --trust-probe-interval 5m", "--trust-probe"),
        ("status --cert-mode csr --signer-name example.com/serving", "there is no CA of ours"),
        ("rotate --cert-mode csr --signer-name example.com/serving", "there is no CA of ours"),
    ] {
        let output = webhook_certs(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(said(&output).contains(message), "{line}: {}", said(&output));
    }
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

    for number in ["--revoke=", "--revoke=x", "--revoke=3,4"] {
        let output = webhook_certs(&["rotate", number]);
        assert_eq!(output.status.code(), Some(2), "{number}");
        let said = said(&output);
        assert!(said.contains("'--revoke[=<NUMBER>]'") && said.contains("hint: "), "{said}");
    }

    let output = webhook_certs(&["status", "--kubeconfig", "/nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).starts_with("error: --kubeconfig `/nowhere`: "));
}
