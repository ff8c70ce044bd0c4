//! Selection of pods by the webhook entries.

use std::collections::BTreeSet;

use e2e::manifests::Composition;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhook;

use crate::documents::{
    AUTO, AUTO_DEFAULT_TAG, AUTO_ISTIOD, BASE, CANARY, DEFAULT_TAG, DORMANT, ISTIOD, KUBE_SYSTEM,
    Labels, TAGGED, rendering, renderings, selects,
};

/// The table of Istio's own entries, with the default revision, `auto.` and a revision `canary`.
/// Rows are the labels of the namespace, columns those of the pod.
#[test]
fn entries_match_the_same_pods_as_istio() {
    let pods: [Pairs; 7] = [
        &[],
        &[(INJECT, "true")],
        &[(INJECT, "false")],
        &[(REVISION, "default")],
        &[(REVISION, "canary")],
        &[(INJECT, "true"), (REVISION, "canary")],
        &[(INJECT, "yes")],
    ];
    let canary = "istio-sidecar-injector-canary rev.object";
    let canary_namespace = "istio-sidecar-injector-canary rev.namespace";
    let table: [(Pairs, [&str; 7]); 7] = [
        (&[], ["auto", "object", "", "rev.object", canary, canary, ""]),
        (&[(INJECTION, "enabled")], all_but_opted_out("namespace")),
        (&[(INJECTION, "disabled")], [""; 7]),
        (&[(REVISION, "default")], all_but_opted_out("rev.namespace")),
        (&[(REVISION, "canary")], all_but_opted_out(canary_namespace)),
        (&[(INJECTION, "enabled"), (REVISION, "canary")], all_but_opted_out("namespace")),
        (&[(INJECTION, "disabled"), (REVISION, "canary")], [""; 7]),
    ];
    let with_auto = entries_of(&[AUTO, CANARY]);
    let without = entries_of(&[BASE, CANARY]);
    for (namespace, row) in table {
        for (pod, expected) in pods.iter().zip(row) {
            let of = |entries: &[Entry]| {
                let matched = matching(entries, &of_namespace("apps", namespace), &labels(pod));
                matched.join(", ").replace("istio-sidecar-injector ", "")
            };
            assert_eq!(of(&with_auto), expected, "namespace {namespace:?}, pod {pod:?}");
            let expected = if expected == "auto" { "" } else { expected };
            assert_eq!(of(&without), expected, "namespace {namespace:?}, pod {pod:?}");
        }
    }
}

/// Every combination of the labels' values that an entry distinguishes, one more value, and
/// absence.
#[test]
fn no_labels_match_two_entries_or_system_namespaces() {
    let system = ["kube-system", "kube-node-lease", "kube-public", "istio-system"];
    let injections = optional(INJECTION, &["enabled", "disabled", "other", ""]);
    let values = ["default", "canary", "prod", "pre-prod", "1-28", "other", ""];
    let revisions = optional(REVISION, &values);
    let injects = optional(INJECT, &["true", "false", "yes", ""]);
    for installations in INSTALLATIONS {
        let entries = entries_of(installations);
        // An entry that never matches would be untested.
        let mut called = BTreeSet::new();
        for name in ["apps", "default"].into_iter().chain(system) {
            for (injection, revision) in pairs(&injections, &revisions) {
                let namespace = of_namespace(name, &[injection, revision].concat());
                for (inject, revision) in pairs(&injects, &revisions) {
                    let pod = labels(&[inject, revision].concat());
                    let matched = matching(&entries, &namespace, &pod);
                    let most = usize::from(!system.contains(&name));
                    assert!(matched.len() <= most, "{namespace:?}, {pod:?}: {matched:?}");
                    called.extend(matched);
                }
            }
        }
        let is_dormant = installations.contains(&DORMANT);
        let expected = entries.iter().filter(|(configuration, _)| {
            !(is_dormant && configuration == "istio-sidecar-injector")
        });
        assert_eq!(called, expected.map(in_words).collect(), "{installations:?}");
    }
}

