//! Moves of the proxy between `containers` and `initContainers`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::inject::reinject::status::{InjectionStatus, Overrides};
use crate::json::change::{Change, Draft};
use crate::kubernetes::merge::{MergeError, merge_list};
use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS, PROXY, find, find_proxy};

/// Moves the pod's proxy to the list that the overlay uses, so that the pod does not end up with
/// two. If that list has a proxy already, the two are merged. Istio gives some pods two
/// (`sidecar,spire`).
pub(crate) fn put_in_place(draft: &mut Draft, overlay: &Value) -> Result<(), MergeError> {
    let Some((to, _)) = find_proxy(overlay) else { return Ok(()) };
    let from = if to == CONTAINERS { INIT_CONTAINERS } else { CONTAINERS };
    let Some(index) = find(draft.value(), from, PROXY) else { return Ok(()) };
    let mut proxy = Value::Null;
    draft.edit(|pod| {
        let Some(list) = pod["spec"][from].as_array_mut() else {
            return Ok(Change::Kept);
        };
        let before = list.len();
        proxy = list.remove(index);
        let gone = BTreeMap::from([(index, proxy.clone())]);
        leave_behind(&mut proxy, from);
        let origins = (0..before).filter(|place| *place != index).map(Some).collect();
        let change = Change::list(origins, gone, BTreeMap::new());
        Ok(Change::member("spec", Change::member(from, change)))
    })?;
    if find(draft.value(), to, PROXY).is_none() {
        draft.push(&["spec".into(), to.into()], proxy);
        return Ok(());
    }
    draft.edit(|pod| {
        let change = merge_list(to, &mut pod["spec"][to], vec![proxy])?;
        Ok(Change::member("spec", Change::member(to, change)))
    })
}

/// True if the proxy of a previous injection keeps its own fields.
///
/// Istio treats an injected proxy in `containers` as user-supplied when it turns the proxy into a
/// native sidecar. It does not record those fields, so the next injection does not know them. The
/// `postStart` hook that holds the application identifies such a proxy, because only a proxy in
/// `containers` gets it. Another revision or another image is an upgrade, and the proxy takes the
/// new fields.
pub(crate) fn keeps_its_own(
    pod: &Value,
    earlier: &InjectionStatus,
    overlays: &[(String, Value)],
    revision: &str,
) -> bool {
    let Some((list, index)) = find_proxy(pod) else { return false };
    let present = &pod["spec"][list][index];
    let native = overlays.iter().rev().filter_map(|(_, overlay)| {
        overlay["spec"][INIT_CONTAINERS].get(find(overlay, INIT_CONTAINERS, PROXY)?)
    });
    let image = native.clone().map(|proxy| &proxy["image"]).find(|image| !image.is_null());
    let held = present["lifecycle"][HOLD.0] == hold();
    let given = native.map(|proxy| &proxy["lifecycle"][HOLD.0]).any(|hook| !hook.is_null());
    let Overrides { containers, init } = Overrides::from_pod(pod);
    held && !given
        && image.is_some_and(|image| *image == present["image"])
        && earlier.names().any(|name| name == PROXY)
        && earlier.revision() == revision
        && !containers.iter().chain(&init).any(|own| own["name"] == PROXY)
}

/// Removes the fields that are specific to the list that the proxy leaves. User-supplied ones are
/// merged over the proxy again later.
fn leave_behind(proxy: &mut Value, from: &str) {
    let Some(fields) = proxy.as_object_mut() else { return };
    if from == INIT_CONTAINERS {
        // A proxy in `containers` is not a native sidecar.
        fields.remove("restartPolicy");
    }
    let Some(hooks) = fields.get_mut("lifecycle").and_then(Value::as_object_mut) else { return };
    if from == CONTAINERS {
        hooks.retain(|name, hook| name != HOLD.0 || *hook != hold());
    } else {
        hooks.retain(|name, hook| name != DRAIN.0 || !is_drain(hook));
    }
    if hooks.is_empty() {
        fields.remove("lifecycle");
    }
}

fn hold() -> Value {
    json!({"exec": {"command": HOLD.1}})
}

fn is_drain(hook: &Value) -> bool {
    let command = hook["exec"]["command"].as_array();
    command.is_some_and(|command| {
        let port = |word: &Value| word.as_str().is_some_and(|word| word.starts_with(DRAIN.1[2]));
        command.len() == DRAIN.1.len()
            && command.iter().zip(DRAIN.1).all(|(word, given)| *word == given || port(word))
    })
}

/// The hook of a proxy in `containers` that holds the application.
const HOLD: (&str, [&str; 2]) = ("postStart", ["pilot-agent", "wait"]);

/// The hook of a native sidecar.
const DRAIN: (&str, [&str; 5]) =
    ("preStop", ["pilot-agent", "request", "--debug-port=", "POST", "drain"]);
