//! Record of the pod before injection, from which uninjection restores it.

use serde_json::Value;

use super::{Injection, Target, limits};
use crate::json::change::{Change, Draft, PathStep};
use crate::kubernetes::pod::annotation;
use crate::kubernetes::workload::Workload;
use crate::settings::annotations::key;
use crate::uninject::{Origin, record, record_of, uninject};

/// Returns the name of the target's workload, as uninjection will know it.
pub(super) fn workload_name(target: &Target<'_>) -> String {
    match &target.workload {
        Some(workload) => workload.name.clone(),
        None => Workload::from_pod(&target.pod, target.namespace).name,
    }
}

/// Writes the record into the injected pod, or removes one that is no longer needed.
pub(super) fn record_in(injection: Injection, reinjected: bool, name: &str) -> Injection {
    let record = if reinjected {
        let Some(original) = newly_recorded(&injection, name) else { return injection };
        record_of(&original, &injection.pod, name)
    } else {
        record(&injection.pod, &injection.change, name)
    };
    if record.is_none() && annotation(&injection.pod, key::ORIGINAL).is_none() {
        return injection;
    }
    let Injection { pod, change, templates, warnings } = injection;
    let mut draft = Draft::new(pod);
    let annotations: [PathStep<'_>; 2] = ["metadata".into(), "annotations".into()];
    match record {
        Some(record) => {
            draft.set(&[annotations[0], annotations[1], key::ORIGINAL.into()], record.into());
        }
        None => draft.remove(&annotations, key::ORIGINAL),
    }
    let (pod, later) = draft.finish();
    Injection { pod, change: change.then(later), templates, warnings }
}

/// Returns the pod before its first injection, if another one needs a new record. A record from
/// which the pod still comes back stays: the API server has added defaults since.
fn newly_recorded(injection: &Injection, name: &str) -> Option<Value> {
    let Injection { pod, change, .. } = injection;
    // Another injector, or an older version, has injected a pod without a record.
    let has_record = annotation(pod, key::ORIGINAL).is_some();
    if *change == Change::Kept || !has_record || !limits::is_small(pod) {
        return None;
    }
    // What was added since the first injection is the user's.
    let original = turned_back(&change.before(pod)?, name)?;
    (turned_back(pod, name).as_ref() != Some(&original)).then_some(original)
}

/// Returns a pod with a record as it was before its injection.
fn turned_back(pod: &Value, name: &str) -> Option<Value> {
    let origin = Origin::from_workload(name, &Value::Null);
    uninject(pod, &origin).ok().flatten().map(|found| found.pod)
}
