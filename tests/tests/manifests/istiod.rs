//! Our webhook entries beside those of istiod's injector: compatible combinations, and those that
//! review a pod twice. docs/migration.md has the same table.

use std::collections::BTreeSet;

use e2e::istiod;
use e2e::manifests::Composition;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use serde_json::Value;

use crate::documents::{AUTO, AUTO_ISTIOD, BASE, CANARY, DEFAULT_TAG, ISTIOD, TAGGED};
use crate::matching::{
    Entry, INJECT, INJECTION, REVISION, entries_of, labels, matching, of_namespace, optional, pairs,
};

/// Result of two configurations at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Together {
    /// They match different pods.
    Apart,
    /// They are one object: the last apply wins.
    OneObject,
    /// Both match a pod. Ours is called later, and injects only if theirs has not.
    InTurn,
    /// Both match a pod, and each injects it.
    Double,
}

#[test]
fn compositions_beside_istiod_match_the_migration_page() {
    let default = || istiod::of_default_revision(false);
    for (theirs, ours, expected) in [
        (default(), BASE, Together::OneObject),
        (default(), ISTIOD, Together::InTurn),
        (istiod::of_default_revision(true), AUTO_ISTIOD, Together::InTurn),
        (default(), CANARY, Together::Apart),
        (default(), TAGGED, Together::Apart),
        (default(), DEFAULT_TAG, Together::Double),
        (istiod::of_revision("1-28"), BASE, Together::Apart),
        (istiod::of_revision("1-28"), AUTO, Together::Apart),
        (istiod::of_revision("1-28"), ISTIOD_REVISION, Together::InTurn),
        (istiod::of_revision("canary"), CANARY, Together::OneObject),
        (istiod::of_revision("prod"), TAGGED, Together::Double),
        (istiod::of_tag("prod"), BASE, Together::Apart),
        (istiod::of_tag("prod"), ISTIOD, Together::Apart),
        (istiod::of_tag("canary"), CANARY, Together::Double),
        (istiod::of_tag("prod"), TAGGED, Together::OneObject),
        (istiod::of_tag("default"), BASE, Together::Double),
        (istiod::of_tag("default"), ISTIOD, Together::InTurn),
    ] {
        let name = theirs["metadata"]["name"].as_str().unwrap().to_owned();
        assert_eq!(together(&name, theirs, ours), expected, "istiod's {name}, our {ours:?}");
    }
}

/// istiod writes its own CA into configurations with the label of its revision. It must not do so
/// for those of the component `istiod`, but would for one of a tag.
#[test]
fn istiod_does_not_write_our_ca_bundle() {
    for composition in [ISTIOD, AUTO_ISTIOD, ISTIOD_REVISION] {
        let configurations: Vec<MutatingWebhookConfiguration> =
            crate::documents::rendering(composition).all("MutatingWebhookConfiguration");
        for configuration in configurations {
            let labels = configuration.metadata.labels.unwrap_or_default();
            assert!(!labels.contains_key(REVISION), "{composition:?}: {labels:?}");
        }
    }
}

/// Returns the worst result over all combinations of labels.
fn together(name: &str, theirs: Value, ours: Composition) -> Together {
    let theirs: MutatingWebhookConfiguration = serde_json::from_value(theirs).unwrap();
    let theirs: Vec<Entry> =
        theirs.webhooks.unwrap().into_iter().map(|one| (name.to_owned(), one)).collect();
    let ours = entries_of(&[ours]);
    if ours.iter().any(|(configuration, _)| configuration == name) {
        return Together::OneObject;
    }
    let injections = optional(INJECTION, &["enabled", "disabled", "other", ""]);
    let values = ["default", "canary", "prod", "pre-prod", "1-28", "other", ""];
    let revisions = optional(REVISION, &values);
    let injects = optional(INJECT, &["true", "false", "yes", ""]);
    let mut both = BTreeSet::new();
    for (injection, revision) in pairs(&injections, &revisions) {
        let namespace = of_namespace("apps", &[injection, revision].concat());
        for (inject, revision) in pairs(&injects, &revisions) {
            let pod = labels(&[inject, revision].concat());
            if !matching(&theirs, &namespace, &pod).is_empty() {
                both.extend(matching(&ours, &namespace, &pod));
            }
        }
    }
    let waits = |(configuration, entry): &Entry| {
        let conditions = entry.match_conditions.iter().flatten();
        configuration.as_str() > name
            && conditions.into_iter().any(|one| one.name == "not-injected-by-istiod")
    };
    match (both.is_empty(), ours.iter().all(waits)) {
        (true, _) => Together::Apart,
        (false, true) => Together::InTurn,
        (false, false) => Together::Double,
    }
}

const ISTIOD_REVISION: Composition =
    Composition { components: &["istiod", "revision"], revision: Some("1-28"), tags: &[] };
