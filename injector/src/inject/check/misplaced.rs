//! Labels and annotations of a workload that injection reads from the pod template.

use reason::{Reason, words};
use serde_json::Value;

use super::MOST_KEYS;
use crate::istio::labels::{self, INJECT, REVISION};
use crate::settings::annotations::{HONOURED, key};

/// Returns warnings about the keys of injection that a workload has outside of its pod template,
/// opt-outs first. A key that the template also has is no mistake.
///
/// `template` leads from the object to the pod template; a pod is its own template. `injected` is
/// true if the pods get a sidecar in spite of an opt-out.
pub fn warnings(object: &Value, template: &[String], injected: bool) -> Vec<Reason> {
    let pod = template.iter().try_fold(object, |value, step| child(value, step));
    let Some(pod) = pod.filter(|_| !template.is_empty()) else { return Vec::new() };
    let moved_to = template.join(".");
    let mut found = Vec::new();
    for depth in 0..template.len() {
        let (path, inner) = template.split_at(depth);
        let holder = path.iter().try_fold(object, |value, step| child(value, step));
        let Some(holder) = holder.filter(|_| !inner.is_empty()) else { continue };
        for place in &PLACES {
            let keys = holder["metadata"][place.list].as_object().into_iter().flatten();
            found.extend(keys.filter_map(|(key, value)| {
                let is_misplaced = (place.reads)(key) && pod["metadata"][place.list][key].is_null();
                is_misplaced.then(|| Misplaced { place, path, key, value })
            }));
        }
    }
    let own_switch = PLACES.iter().any(|place| !pod["metadata"][place.list][INJECT].is_null());
    let opts_out = |misplaced: &Misplaced<'_>| {
        misplaced.key == INJECT && misplaced.value == "false" && injected && !own_switch
    };
    // A template with its own switch needs no other.
    found.retain(|misplaced| misplaced.key != INJECT || !own_switch);
    found.sort_by_key(|misplaced| !opts_out(misplaced));
    let kind = object["kind"].as_str().unwrap_or("object");
    let reasons = found.iter().take(MOST_KEYS).map(|misplaced| {
        let Misplaced { place, path, key, .. } = misplaced;
        let of = if path.is_empty() { kind.to_owned() } else { path.join(".") };
        let hint = format!("move it to {moved_to}.metadata.{}", place.list);
        let (word, message) = if opts_out(misplaced) {
            let message = format!(
                "{} {key} of the {of} is \"false\", and the pods are injected nevertheless: it \
                 counts in the pod template only",
                place.word
            );
            (words::MISPLACED_OPT_OUT, message)
        } else {
            let message = format!(
                "{} {key} of the {of} has no effect: it counts in the pod template only",
                place.word
            );
            (words::MISPLACED_IN_WORKLOAD, message)
        };
        Reason::new(word, message).with_hint(hint)
    });
    reasons.collect()
}

struct Misplaced<'a> {
    place: &'static Place,
    /// Path of the part of the object that has the key.
    path: &'a [String],
    key: &'a str,
    value: &'a Value,
}

/// Labels or annotations.
struct Place {
    list: &'static str,
    word: &'static str,
    /// True for a key that injection reads from a pod and nothing reads from another object.
    reads: fn(&str) -> bool,
}

static PLACES: [Place; 2] = [
    Place {
        list: "labels",
        word: "label",
        // Workloads have labels of revisions for other purposes.
        reads: |key| key != REVISION && labels::with_effect_on_pods().any(|label| label == key),
    },
    Place {
        list: "annotations",
        word: "annotation",
        reads: |key| {
            let is_ours = ["istio.io/", "outrigger.io/"].iter().any(|domain| key.contains(domain));
            is_ours && !WRITTEN.contains(&key) && HONOURED.iter().any(|it| it.key == key)
        },
    },
];

/// Annotations that injection writes.
const WRITTEN: [&str; 5] =
    [key::STATUS, key::OVERRIDES, key::CAPTURE, key::ORIGINAL, key::REVISION];

fn child<'v>(value: &'v Value, step: &str) -> Option<&'v Value> {
    match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        value => value.get(step),
    }
}

#[cfg(test)]
mod tests {
    use documents::yaml;

    use super::*;

    fn shown(object: &str, template: &str, injected: bool) -> Vec<String> {
        let path: Vec<_> =
            template.split('.').filter(|step| !step.is_empty()).map(str::to_owned).collect();
        let found = warnings(&yaml::parse(object).unwrap(), &path, injected);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn keys_of_a_workload_are_named_with_their_place() {
        let deployment = "kind: Deployment\nmetadata:\n  labels: {sidecar.istio.io/inject: 'false', \
             istio.io/rev: canary, app: a}\n  annotations: {proxy.istio.io/config: '{}', \
             traffic.sidecar.istio.io/excludeOutboundPorts: '5432', sidecar.istio.io/status: '{}', \
             prometheus.io/port: '80'}\nspec: {template: {metadata: {annotations: \
             {proxy.istio.io/config: '{}'}}, spec: {}}}";
        assert_eq!(
            shown(deployment, "spec.template", true),
            [
                "label sidecar.istio.io/inject of the Deployment is \"false\", and the pods are \
                 injected nevertheless: it counts in the pod template only (misplaced_opt_out); \
                 hint: move it to spec.template.metadata.labels",
                "annotation traffic.sidecar.istio.io/excludeOutboundPorts of the Deployment has no \
                 effect: it counts in the pod template only (misplaced_in_workload); hint: move \
                 it to spec.template.metadata.annotations",
            ]
        );
        let skipped = shown(deployment, "spec.template", false);
        assert!(skipped.iter().all(|it| it.contains("misplaced_in_workload")), "{skipped:?}");
        assert_eq!(skipped.len(), 2);
    }

    #[test]
    fn metadata_between_a_cron_job_and_its_pods_is_read() {
        let cron_job = "kind: CronJob\nspec: {jobTemplate: {metadata: {annotations: \
             {sidecar.istio.io/inject: 'false'}}, spec: {template: {spec: {}}}}}";
        let shown = shown(cron_job, "spec.jobTemplate.spec.template", true);
        assert_eq!(shown.len(), 1);
        assert!(
            shown[0].starts_with("annotation sidecar.istio.io/inject of the spec.jobTemplate is")
        );
        assert!(
            shown[0].ends_with("move it to spec.jobTemplate.spec.template.metadata.annotations")
        );
    }

    #[test]
    fn own_switch_of_the_template_needs_no_other() {
        let object = "kind: Deployment\nmetadata: {annotations: {sidecar.istio.io/inject: 'false'}}\n\
             spec: {template: {metadata: {labels: {sidecar.istio.io/inject: 'true'}}}}";
        assert_eq!(shown(object, "spec.template", true), [""; 0]);
        let pod = "kind: Pod\nmetadata: {annotations: {sidecar.istio.io/inject: 'false'}}";
        assert_eq!(shown(pod, "", true), [""; 0]);
        let jobs = "kind: JobSet\nspec: {jobs: [{metadata: {labels: {sidecar.istio.io/inject: \
             'false'}}, spec: {template: {spec: {}}}}]}";
        assert_eq!(shown(jobs, "spec.jobs.0.spec.template", true).len(), 1);
    }
}
