//! Removal of an injection as a pure function: an injected pod in, the pod before injection out.
//!
//! The pod itself says which containers and volumes are injected (`sidecar.istio.io/status`), which
//! user-supplied containers they replaced (`proxy.istio.io/overrides`), and where the application's
//! probes and metrics were (environment of `istio-proxy`). What it does not show, injection records
//! (`sidecar.outrigger.io/original`). No settings are needed.

mod capture;
mod containers;
mod doubt;
mod error;
mod metadata;
mod metrics;
mod origin;
mod original;
mod outline;
mod probes;
mod record;
mod spec;
mod workload;

use reason::Reason;
use serde_json::Value;

pub use error::UninjectError;
pub use origin::Origin;
use record::Record;
pub(crate) use record::{record, record_of};
pub use workload::uninject_template;

use crate::inject::reinject::status::{InjectionStatus, Overrides, STATUS};
use crate::json::change::Change;
use crate::json::difference::difference;
use crate::json::patch::{self, Patch};
use crate::settings::annotations::key;

/// A pod without its injection.
#[derive(Clone, Debug)]
pub struct Uninjection {
    /// The pod before injection.
    pub pod: Value,
    /// The change from the injected pod.
    pub change: Change,
    /// Fields whose value before injection the pod does not show.
    pub doubts: Vec<Reason>,
}

impl Uninjection {
    /// Returns the RFC 6902 patch from the injected pod.
    pub fn patch(&self) -> Patch<'_> {
        patch::write(&self.pod, &self.change)
    }
}

/// Removes the injection of a pod. `None` if the pod is not injected.
///
/// With the record of the injection, the pod comes back exactly, except for what was changed since.
pub fn uninject(
    injected: &Value,
    origin: &Origin<'_>,
) -> Result<Option<Uninjection>, UninjectError> {
    let Some(record) = Record::from_pod(injected) else {
        return Ok(unrecorded(injected, injected.clone(), origin)?.map(|mut found| {
            found.change = difference(injected, &found.pod);
            found
        }));
    };
    // The record was made without the object around the template.
    let origin = Origin::from_workload(&origin.name, &Value::Null);
    let Some(mut found) = unrecorded(injected, injected.clone(), &origin)? else { return Ok(None) };
    record.apply(&mut found.pod);
    found.doubts.retain(doubt::remains);
    found.change = difference(injected, &found.pod);
    Ok(Some(found))
}

/// Removes the injection of a pod without the record of the values before it. The change is empty.
///
/// `pod` is a copy of the injected one, or its outline.
fn unrecorded(
    injected: &Value,
    mut pod: Value,
    origin: &Origin<'_>,
) -> Result<Option<Uninjection>, UninjectError> {
    let status = injected["metadata"]["annotations"].get(STATUS);
    let Some(text) = status.filter(|status| !status.is_null()) else { return Ok(None) };
    let Some(status) = InjectionStatus::from_pod(injected) else {
        return Err(UninjectError::Status(text.to_string()));
    };
    let Some(overrides) = Overrides::parse_pod(injected) else {
        let text = &injected["metadata"]["annotations"][key::OVERRIDES];
        return Err(UninjectError::Overrides(text.to_string()));
    };
    let mut doubts: Vec<_> = doubt::other_templates(injected).collect();
    doubts.extend(doubt::absent_parts(injected, &status));
    containers::restore(&mut pod, injected, &status, &overrides, &mut doubts);
    if let Some(name) = containers::not_named(&pod, &status, &overrides) {
        return Err(UninjectError::NotNamed(name));
    }
    spec::restore(&mut pod, &status, &mut doubts);
    metadata::restore(&mut pod, injected, &status, origin, &mut doubts);
    Ok(Some(Uninjection { pod, change: Change::Kept, doubts }))
}

/// Removes a member if it is empty. Injection created it, or replaced an empty one.
fn remove_if_empty(object: Option<&mut Value>, key: &str) {
    let Some(members) = object.and_then(Value::as_object_mut) else { return };
    let is_empty = match members.get(key) {
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(members)) => members.is_empty(),
        _ => false,
    };
    if is_empty {
        members.remove(key);
    }
}
