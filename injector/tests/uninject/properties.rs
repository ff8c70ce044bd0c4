//! Injection and uninjection of generated pods.

use std::sync::LazyLock;

use injector::inject::{InjectionOutcome, Target, inject};
use injector::settings::{Document, Documents, Process, Settings};
use injector::uninject::{Origin, uninject};
use proptest::prelude::*;
use proptest::sample::Index;
use reason::Reason;
use serde_json::Value;

use crate::comparison::{differences, normal};
use crate::pods::pod;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn injected_pod_goes_back_to_the_original(
        pod in pod(),
        native in any::<bool>(),
        settings in 0..SETTINGS.len(),
    ) {
        let settings = &PARSED[settings][usize::from(native)];
        let Ok(InjectionOutcome::Injected(injection)) =
            inject(settings, Target::at_admission(pod.clone(), "default"))
        else {
            return Ok(());
        };
        let back = uninject(&injection.pod, &Origin::from_pod(&injection.pod)).unwrap().unwrap();
        prop_assert_eq!(&without_nulls(back.pod), &without_nulls(pod.clone()));
        prop_assert_eq!(back.doubts, []);
        goes_back(&injection.pod, pod)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn pod_injected_twice_goes_back_to_the_original(
        pod in pod(),
        first in (0..SETTINGS.len(), any::<bool>()),
        second in (0..SETTINGS.len(), any::<bool>()),
    ) {
        let injected = |(settings, native): (usize, bool), pod: Value| {
            let target = Target::at_admission(pod, "default");
            match inject(&PARSED[settings][usize::from(native)], target) {
                Ok(InjectionOutcome::Injected(injection)) => Some(injection.pod),
                _ => None,
            }
        };
        // With another status port, the annotations of metrics of the first injection count as the
        // application's, as in Istio.
        prop_assume!((first.0 == OTHER_PORT) == (second.0 == OTHER_PORT));
        let twice = injected(first, pod.clone()).and_then(|once| injected(second, once));
        if let Some(twice) = twice {
            goes_back(&twice, pod)?;
        }
    }
}

/// Checks that uninjection restores a pod: exactly with the record, and without it except for the
/// fields in doubt.
fn goes_back(injected: &Value, pod: Value) -> Result<(), TestCaseError> {
    let origin = Origin::from_pod(injected);
    let exact = uninject(injected, &origin).unwrap().unwrap();
    if injected["metadata"]["annotations"].get(ORIGINAL).is_some() {
        prop_assert_eq!(&without_nulls(exact.pod), &without_nulls(pod.clone()));
        prop_assert_eq!(exact.doubts, []);
    }
    let injected = &unrecorded(injected);
    let back = uninject(injected, &origin).unwrap().unwrap();
    let mut patched = injected.clone();
    json_patch::patch(&mut patched, &back.patch().owned()).unwrap();
    prop_assert_eq!(&patched, &back.pod);
    prop_assert!(uninject(&back.pod, &origin).unwrap().is_none());
    let respelled = pod["metadata"]["annotations"].get("prometheus-io/port").is_some();
    let doubts: Vec<_> = back.doubts.iter().map(Reason::message).collect();
    let (mut ours, mut own) = (normal(back.pod), normal(pod));
    for pod in [&mut ours, &mut own] {
        // A difference is then one of a single key.
        pod["metadata"]["labels"]["any"] = "any".into();
        pod["metadata"]["annotations"]["any"] = "any".into();
    }
    if doubts.iter().any(|doubt| doubt.contains("its position there")) {
        for pod in [&mut ours, &mut own] {
            let containers = pod["spec"]["containers"].as_array_mut().unwrap();
            containers.sort_by_key(|container| container["name"].to_string());
        }
    }
    for difference in differences(&ours, &own) {
        let field = field(&difference);
        // An empty label or annotation is absent for injection, and a value that injection
        // writes anyway shows no author (docs/uninject.md).
        if ["\"\"", "\"REDIRECT\"", "\"*\""].iter().any(|value| difference.ends_with(value)) {
            continue;
        }
        // Prometheus reads both keys as one, and the record does not hold the spelling.
        if field == "prometheus-io/port" || field == "prometheus.io/port" && respelled {
            continue;
        }
        let told = doubts.iter().any(|doubt| doubt.contains(field));
        prop_assert!(told, "{field}: {difference}\n{doubts:#?}");
    }
    Ok(())
}

