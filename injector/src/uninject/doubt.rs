//! Doubts: fields whose value before injection is not certain.

use std::collections::HashSet;

use reason::{Reason, words};
use serde_json::Value;

use crate::inject::reinject::status::{InjectionStatus, STATUS};
use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS};
use crate::settings::template_names;

/// Returns the doubt about a field that was removed although the author may have written it.
pub(super) fn may_be_own(field: &str) -> Reason {
    let message = format!("{field} is removed; the pod does not show whether its author wrote it");
    Reason::new(words::MAY_BE_OWN, message)
}

/// Returns the doubt about a field that was kept although injection may have written it.
pub(super) fn may_be_injected(field: &str) -> Reason {
    let message = format!("{field} is kept; the pod does not show whether injection wrote it");
    Reason::new(words::MAY_BE_INJECTED, message)
}

/// Returns the doubt about a value that injection replaced and did not record.
pub(super) fn not_recorded(message: String) -> Reason {
    Reason::new(words::NOT_RECORDED, message)
}

/// Returns the doubt about a value whose record is damaged.
pub(super) fn lost_record(message: String) -> Reason {
    Reason::new(words::LOST_RECORD, message)
}

/// True if a doubt remains although the values before injection are recorded: the pod was edited
/// since.
pub(super) fn remains(doubt: &Reason) -> bool {
    [words::ABSENT_PART, words::LOST_RECORD].iter().any(|word| word.as_str() == doubt.word())
}

/// Returns the doubts about containers and volumes that only the status has.
pub(super) fn absent_parts(
    injected: &Value,
    status: &InjectionStatus,
) -> impl Iterator<Item = Reason> {
    let names = |list: &str| {
        let items = injected["spec"][list].as_array().into_iter().flatten();
        items.filter_map(|item| item["name"].as_str()).collect::<HashSet<_>>()
    };
    let present = &names(CONTAINERS) | &names(INIT_CONTAINERS);
    let containers = status.names().filter(move |name| !present.contains(name));
    let present = names("volumes");
    let volumes = status.volumes().iter().map(String::as_str);
    let volumes = volumes.filter(move |name| !present.contains(name));
    let containers = containers.map(|name| ("container", name));
    containers.chain(volumes.map(|name| ("volume", name))).map(|(kind, name)| {
        let message = format!("annotation {STATUS} names the {kind} {name}, which is not there");
        Reason::new(words::ABSENT_PART, message)
    })
}

/// Returns the doubts about templates of the user, which can change any field.
pub(super) fn other_templates(injected: &Value) -> impl Iterator<Item = Reason> {
    template_names::requested_of_user(injected).map(|name| {
        not_recorded(format!(
            "the template {name} is not built in; labels, annotations and other fields that it \
             adds beside containers and volumes are kept"
        ))
    })
}