/// Also for the system namespaces of an installation that includes kube-system, which `auto` leaves
/// out.
#[test]
fn kube_system_is_matched_only_on_request() {
    let entries = entries_of(&[KUBE_SYSTEM]);
    let matched = |name: &str, namespace: Pairs, pod: Pairs| {
        matching(&entries, &of_namespace(name, namespace), &labels(pod)).join(", ")
    };
    let of = |prefix: &str| format!("istio-sidecar-injector {prefix}");
    assert_eq!(matched("kube-system", &[(INJECTION, "enabled")], &[]), of("namespace"));
    assert_eq!(matched("kube-system", &[], &[(INJECT, "true")]), of("object"));
    assert_eq!(matched("kube-system", &[(REVISION, "default")], &[]), of("rev.namespace"));
    assert_eq!(matched("kube-system", &[], &[]), "");
    assert_eq!(matched("apps", &[], &[]), of("auto"));
    for name in ["kube-node-lease", "kube-public", "istio-system"] {
        for (namespace, pod) in
            [(&[(INJECTION, "enabled")][..], &[][..]), (&[], &[(INJECT, "true")])]
        {
            let namespace = of_namespace(name, namespace);
            assert!(matching(&entries, &namespace, &labels(pod)).is_empty(), "{name}");
        }
    }
}

/// A tag matches exactly the pods that a revision of its name would.
#[test]
fn tag_matches_like_a_revision_of_its_name() {
    let tagged = entries_of(&[TAGGED]);
    for tag in ["prod", "pre-prod"] {
        for (namespace, pod) in [(vec![(REVISION, tag)], vec![]), (vec![], vec![(REVISION, tag)])] {
            let matched = matching(&tagged, &of_namespace("apps", &namespace), &labels(&pod));
            assert_eq!(matched.len(), 1, "{namespace:?}, {pod:?}: {matched:?}");
            assert!(matched[0].starts_with(&format!("istio-revision-tag-{tag} ")), "{matched:?}");
        }
    }
    // Every entry of a tag routes to the revision that it points at.
    for (configuration, entry) in rendering(TAGGED).entries() {
        let service = entry.client_config.service.unwrap().name;
        assert_eq!(service, "sidecar-injector-canary", "{configuration} {}", entry.name);
    }
}

/// The tag `default` matches the same pods as the default revision, so only one of them may be
/// installed.
#[test]
fn default_tag_replaces_the_default_revision() {
    let of = |composition| entries_of(&[composition]);
    let prefix = |entries: &[Entry], namespace: &Labels, pod: &Labels| {
        let matched = matching(entries, namespace, pod);
        matched.first().map(|name| name.split(' ').nth(1).unwrap().to_owned())
    };
    let injections = optional(INJECTION, &["enabled", "disabled", ""]);
    let revisions = optional(REVISION, &["default", "other"]);
    let injects = optional(INJECT, &["true", "false", "yes"]);
    for (injection, revision) in pairs(&injections, &revisions) {
        let namespace = of_namespace("apps", &[injection, revision].concat());
        for (inject, revision) in pairs(&injects, &revisions) {
            let pod = labels(&[inject, revision].concat());
            let base = prefix(&of(BASE), &namespace, &pod);
            assert_eq!(prefix(&of(DEFAULT_TAG), &namespace, &pod), base, "{namespace:?} {pod:?}");
        }
    }
}

/// Beside istiod, whose entries are Istio's, ours match the same pods. Every combination stays
/// covered when istiod's are removed, and none is new.
#[test]
fn same_pods_match_beside_istiod() {
    let injections = optional(INJECTION, &["enabled", "disabled", ""]);
    let revisions = optional(REVISION, &["default", "canary", "1-28", "other"]);
    let injects = optional(INJECT, &["true", "false", "yes"]);
    for (beside, alone) in [(ISTIOD, BASE), (AUTO_ISTIOD, AUTO)] {
        let [beside, alone] = [beside, alone].map(|composition| entries_of(&[composition]));
        for (injection, revision) in pairs(&injections, &revisions) {
            let namespace = of_namespace("apps", &[injection, revision].concat());
            for (inject, revision) in pairs(&injects, &revisions) {
                let pod = labels(&[inject, revision].concat());
                let [beside, alone] =
                    [&beside, &alone].map(|entries| matching(entries, &namespace, &pod));
                let renamed = alone.iter().map(|entry| entry.replace("istio-sidecar", "sidecar"));
                assert_eq!(beside, renamed.collect::<Vec<_>>(), "{namespace:?} {pod:?}");
            }
        }
    }
}

