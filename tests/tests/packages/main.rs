//! A release of the programs in `dist/`: installed, unpacked, and read by other tools.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use e2e::programs::{Programs, repository};
use packaging::images::{CERTIFICATES, PROGRAM_IMAGES, PROXY};
use packaging::release::{PlatformBuild, Release};
use packaging::{Origin, Platform, programs};
use serde_json::Value;
use tempfile::TempDir;

/// The release, written once for all tests.
static RELEASE: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    let installed = Programs::find().unwrap();
    let release = Release {
        workspace: repository().to_owned(),
        builds: vec![PlatformBuild {
            platform: Platform::host(),
            programs: repository().join("dist"),
            envoy: Some(installed.envoy().unwrap()),
        }],
        envoy_version: include_str!("../../envoy-version").trim().to_owned(),
        origin: Origin {
            version: VERSION.to_owned(),
            revision: None,
            source: None,
            date: Some("1764000000".parse().unwrap()),
            maintainer: "Outrigger <outrigger@example.com>".to_owned(),
        },
        builder: "urn:outrigger:builder:test".to_owned(),
        invocation: None,
        repository: "docker.io/outrigger".to_owned(),
        certificates: CERTIFICATES.into(),
    };
    release.write(folder.clone()).unwrap();
    folder
});

#[test]
fn checksums_match() {
    run("sha256sum", ["--check", "--strict", "--quiet", "SHA256SUMS"]);
}

#[test]
fn debian_packages_install_and_their_programs_run() {
    let root = TempDir::new().unwrap();
    for folder in ["info", "updates"] {
        fs::create_dir_all(root.path().join("var/lib/dpkg").join(folder)).unwrap();
    }
    for file in ["available", "status"] {
        fs::write(root.path().join("var/lib/dpkg").join(file), "").unwrap();
    }
    let option = format!("--root={}", root.path().display());
    let log = format!("--log={}", root.path().join("dpkg.log").display());
    for name in ["istio-init", "outrigger", "pilot-discovery", "webhook-certs"] {
        run("dpkg", [&option, &log, "--install", &file(name, "deb")]);
    }
    for program in ["istioctl", "outrigger", "kubectl-outrigger"] {
        let version = run(root.path().join("usr/bin").join(program), ["version"]);
        let line = version.lines().next().unwrap();
        assert!(line.starts_with("client version: ") && line.contains(VERSION), "{line}");
    }
    let rules = run(root.path().join("usr/sbin/istio-init"), ["plan"]);
    assert!(rules.contains("15001"), "{rules}");
    let listed = run("dpkg", [&option, "--list"]);
    assert_eq!(listed.lines().filter(|line| line.starts_with("ii ")).count(), 4, "{listed}");
    run("dpkg", [&option, &log, "--purge", "outrigger"]);
    assert!(!root.path().join("usr/bin/istioctl").exists());
}

#[test]
fn archive_unpacks_to_programs_that_run() {
    let folder = TempDir::new().unwrap();
    let target = folder.path().to_str().unwrap();
    let stem = format!("outrigger-{VERSION}-linux-{}", Platform::host().architecture());
    run("tar", ["--extract", "--file", &format!("{stem}.tar.gz"), "--directory", target]);
    let bin = folder.path().join(stem).join("bin");
    assert!(run(bin.join("outrigger"), ["version"]).contains(VERSION));
    for program in ["pilot-agent", "pilot-discovery", "sidecar-injector", "webhook-certs"] {
        run(bin.join(program), ["--help"]);
    }
}

/// A program without the index of its tables for unwinding aborted instead.
#[test]
fn error_is_told_although_a_backtrace_is_wanted() {
    let nowhere = "/nowhere";
    for (program, arguments) in [
        ("install-cni", &["ready", "--cni-agent-run-dir", nowhere][..]),
        ("istio-init", &["plan", "--istio-service-cidr", nowhere]),
        ("istioctl", &["kube-inject", "--filename", nowhere]),
        ("pilot-agent", &["request", "GET", nowhere]),
    ] {
        let mut command = Command::new(repository().join("dist").join(program));
        let output = command.args(arguments).env("RUST_BACKTRACE", "1").output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{program}: {told}");
        assert!(!told.is_empty(), "{program} fails without a word");
    }
}

#[test]
fn programs_have_no_path_of_this_machine() {
    let home = env::var("CARGO_HOME").unwrap_or_else(|_| env::var("HOME").unwrap() + "/.cargo");
    let folder = repository().to_str().unwrap();
    for program in programs::all() {
        let program = repository().join("dist").join(program.name);
        let mut grep = Command::new("grep");
        grep.args(["--count", "--text", "--fixed-strings", "-e", &home, "-e", folder]);
        // 1: no line matches.
        let code = grep.arg(&program).status().unwrap().code();
        assert_eq!(code, Some(1), "{} names {home} or {folder}", program.display());
    }
}

#[test]
fn skopeo_reads_every_image() {
    let titles = PROGRAM_IMAGES.iter().map(|image| image.name).chain([PROXY]);
    for title in titles {
        let image = format!("oci-archive:{title}-{VERSION}.oci.tar:{VERSION}");
        let answer: Value = serde_json::from_str(&run("skopeo", ["inspect", &image])).unwrap();
        assert_eq!(answer["Architecture"], Platform::host().architecture());
        assert_eq!(answer["Created"], "2025-11-24T16:00:00Z");
        assert_eq!(answer["Labels"]["org.opencontainers.image.title"], title);
    }
}

#[test]
fn skopeo_copies_the_layers_of_the_proxy() {
    let folder = TempDir::new().unwrap();
    let image = format!("oci-archive:{PROXY}-{VERSION}.oci.tar:{VERSION}");
    let target = format!("dir:{}", folder.path().display());
    run("skopeo", ["copy", "--insecure-policy", "--quiet", &image, &target]);
    let manifest = fs::read(folder.path().join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let layer = manifest["layers"][0]["digest"].as_str().unwrap().trim_start_matches("sha256:");
    let layer = folder.path().join(layer);
    let listing = run("tar", ["--list", "--gzip", "--file", layer.to_str().unwrap()]);
    for path in ["etc/ssl/certs/ca-certificates.crt", "usr/local/bin/envoy"] {
        assert!(listing.lines().any(|line| line == path), "{listing}");
    }
}

/// Name of a Debian package's file.
fn file(package: &str, extension: &str) -> String {
    format!("{package}_{VERSION}_{}.{extension}", Platform::host().architecture())
}

/// Runs a program in the folder of the release, and returns its standard output.
fn run<A: AsRef<OsStr>>(program: impl Into<PathBuf>, args: impl IntoIterator<Item = A>) -> String {
    let program: PathBuf = program.into();
    let mut command = Command::new(&program);
    let output = command.args(args).current_dir(&*RELEASE).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {message}", program.display());
    String::from_utf8(output.stdout).unwrap()
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
