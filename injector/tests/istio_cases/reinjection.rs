//! Reinjection of injected pods: of Istio's results and of ours.

use injector::inject::{Injection, InjectionOutcome, inject};
use injector::settings::Settings;
use serde_json::Value;

use crate::case::{CHANGED, Case, Review, runs};

#[test]
fn reinjection_of_istios_and_our_pods_changes_nothing() {
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
fn pod_of_the_other_sidecar_mode_changes_once() {
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

fn injected(settings: &Settings, case: &Case, review: &Review, pod: &Value) -> Injection {
    match inject(settings, case.target(review, pod.clone())) {
        Ok(InjectionOutcome::Injected(injection)) => *injection,
        other => panic!("{}, review {}: {other:?}", case.name, review.number),
    }
}
