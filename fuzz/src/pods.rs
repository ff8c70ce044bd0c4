//! Pods, and invariants of their injection.

use std::sync::LazyLock;

use injector::inject::{InjectError, Injection, InjectionOutcome, Target, inject};
use injector::settings::{Documents, Process, Settings};
use serde_json::Value;

/// Fuzzes a pod as JSON.
pub fn pod(data: &[u8]) {
    let Ok(pod) = serde_json::from_slice::<Value>(data) else { return };
    for native_sidecars in [true, false] {
        let _ = check(settings(native_sidecars), &pod);
    }
}

/// Checks that the patch yields the injected pod, and that reinjection changes nothing.
pub fn check(settings: &Settings, pod: &Value) -> Option<InjectError> {
    let first = match injected(settings, pod) {
        Ok(injection) => injection?,
        Err(error) => {
            assert!(!error.to_string().is_empty() && !error.word().is_empty());
            return Some(error);
        }
    };
    let mut patched = pod.clone();
    json_patch::patch(&mut patched, &first.patch().owned()).expect("a patch that applies");
    assert_eq!(patched, first.pod, "the patch gives another pod");
    assert!(first.warnings.iter().all(|warning| !warning.to_string().is_empty()));
    match injected(settings, &first.pod) {
        Ok(Some(second)) => assert!(
            second.patch().is_empty(),
            "a second injection changes {}",
            serde_json::to_string(&second.patch()).unwrap()
        ),
        Ok(None) => {}
        Err(error) => panic!("an injected pod is refused: {error}"),
    }
    None
}

/// Injects a pod; `None` if it is skipped.
pub fn injected(settings: &Settings, pod: &Value) -> Result<Option<Injection>, InjectError> {
    let target = Target::at_admission(pod.clone(), "default");
    Ok(match inject(settings, target)? {
        InjectionOutcome::Injected(injection) => Some(*injection),
        InjectionOutcome::Skipped { reason, .. } => {
            assert!(!reason.to_string().is_empty());
            None
        }
    })
}

/// Returns the built-in configuration.
pub fn settings(native_sidecars: bool) -> &'static Settings {
    static SETTINGS: LazyLock<[Settings; 2]> = LazyLock::new(|| {
        [false, true].map(|native_sidecars| {
            let process = Process { native_sidecars, ..Process::default() };
            Settings::parse(&Documents::default(), process).expect("the built-in documents")
        })
    });
    &SETTINGS[usize::from(native_sidecars)]
}
