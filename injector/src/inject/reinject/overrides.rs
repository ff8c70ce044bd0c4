//! Merge of user-supplied fields over the injected containers, and their record in the pod.

use std::collections::{HashMap, HashSet};

use reason::{Reason, words};
use serde_json::Value;

use crate::inject::error::UserContainerError;
use crate::inject::limits;
use crate::inject::reinject::conflicts;
use crate::inject::reinject::status::{Overrides, as_recorded};
use crate::inject::reinject::user_containers::{
    UserContainer, UserContainerOrigin, UserContainers, named,
};
use crate::json::change::{Change, Draft};
use crate::json::short::ANNOTATION_BYTES;
use crate::kubernetes::merge::merge_list;
use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS, PROXY, find, find_proxy, in_container};
use crate::settings::annotations::key;

/// Merges the user-supplied fields over the containers of the overlays, and records them in the
/// pod. Returns warnings about fields of a previous injection and about resolved conflicts.
pub fn reapply(
    draft: &mut Draft,
    written: UserContainers,
    tproxy: bool,
    reinjected: bool,
) -> Result<Vec<Reason>, UserContainerError> {
    // The record of a previous injection stays as it is. It has no container that comes from the
    // pod now: the overlays of that time did not contain it.
    let mut applied =
        if reinjected { Overrides::from_pod(draft.value()) } else { Overrides::default() };
    let mut unrecorded = false;
    let (mut proxy, mut contested, mut warnings) = (None, Vec::new(), Vec::new());
    for mut own in written.own {
        let list = own.list;
        let overlaid = named(own.name(), list, draft.value());
        let mut over = std::mem::take(&mut own.over);
        let own_env = if has_its_env(overlaid, &own.fields) {
            Some(Value::Array(Vec::new()))
        } else {
            if let Some(env) = own.fields.get("env") {
                over["env"] = without(env, &own.later);
            }
            contested_env(&own.fields, overlaid)
        };
        if let Some(container) = overlaid {
            warnings.extend(conflicts::resolve_conflicts(&mut over, container));
        }
        draft
            .edit(|pod| {
                let change = merge_list(list, &mut pod["spec"][list], vec![over])?;
                if own.from == UserContainerOrigin::PreviousInjection && change != Change::Kept {
                    warnings.push(kept_fields());
                }
                Ok(Change::member("spec", Change::member(list, change)))
            })
            .map_err(|problem| own.error(problem))?;
        let UserContainer { mut fields, init_proxy, from, .. } = own;
        let name = fields["name"].as_str().unwrap_or_default();
        if name == PROXY {
            proxy = proxy.or_else(|| Some(fields["securityContext"].clone()));
        }
        let native = |own: &Value| own["restartPolicy"] == NATIVE;
        if init_proxy
            && (list == CONTAINERS || named(PROXY, list, draft.value()).is_some_and(native))
        {
            // Lets reinjection recognise a proxy written as a native sidecar.
            fields.as_object_mut().map(|own| own.entry("restartPolicy").or_insert(NATIVE.into()));
        }
        if reinjected && from != UserContainerOrigin::Pod {
            continue;
        }
        unrecorded = true;
        let applied = if list == CONTAINERS { &mut applied.containers } else { &mut applied.init };
        contested.extend(own_env.map(|env| (list, applied.len(), env)));
        applied.push(as_recorded(fields));
    }
    if let Some(security) = proxy {
        follow_user(draft, &security, tproxy);
    }
    if unrecorded {
        let mut record = applied.to_json();
        if !has_room(draft.value(), &record) {
            for (list, index, env) in contested {
                let applied =
                    if list == CONTAINERS { &mut applied.containers } else { &mut applied.init };
                applied[index]["env"] = env;
            }
            record = applied.to_json();
        }
        let path = ["metadata", "annotations", key::OVERRIDES].map(Into::into);
        draft.set(&path, record.into());
    }
    Ok(warnings)
}

fn kept_fields() -> Reason {
    let message = "istio-proxy keeps the fields of the previous injection, in which it held the \
                   application, as with Istio";
    Reason::new(words::KEPT_PROXY, message)
}

/// True if the overlays left a long user-supplied environment unchanged and only added variables of
/// other names. Merging it again would then change nothing.
fn has_its_env(overlaid: Option<&Value>, own: &Value) -> bool {
    let overlaid = overlaid.and_then(|container| container["env"].as_array());
    let (Some(overlaid), Some(own)) = (overlaid, own["env"].as_array()) else { return false };
    // A variable without a name is an error that the merge reports.
    let names: Option<HashSet<_>> = own.iter().map(|variable| variable["name"].as_str()).collect();
    let Some(names) = names.filter(|_| own.len() > LONG) else { return false };
    let mut own = own.iter().peekable();
    overlaid.iter().all(|variable| {
        own.next_if_eq(&variable).is_some()
            || variable["name"].as_str().is_none_or(|name| !names.contains(name))
    }) && own.peek().is_none()
}