/// The exceptions are the same for all sources of entries.
#[test]
fn every_entry_excludes_the_system_namespaces() {
    for rendering in renderings() {
        let lifted = rendering.has("kube-system").then_some("kube-system");
        for (configuration, entry) in rendering.entries() {
            for name in ["kube-system", "kube-node-lease", "kube-public", "istio-system"] {
                if lifted == Some(name) {
                    continue;
                }
                let selector = entry.namespace_selector.as_ref().unwrap();
                let excluded = selector.match_expressions.iter().flatten().any(|requirement| {
                    requirement.key == "kubernetes.io/metadata.name"
                        && requirement.operator == "NotIn"
                        && requirement.values.iter().flatten().any(|value| value == name)
                });
                assert!(excluded, "{configuration} {}: {name}", entry.name);
            }
        }
    }
}

/// Combinations that may be installed together.
const INSTALLATIONS: [&[Composition]; 9] = [
    &[BASE],
    &[AUTO, CANARY],
    &[BASE, TAGGED],
    &[AUTO, TAGGED],
    &[DEFAULT_TAG],
    &[ISTIOD, TAGGED],
    &[DEFAULT_TAG, TAGGED],
    &[AUTO_DEFAULT_TAG, TAGGED],
    // The tag `default` takes over the pods of the default revision.
    &[DORMANT, DEFAULT_TAG, TAGGED],
];

fn all_but_opted_out(entry: &str) -> [&str; 7] {
    let mut row = [entry; 7];
    row[2] = "";
    row
}

/// Returns the entries of several installations. A configuration in two of them counts once.
pub(crate) fn entries_of(installations: &[Composition]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for composition in installations {
        for entry in rendering(*composition).entries() {
            let known =
                entries.iter().any(|(name, one)| (name, &one.name) == (&entry.0, &entry.1.name));
            if !known {
                entries.push(entry);
            }
        }
    }
    entries
}

/// Returns the entries that the API server would call.
pub(crate) fn matching(entries: &[Entry], namespace: &Labels, pod: &Labels) -> Vec<String> {
    entries
        .iter()
        .filter(|(_, entry)| selects(entry.namespace_selector.as_ref().unwrap(), namespace))
        .filter(|(_, entry)| selects(entry.object_selector.as_ref().unwrap(), pod))
        .map(in_words)
        .collect()
}

/// Returns the configuration and the prefix of the entry's name.
fn in_words((configuration, entry): &Entry) -> String {
    let prefix = entry.name.strip_suffix(".sidecar-injector.istio.io").unwrap();
    format!("{configuration} {prefix}")
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Returns a namespace's labels: its own and the one that the API server sets.
pub(crate) fn of_namespace(name: &str, pairs: &[(&str, &str)]) -> Labels {
    let mut labels = labels(pairs);
    labels.insert("kubernetes.io/metadata.name".to_owned(), name.to_owned());
    labels
}

/// Returns the absence of a label, and each of its values.
pub(crate) fn optional(
    key: &'static str,
    values: &[&'static str],
) -> Vec<Vec<(&'static str, &'static str)>> {
    let absent = Vec::new();
    std::iter::once(absent).chain(values.iter().map(|value| vec![(key, *value)])).collect()
}

pub(crate) fn pairs<'a, T: Clone>(
    left: &'a [T],
    right: &'a [T],
) -> impl Iterator<Item = (T, T)> + 'a {
    left.iter().flat_map(|one| right.iter().map(|other| (one.clone(), other.clone())))
}

pub(crate) type Entry = (String, MutatingWebhook);
type Pairs = &'static [(&'static str, &'static str)];

pub(crate) const INJECT: &str = "sidecar.istio.io/inject";
pub(crate) const INJECTION: &str = "istio-injection";
pub(crate) const REVISION: &str = "istio.io/rev";
