//! Pod templates of a document.

use serde_json::Value;

use super::{Origin, UninjectError, Uninjection, uninject};
use crate::inject::reinject::status::STATUS;
use crate::json::difference::difference;
use crate::manifest::{Manifest, PodTemplate};

/// Removes the injection of a pod template. Returns the part of the document that changes: the
/// template, or the job template of a `CronJob` that Istio injected. `None` if it is not injected.
pub fn uninject_template(
    manifest: &Manifest<'_>,
    template: &PodTemplate,
) -> Result<Option<(PodTemplate, Uninjection)>, UninjectError> {
    let pod = manifest.pod(template);
    let origin = match () {
        () if template.is_pod() => Origin::from_pod(pod),
        // The labels of the object are those of the pod.
        () if template.path_in_object().is_empty() => {
            Origin::from_workload(&template.workload.name, &Value::Null)
        }
        () => Origin::from_workload(&template.workload.name, manifest.object(template)),
    };
    let is_of_cron_job = template.path_in_object().iter().eq(&IN_A_CRON_JOB);
    let status = &pod["metadata"]["annotations"][STATUS];
    if is_of_cron_job && status.is_null() && pod.is_object() {
        let mut job = template.clone();
        job.place.truncate(job.place.len() - IN_A_JOB.len());
        let uninjection = uninject_job(manifest.pod(&job), &origin)?;
        return Ok(uninjection.map(|found| (job.clone(), with_comments(found, manifest, &job))));
    }
    let uninjection = uninject(pod, &origin)?;
    Ok(uninjection.map(|found| (template.clone(), with_comments(found, manifest, template))))
}

/// Keeps the keys of empty fields that have comments of the author, with the value null: the
/// comment stands where the value would be.
fn with_comments(
    mut uninjection: Uninjection,
    manifest: &Manifest<'_>,
    template: &PodTemplate,
) -> Uninjection {
    let injected = manifest.pod(template);
    for path in FILLED {
        let path: Vec<_> = path.iter().map(|key| (*key).to_owned()).collect();
        let pointer = format!("/{}", path.join("/"));
        let is_empty = uninjection.pod.pointer(&pointer).is_none_or(|value| match value {
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            _ => false,
        });
        let was_filled = injected.pointer(&pointer).is_some_and(|value| !value.is_null());
        if is_empty && was_filled && manifest.has_comments(template, &path) {
            let mut field = &mut uninjection.pod;
            for key in &path {
                field = &mut field[key.as_str()];
            }
            *field = Value::Null;
        }
    }
    uninjection.change = difference(injected, &uninjection.pod);
    uninjection
}

/// Removes an injection whose labels and annotations are in the metadata of the job template.
fn uninject_job(job: &Value, origin: &Origin<'_>) -> Result<Option<Uninjection>, UninjectError> {
    let mut injected = job["spec"]["template"].clone();
    injected["metadata"] = job["metadata"].clone();
    let Some(Uninjection { pod: mut own, doubts, .. }) = uninject(&injected, origin)? else {
        return Ok(None);
    };
    let mut pod = job.clone();
    match own["metadata"].take() {
        Value::Null => pod.as_object_mut().and_then(|job| job.remove("metadata")),
        metadata => pod.as_object_mut().and_then(|job| job.insert("metadata".to_owned(), metadata)),
    };
    pod["spec"]["template"]["spec"] = own["spec"].take();
    let change = difference(job, &pod);
    Ok(Some(Uninjection { pod, change, doubts }))
}

/// Maps and lists that injection fills if they are empty, inner ones first.
const FILLED: [&[&str]; 9] = [
    &["metadata", "annotations"],
    &["metadata", "labels"],
    &["metadata"],
    &["spec", "dnsConfig", "searches"],
    &["spec", "dnsConfig"],
    &["spec", "imagePullSecrets"],
    &["spec", "initContainers"],
    &["spec", "securityContext"],
    &["spec", "volumes"],
];

/// Path from a `CronJob` to its pod template.
const IN_A_CRON_JOB: [&str; 4] = ["spec", "jobTemplate", "spec", "template"];
/// Path from a job template to its pod template.
const IN_A_JOB: [&str; 2] = ["spec", "template"];
