//! Commands that need no cluster.
#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

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
fn invalid_object_names_are_usage_errors() {
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
fn kubeconfig_errors_name_the_file_and_each_cause_once() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    let kubeconfig = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}]}"#;
    fs::write(&file, kubeconfig).unwrap();
    let missing = directory.path().join("missing");
    for (file, cause, at) in [
        (&file, "Connection refused", ", server https://127.0.0.1:1/: "),
        (&missing, "No such file or directory", ": "),
    ] {
        let output = webhook_certs(&["status", "--kubeconfig", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1));
        let said = said(&output);
        assert_eq!(said.matches(cause).count(), 1, "{said}");
        let start = format!("error: --kubeconfig `{}`{at}", file.display());
        assert!(said.starts_with(&start), "{said}");
        assert!(output.stdout.is_empty());
    }
    let mut program = Command::new(env!("CARGO_BIN_EXE_webhook-certs"));
    program.arg("status").env("KUBECONFIG", &missing).env("HOME", directory.path());
    let said = said(&program.env_remove("KUBERNETES_SERVICE_HOST").output().unwrap());
    assert_eq!(said.matches("No such file or directory").count(), 1, "{said}");
    assert!(said.contains(&missing.display().to_string()), "{said}");
    assert!(said.contains("hint: name a kubeconfig with --kubeconfig"), "{said}");
}

#[test]
fn missing_context_is_reported_with_its_flag() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    let kubeconfig = r#"{"current-context": "no-cluster",
        "contexts": [{"name": "no-cluster", "context": {"cluster": "nowhere", "user": "u"}},
                     {"name": "no-user", "context": {"cluster": "c", "user": "missing"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}]}"#;
    fs::write(&file, kubeconfig).unwrap();
    let by_flag = format!("--kubeconfig `{}`", file.display());
    for (context, wrong) in [
        (
            Some("nope"),
            "--context `nope`: no such context in ORIGIN\n  hint: use one of its contexts: `no-cluster`",
        ),
        (
            Some("no-user"),
            "ORIGIN: the context `no-user` names the user `missing`, which is missing",
        ),
        (None, "ORIGIN: the context `no-cluster` names the cluster `nowhere`, which is missing"),
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
        let origin = format!("KUBECONFIG {}", file.display());
        assert!(
            said.starts_with(&format!("error: {}", wrong.replace("ORIGIN", &origin))),
            "{said}"
        );
    }
}

#[test]
fn issue_signs_again_with_the_existing_ca() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().to_str().unwrap();
    let issue = |more: &[&str]| {
        let args = [&["issue", "--dns", "a.b.svc", "--out", out], more].concat();
        let output = webhook_certs(&args);
        let read = |file: &str| fs::read(directory.path().join(file)).unwrap_or_default();
        (output.status.code(), said(&output), read("ca.crt"), read("tls.crt"))
    };
    let (_, _, ca, leaf) = issue(&[]);
    // The old file's mode must not become the new one's.
    let key = directory.path().join("tls.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let (code, _, same_ca, next_leaf) = issue(&[]);
    assert_eq!((code, &same_ca), (Some(0), &ca));
    assert_ne!(next_leaf, leaf);
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    // Four files, `..data` and its target.
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 6);

    let (_, _, new_ca, _) = issue(&["--new-ca"]);
    assert_ne!(new_ca, ca);
    fs::remove_file(directory.path().join("ca.key")).unwrap();
    let (code, said, _, _) = issue(&[]);
    assert_eq!(code, Some(1));
    assert!(said.starts_with(&format!("error: --out `{out}`: the CA key is not ")), "{said}");
    assert!(said.ends_with("\n  hint: --new-ca replaces it\n"), "{said}");
}

#[test]
fn signer_needs_a_name_and_its_mode() {
    for (line, message) in [
        ("serve --cert-mode csr", "--signer-name <NAME>"),
        ("serve --signer-name example.com/serving", "--cert-mode"),
        ("serve --cert-mode own --signer-name example.com/serving", "error: --signer-name: only"),
        ("serve --cert-mode csr --signer-name serving", "want a domain and a path"),
        ("serve --cert-mode csr --signer-name example/serving", "want a domain and a path"),
        ("serve --cert-mode csr --signer-name example.com/a/b", "want a domain and a path"),
        ("serve --trust-probe-interval 5m", "--trust-probe"),
        ("status --cert-mode csr --signer-name example.com/serving", "there is no CA in a Secret"),
        ("rotate --cert-mode csr --signer-name example.com/serving", "there is no CA in a Secret"),
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
