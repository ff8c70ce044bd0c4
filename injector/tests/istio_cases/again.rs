//! Reinjection of injected pods: of Istio's results and of ours.

use std::fs;
use std::path::Path;

use injector::inject::{Injection, Outcome, inject};
use injector::settings::Settings;
use serde_json::Value;

use crate::case::{Case, Overlays, Review};

#[test]
fn istios_pods_and_ours_stay_as_they_are() {
    let mut failures = Vec::new();
    let mut stayed = 0;
    for (case, overlays) in runs() {
        let settings = case.settings(overlays);
        for review in case.reviews().iter().filter(|review| review.verdict.patched) {
            let ours = injected(&settings, &case, review, &review.pod).pod;
            for (whose, pod) in [("Istio's", &review.expected), ("ours", &ours)] {
                if whose == "Istio's" && CHANGED.iter().any(|(name, _)| *name == case.name) {
                    continue;
                }
                stayed += 1;
                let again = injected(&settings, &case, review, pod);
                let patch = serde_json::to_string(&again.patch()).unwrap();
                let place = format!("{}, review {}, {whose}", case.name, review.number);
                failures.extend((patch != "[]").then(|| format!("{place}: {patch}")));
            }
        }
    }
    println!("{stayed} pods stayed as they are");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(stayed > 0 || Case::all().is_none(), "no case ran");
}

/// Native sidecars are turned on or off between two injections. A third injection changes nothing.
#[test]
fn a_pod_of_the_other_mode_changes_once() {
    for (case, overlays) in runs() {
        let mut settings = case.settings(overlays);
        settings.process.native_sidecars = !settings.process.native_sidecars;
        for review in case.reviews().iter().filter(|review| review.verdict.patched) {
            let other = injected(&settings, &case, review, &review.expected).pod;
            let again = injected(&settings, &case, review, &other);
            let patch = serde_json::to_string(&again.patch()).unwrap();
            assert_eq!(patch, "[]", "{}, review {}", case.name, review.number);
        }
    }
}

#[test]
fn istios_files_and_ours_stay_as_they_are() {
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

fn runs() -> Vec<(Case, Overlays)> {
    let all = |overlays| Case::all().into_iter().flatten().map(move |case| (case, overlays));
    all(Overlays::BuiltIn).chain(all(Overlays::Templates)).collect()
}

fn injected(settings: &Settings, case: &Case, review: &Review, pod: &Value) -> Injection {
    match inject(settings, case.target(review, pod.clone())) {
        Ok(Outcome::Injected(injection)) => *injection,
        other => panic!("{}, review {}: {other:?}", case.name, review.number),
    }
}

/// Cases of which reinjection changes Istio's result, with the reason.
const CHANGED: [(&str, &str); 2] = [
    ("cronjob", "the pod template has no status annotation; Istio puts it on the Job"),
    ("sidecar-spire", "of the two proxies that Istio leaves there is one afterwards"),
];
