//! Istio's own injection cases, whose directory `ISTIO_CASES` names: the same files come out.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panic, and says what it leaves out"
)]

#[path = "../../../injector/tests/istio_cases/case.rs"]
#[allow(dead_code, reason = "the tests of the library use the rest of it")]
mod case;
#[path = "../../../injector/tests/istio_cases/comparison.rs"]
mod comparison;
mod files;

use std::fs;
use std::path::Path;

use case::{CHANGED, Overlays, check, runs};

#[test]
fn files_produce_istios_workloads() {
    check(|case| case.run_file(Overlays::BuiltIn));
}

#[test]
fn files_with_istios_templates_produce_istios_workloads() {
    check(|case| case.run_file(Overlays::Templates));
}

#[test]
fn reinjection_of_istios_and_our_files_changes_nothing() {
    let mut failures = Vec::new();
    for (case, overlays) in runs().into_iter().filter(|(case, _)| case.has_an_expected_file()) {
        let folder = tempfile::tempdir().unwrap();
        let ours = folder.path().join("ours.yaml");
        fs::write(&ours, case.kube_inject(overlays, Path::new("input.yaml")).stdout).unwrap();
        for (whose, file) in [("Istio's", case.path("expected.yaml")), ("ours", ours)] {
            if whose == "Istio's" && CHANGED.iter().any(|(name, _)| *name == case.name) {
                continue;
            }
            let again = case.kube_inject(overlays, &file);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (before, after) = (text(&fs::read(&file).unwrap()), text(&again.stdout));
            if before != after {
                let failure = format!("{}, {whose}:\n{after}{}", case.name, text(&again.stderr));
                failures.push(failure);
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
