//! A whole release from small programs of both platforms.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

mod fixture;
mod layout;

use std::fs;
use std::path::Path;
use std::process::Command;

use fixture::{Fixture, PLATFORMS, RELEASE, release, repository};
use layout::Layout;
use packaging::Platform;

#[test]
fn releases_in_two_folders_have_the_same_bytes() {
    let second = Fixture::write("second", &PLATFORMS);
    assert_ne!(RELEASE.output, second.output);
    assert_eq!(RELEASE.files(), second.files());
    for name in RELEASE.files() {
        let [one, other] = [&*RELEASE, &second].map(|fixture| fixture.read(&name));
        assert!(one == other, "{name} differs");
    }
}

#[test]
fn release_has_every_file_once_in_its_checksums() {
    let fixture = &*RELEASE;
    // The charts are two archives more where the tree has them.
    let files = fixture.files().into_iter().filter(|name| !name.ends_with("-0.1.0.tgz"));
    insta::assert_snapshot!(files.collect::<Vec<_>>().join("\n"));
    let sums = String::from_utf8(fixture.read("SHA256SUMS")).unwrap();
    let mut summed: Vec<_> = sums.lines().map(|line| line[66..].to_owned()).collect();
    summed.push("SHA256SUMS".to_owned());
    summed.sort();
    assert_eq!(summed, fixture.files());
    let check = command("sha256sum", &["--check", "--strict", "--quiet", "SHA256SUMS"], fixture);
    assert_eq!(check, "");
}

#[test]
fn images_have_both_platforms_with_bill_and_provenance() {
    let fixture = &*RELEASE;
    for name in ["istio-init-0.1.0.oci.tar", "proxyv2-0.1.0.oci.tar"] {
        let layout = Layout::read(&fixture.output.join(name));
        layout.check_digests();
        insta::assert_snapshot!(name, layout.outline());
    }
}

#[test]
fn image_of_one_platform_loads_without_containerd_store() {
    let fixture = Fixture::write("amd64", &[Platform::Amd64]);
    let layout = Layout::read(&fixture.output.join("webhook-certs-0.1.0.oci.tar"));
    let manifest = layout.json("manifest.json");
    assert_eq!(manifest[0]["RepoTags"][0], "localhost/outrigger/webhook-certs:0.1.0");
    for path in [&manifest[0]["Config"], &manifest[0]["Layers"][0]] {
        assert!(layout.files.contains_key(path.as_str().unwrap()), "{path}");
    }
    // It would be loaded for every platform.
    let layout = Layout::read(&RELEASE.output.join("webhook-certs-0.1.0.oci.tar"));
    assert!(!layout.files.contains_key("manifest.json"));
}

#[test]
fn debian_packages_have_fields_and_files() {
    let fixture = &*RELEASE;
    let mut text = String::new();
    for name in fixture.files().iter().filter(|name| name.ends_with("_arm64.deb")) {
        text.extend(["== ", name, "\n"]);
        let fields = ["Package", "Version", "Architecture", "Maintainer", "Section", "Priority"];
        let fields = fields.into_iter().chain(["Homepage", "Description"]);
        let args: Vec<_> = ["--field", name].into_iter().chain(fields).collect();
        text += &command("dpkg-deb", &args, fixture);
        text += &without_manuals(&command("dpkg-deb", &["--contents", name], fixture));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn archive_has_programs_and_documents() {
    let fixture = &*RELEASE;
    let args = ["--list", "--file", "outrigger-0.1.0-linux-arm64.tar.gz"];
    let listing = command("tar", &args, fixture);
    insta::assert_snapshot!(without_manuals(&listing));
    let manuals = listing.lines().filter(|line| line.ends_with(".1")).count();
    let folder = repository().join("docs/man");
    assert_eq!(manuals, if folder.exists() { names_in(&folder).len() } else { 0 });
}

#[test]
fn bill_of_the_proxy_names_envoy_and_no_client_of_kubernetes() {
    let fixture = &*RELEASE;
    let layout = Layout::read(&fixture.output.join("proxyv2-0.1.0.oci.tar"));
    let bill = layout.artifact("application/vnd.cyclonedx+json");
    let components = bill["components"].as_array().unwrap().iter();
    let names: Vec<_> = components.map(|one| one["name"].as_str().unwrap()).collect();
    for name in ["envoy", "istio-init", "pilot-agent", "rustls", "rust-std"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    for name in ["kube", "insta", "serde_derive", "cc"] {
        assert!(!names.contains(&name), "{name} is in {names:?}");
    }
}

#[test]
fn crates_in_bills_have_licence_and_checksum() {
    let fixture = &*RELEASE;
    let bill = fixture.read("sidecar-injector-0.1.0-linux-amd64.cdx.json");
    let bill: serde_json::Value = serde_json::from_slice(&bill).unwrap();
    let components = bill["components"].as_array().unwrap();
    assert!(components.len() > 100);
    for component in components {
        if component["purl"].as_str().is_some_and(|purl| purl.starts_with("pkg:cargo/")) {
            assert!(component["licenses"][0]["expression"].is_string(), "{component}");
            assert_eq!(component["hashes"][0]["content"].as_str().unwrap().len(), 64);
        }
    }
    let references = components.iter().chain([&bill["metadata"]["component"]]);
    let references: Vec<_> = references.map(|one| &one["bom-ref"]).collect();
    for dependency in bill["dependencies"].as_array().unwrap() {
        let used = dependency["dependsOn"].as_array().into_iter().flatten();
        for reference in used.chain([&dependency["ref"]]) {
            assert!(references.contains(&reference), "{reference}");
        }
    }
}

#[test]
fn provenance_names_every_file_and_the_commit() {
    let fixture = &*RELEASE;
    let text = fixture.read("outrigger-0.1.0.provenance.json");
    let statement: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let subjects = statement["subject"].as_array().unwrap();
    // All but itself and the checksums.
    assert_eq!(subjects.len(), fixture.files().len() - 2);
    let materials = &statement["predicate"]["buildDefinition"]["resolvedDependencies"];
    assert_eq!(materials[0]["digest"]["gitCommit"], fixture::REVISION);
    assert_eq!(materials[1]["name"], "Cargo.lock");
}

#[test]
fn program_of_another_platform_is_rejected() {
    let fixture = Fixture::programs("swapped", &PLATFORMS);
    let arm64 = fixture.folder.join("arm64");
    let mut release = release(&fixture.folder, &PLATFORMS);
    release.builds[0].programs = arm64;
    let error = release.write(fixture.output.clone()).unwrap_err().to_string();
    assert!(error.ends_with(
        "arm64/istioctl is not built for linux/amd64; hint: build it for x86_64-unknown-linux-gnu"
    ), "{error}");
}

#[test]
fn absent_version_has_no_release_notes() {
    let output = Command::new(env!("CARGO_BIN_EXE_packaging"))
        .current_dir(repository())
        .args(["release-notes", "9.9.9"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "packaging: ./CHANGELOG.md has no section `## [9.9.9]`; hint: rename [Unreleased] when you \
         release\n"
    );
}

fn command(program: &str, args: &[&str], fixture: &Fixture) -> String {
    let mut command = Command::new(program);
    command.args(args).current_dir(&fixture.output).env("TZ", "UTC");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A listing without manual pages, which come and go with commands.
fn without_manuals(listing: &str) -> String {
    let kept = listing.lines().filter(|line| !line.contains("/man/"));
    kept.flat_map(|line| [line, "\n"]).collect()
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
