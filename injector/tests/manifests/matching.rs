//! Which pods the API server asks the webhook about.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhook;

use crate::documents::{Labels, entries, selects};

/// The table of Istio's documentation of its selectors, with a second revision `canary` installed
/// beside ours: rows are the labels of the namespace, columns those of the pod.
#[test]
fn entries_match_as_istios() {
    let pods: [Pairs; 7] = [
        &[],
        &[(INJECT, "true")],
        &[(INJECT, "false")],
        &[(REVISION, "default")],
        &[(REVISION, "canary")],
        &[(INJECT, "true"), (REVISION, "canary")],
        &[(INJECT, "yes")],
    ];
    let canary = "canary rev.namespace";
    let table: [(Pairs, [&str; 7]); 7] = [
        (&[], ["", "object", "", "rev.object", "canary rev.object", "canary rev.object", ""]),
        (&[(INJECTION, "enabled")], all_but_opted_out("namespace")),
        (&[(INJECTION, "disabled")], [""; 7]),
        (&[(REVISION, "default")], all_but_opted_out("rev.namespace")),
        (&[(REVISION, "canary")], all_but_opted_out(canary)),
        (&[(INJECTION, "enabled"), (REVISION, "canary")], all_but_opted_out("namespace")),
        (&[(INJECTION, "disabled"), (REVISION, "canary")], [""; 7]),
    ];
    let entries = entries_with_canary();
    for (namespace, row) in table {
        for (pod, expected) in pods.iter().zip(row) {
            let matched = matching(&entries, &of_namespace("apps", namespace), &labels(pod));
            assert_eq!(matched.join(", "), expected, "namespace {namespace:?}, pod {pod:?}");
        }
    }
}

#[test]
fn no_labels_match_two_entries_and_system_namespaces_match_none() {
    let entries = entries_with_canary();
    let system = ["kube-system", "kube-node-lease", "kube-public", "istio-system"];
    let optional = |key, values: &[&'static str]| {
        let absent = Vec::new();
        std::iter::once(absent).chain(values.iter().map(|value| vec![(key, *value)])).collect()
    };
    let injections: Vec<Vec<_>> = optional(INJECTION, &["enabled", "disabled", "other", ""]);
    let revisions: Vec<Vec<_>> = optional(REVISION, &["default", "canary", "other", ""]);
    let injects: Vec<Vec<_>> = optional(INJECT, &["true", "false", "yes", ""]);
    for name in ["apps", "default"].into_iter().chain(system) {
        for (injection, revision) in pairs(&injections, &revisions) {
            let namespace = of_namespace(name, &[injection, revision].concat());
            for (inject, revision) in pairs(&injects, &revisions) {
                let pod = labels(&[inject, revision].concat());
                let matched = matching(&entries, &namespace, &pod);
                let most = usize::from(!system.contains(&name));
                assert!(matched.len() <= most, "{namespace:?}, {pod:?}: {matched:?}");
            }
        }
    }
}

fn all_but_opted_out(entry: &str) -> [&str; 7] {
    let mut row = [entry; 7];
    row[2] = "";
    row
}

/// Our entries, and those that a second revision would have.
fn entries_with_canary() -> Vec<MutatingWebhook> {
    let of_canary = |mut entry: MutatingWebhook| {
        entry.name = format!("canary {}", entry.name);
        for selector in [&mut entry.namespace_selector, &mut entry.object_selector] {
            let requirements = selector.as_mut().unwrap().match_expressions.iter_mut().flatten();
            for requirement in requirements.filter(|one| one.key == REVISION) {
                if let Some(values) = &mut requirement.values {
                    *values = vec!["canary".to_owned()];
                }
            }
        }
        entry
    };
    let ours = entries();
    let revisions = ours.iter().filter(|entry| entry.name.starts_with("rev.")).cloned();
    let canary: Vec<_> = revisions.map(of_canary).collect();
    ours.into_iter().chain(canary).collect()
}

/// The prefixes of the entries that the API server would call.
fn matching<'a>(entries: &'a [MutatingWebhook], namespace: &Labels, pod: &Labels) -> Vec<&'a str> {
    entries
        .iter()
        .filter(|entry| selects(entry.namespace_selector.as_ref().unwrap(), namespace))
        .filter(|entry| selects(entry.object_selector.as_ref().unwrap(), pod))
        .map(|entry| entry.name.strip_suffix(".sidecar-injector.istio.io").unwrap())
        .collect()
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A namespace's labels: its own and the one that the API server sets.
fn of_namespace(name: &str, pairs: &[(&str, &str)]) -> Labels {
    let mut labels = labels(pairs);
    labels.insert("kubernetes.io/metadata.name".to_owned(), name.to_owned());
    labels
}

fn pairs<'a, T: Clone>(left: &'a [T], right: &'a [T]) -> impl Iterator<Item = (T, T)> + 'a {
    left.iter().flat_map(|one| right.iter().map(|other| (one.clone(), other.clone())))
}

type Pairs = &'static [(&'static str, &'static str)];

const INJECT: &str = "sidecar.istio.io/inject";
const INJECTION: &str = "istio-injection";
const REVISION: &str = "istio.io/rev";