/// Returns an injected pod as Istio writes it, without our record.
fn unrecorded(injected: &Value) -> Value {
    let mut injected = injected.clone();
    injected["metadata"]["annotations"].as_object_mut().unwrap().remove(ORIGINAL);
    injected
}

/// Removes members that are null: to Kubernetes they are absent.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(members.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        scalar => scalar,
    }
}

const ORIGINAL: &str = "sidecar.outrigger.io/original";

proptest! {
    #[test]
    fn damaged_pod_causes_no_panic(
        pod in pod(),
        place in any::<Index>(),
        damage in prop::sample::select(vec!["null", "\"x\"", "1", "[]", "{}", "[null]", "[\"x\"]"]),
    ) {
        let target = Target::at_admission(pod, "default");
        let Ok(InjectionOutcome::Injected(injection)) = inject(&PARSED[1][0], target) else {
            return Ok(());
        };
        let mut pod = injection.pod;
        let mut places = Vec::new();
        pointers(&pod, String::new(), &mut places);
        *pod.pointer_mut(place.get::<String>(&places)).unwrap() = serde_json::from_str(damage).unwrap();
        let _ = uninject(&pod, &Origin::from_pod(&pod));
    }
}

/// Collects the paths of all values.
fn pointers(value: &Value, path: String, found: &mut Vec<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let key = key.replace('~', "~0").replace('/', "~1");
        pointers(value, format!("{path}/{key}"), found);
    }
    for (index, value) in value.as_array().into_iter().flatten().enumerate() {
        pointers(value, format!("{path}/{index}"), found);
    }
    found.push(path);
}

/// Returns the label, the annotation, the handler or the name of the field that differs.
fn field(difference: &str) -> &str {
    let path = difference.split(":\n").next().unwrap();
    let metadata = ["/metadata/labels/", "/metadata/annotations/"];
    let key = metadata.iter().find_map(|map| path.strip_prefix(map));
    let handler = path
        .split('/')
        .find(|step| step.ends_with("Probe") || ["preStop", "postStart"].contains(step));
    let last = path.rsplit('/').find(|step| step.parse::<usize>().is_err());
    key.or(handler).or(last).unwrap()
}

/// Values and mesh configurations that lead to other overlays.
pub(crate) const SETTINGS: [(&str, &str); 3] = [
    ("{}", "{}"),
    (
        "{pilot: {cni: {enabled: true, provider: multus}}, global: {network: n1, imagePullSecrets: [one]}}",
        "{defaultConfig: {statusPort: 15023}}",
    ),
    (
        "{global: {imagePullSecrets: [two], mountMtlsCerts: true, proxy: {holdApplicationUntilProxyStarts: true, includeOutboundPorts: '9002'}}, pilot: {cni: {enabled: true}}}",
        "{defaultConfig: {interceptionMode: TPROXY}}",
    ),
];

/// The settings with another status port.
const OTHER_PORT: usize = 1;

pub(crate) static PARSED: LazyLock<Vec<[Settings; 2]>> = LazyLock::new(|| {
    let document = |text| Some(Document { source: "test", text });
    let parsed = |(values, mesh): &(&'static str, &'static str)| {
        [false, true].map(|native_sidecars| {
            let documents = Documents {
                inject_config: None,
                values: document(values),
                mesh_config: document(mesh),
            };
            let process = Process { native_sidecars, ..Process::default() };
            Settings::parse(&documents, process).unwrap()
        })
    };
    SETTINGS.iter().map(parsed).collect()
});