/// Returns the variables of a long user-supplied environment that the overlay changed. The record
/// needs no others, because nothing removes them from the pod.
fn contested_env(own: &Value, overlaid: Option<&Value>) -> Option<Value> {
    let own = own["env"].as_array().filter(|env| env.len() > LONG)?;
    let overlaid = overlaid?["env"].as_array()?;
    let overlaid: HashMap<_, _> =
        overlaid.iter().map(|variable| (variable["name"].as_str(), variable)).collect();
    let contested = |variable: &&Value| {
        overlaid.get(&variable["name"].as_str()).is_none_or(|overlaid| overlaid != variable)
    };
    Some(own.iter().filter(contested).cloned().collect())
}

/// True if the annotations stay below Kubernetes' limit with the record and the annotations that
/// injection writes later.
fn has_room(pod: &Value, record: &str) -> bool {
    limits::annotation_bytes(pod) + record.len() <= ANNOTATION_BYTES - TO_COME
}

/// Returns the environment without the variables that are written later.
fn without(env: &Value, later: &HashSet<String>) -> Value {
    let Some(variables) = env.as_array() else { return env.clone() };
    let is_later = |variable: &Value| variable["name"].as_str().is_some_and(|n| later.contains(n));
    variables.iter().filter(|variable| !is_later(variable)).cloned().collect()
}

/// Applies the proxy's user-supplied uid to the capture, which must exempt that uid.
fn follow_user(draft: &mut Draft, security: &Value, tproxy: bool) {
    let (user, group) = (&security["runAsUser"], &security["runAsGroup"]);
    if user.is_null() && group.is_null() {
        return;
    }
    let pod = draft.value();
    let init = ["istio-init", "istio-validation"]
        .into_iter()
        .find_map(|name| Some((name, find(pod, INIT_CONTAINERS, name)?)));
    let Some((name, index)) = init else { return };
    if tproxy {
        if let Some((list, proxy)) = find_proxy(pod) {
            let field = ["securityContext".into(), "runAsUser".into()];
            draft.set(&in_container(list, proxy, field), 0.into());
        }
    } else if name == "istio-validation" {
        for (field, id) in [("runAsUser", user), ("runAsGroup", group)] {
            if !id.is_null() {
                let field = ["securityContext".into(), field.into()];
                draft.set(&in_container(INIT_CONTAINERS, index, field), id.clone());
            }
        }
    }
    if let Some(user) = user.as_u64().filter(|user| *user != 0) {
        let args = &draft.value()["spec"][INIT_CONTAINERS][index]["args"];
        let flag = args.as_array().and_then(|args| args.iter().position(|arg| arg == "-u"));
        if let Some(flag) = flag.filter(|flag| args.get(flag + 1).is_some()) {
            let value = ["args".into(), (flag + 1).into()];
            draft.set(&in_container(INIT_CONTAINERS, index, value), user.to_string().into());
        }
    }
}

/// The restart policy of a native sidecar.
const NATIVE: &str = "Always";

/// An environment is shortened if it has more variables than this.
pub(crate) const LONG: usize = 100;

/// Bytes reserved for the annotations that injection writes after the record.
const TO_COME: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::kubernetes::merge::{merge, without_nulls_and_directives};

    proptest! {
        #[test]
        fn long_environment_is_restored_from_the_record(
            few in environment(),
            overlay in environment(),
            at in 0..=LONG,
        ) {
            let mut own: Vec<_> = (0..LONG).map(|n| json!({"name": format!("V{n}")})).collect();
            own.splice(at..at, few);
            let pod = |env: &[Value]| json!({"spec": {CONTAINERS: [{"name": "app", "env": env}]}});
            let (original, overlay) = (pod(&own), pod(&overlay));
            let mut overlaid = original.clone();
            merge(&mut overlaid, overlay.clone()).unwrap();
            let mut expected = overlaid.clone();
            let over = without_nulls_and_directives(original["spec"][CONTAINERS][0].clone());
            let merged = merge_list(CONTAINERS, &mut expected["spec"][CONTAINERS], vec![over]);
            let mut draft = Draft::new(overlaid);
            let written = UserContainers::from_pod(&original, &overlay, None, false, &Vec::new(), false);
            let outcome = reapply(&mut draft, written, false, false);
            prop_assert_eq!(outcome.is_ok(), merged.is_ok());
            if outcome.is_ok() {
                prop_assert_eq!(&draft.value()["spec"], &expected["spec"]);
            }
        }
    }

    /// Generates variables with few names, repeated and invalid ones included.
    fn environment() -> impl Strategy<Value = Vec<Value>> {
        let variable = (0..4_u8, 0..6_u8).prop_map(|(name, form)| match form {
            0..=2 => json!({"name": format!("{name}"), "value": format!("{}", form % 2)}),
            3 => json!({"name": format!("{name}"), "valueFrom": {"fieldRef": {"fieldPath": "a"}}}),
            4 => json!({"name": format!("{name}"), "value": null, "$patch": "delete"}),
            _ => json!({"name": format!("{name}"), "value": null}),
        });
        proptest::collection::vec(variable, 0..4)
    }
}
