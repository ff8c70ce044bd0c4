//! Containers that the user wrote and that stand over the injected ones of the same name.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::change::{Change, Draft};
use crate::earlier::{Earlier, Overrides, as_recorded};
use crate::give_way;
use crate::merge::{MergeError, merge_list, without_nulls};
use crate::overlay::PROXY;
use crate::postprocess::path_env::Variables;
use crate::postprocess::{
    CONTAINERS, INIT_CONTAINERS, find, find_proxy, has_computed, in_container,
};
use crate::quantity;
use crate::reason::Reason;
use crate::settings::annotations::key;

/// The user's own fields of containers that overlays put in.
#[derive(Debug, Default)]
pub struct Written {
    own: Vec<Own>,
}

/// What the user wrote of one container.
#[derive(Debug)]
struct Own {
    /// The list in which the overlay has the container.
    list: &'static str,
    fields: Value,
    /// The same as it goes over the overlay's, without its environment.
    over: Value,
    /// Names of variables that do not go over the overlay's.
    later: HashSet<String>,
    /// Whether it is a proxy that the user wrote as an init container.
    init_proxy: bool,
    from: From,
}

/// Where it is known from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum From {
    /// An earlier injection's record, in the annotation.
    Record,
    /// The pod.
    Pod,
    /// The pod, in which an earlier injection left it ([`moved_proxy::keeps_its_own`]).
    Earlier,
}

/// What the user wrote of a container has no meaning.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{origin} {name}: {problem}")]
pub struct OwnError {
    /// The container's name.
    pub name: String,
    origin: &'static str,
    problem: MergeError,
}

impl Own {
    fn name(&self) -> &str {
        self.fields["name"].as_str().unwrap_or_default()
    }

    fn error(&self, problem: MergeError) -> OwnError {
        let origin = match self.from {
            From::Record => "annotation proxy.istio.io/overrides: container",
            From::Pod | From::Earlier => "the pod's own fields of the injected container",
        };
        OwnError { name: self.name().to_owned(), origin, problem }
    }
}

impl Written {
    /// Reads them from the pod as the user wrote it.
    ///
    /// `injected` is what the overlays put in. Of a container that an earlier injection put into
    /// the pod only what that injection recorded is the user's, unless the proxy `keeps_its_own`.
    pub fn of_pod(
        pod: &Value,
        injected: &Value,
        earlier: Option<&Earlier>,
        keeps_its_own: bool,
        variables: &Variables,
        openshift: bool,
    ) -> Self {
        let recorded = Overrides::of_pod(pod);
        let mut written = Self::default();
        for list in LISTS {
            let names = injected["spec"][list].as_array().into_iter().flatten();
            for name in names.filter_map(|container| container["name"].as_str()) {
                let injected = earlier.is_some_and(|earlier| {
                    let mut names = earlier.names();
                    earlier.injected(list, name) || name == PROXY && names.any(|name| name == PROXY)
                });
                let kept = injected && keeps_its_own && name == PROXY;
                let of_pod = || (!injected || kept).then(|| written_of(name, list, pod)).flatten();
                let of_record = recorded_of(name, list, &recorded);
                let from = match of_record {
                    Some(_) => From::Record,
                    None if kept => From::Earlier,
                    None => From::Pod,
                };
                let Some(mut fields) = of_record.or_else(of_pod).cloned() else { continue };
                if fields["image"] == AUTO {
                    fields.as_object_mut().map(|own| own.remove("image"));
                }
                if name == PROXY && openshift {
                    drop_assigned_user(&mut fields, pod);
                }
                // A null says nothing here; in a merge it would remove what was injected.
                let mut fields = without_nulls(fields);
                // It may be long: another copy of it is made where the overlay changed it.
                let env = fields.as_object_mut().and_then(|own| own.remove("env"));
                let mut over = fields.clone();
                respell_amounts(&mut over, name, pod);
                if name == PROXY && list == CONTAINERS {
                    // It was written as a native sidecar; this is none.
                    over.as_object_mut().map(|over| over.remove("restartPolicy"));
                }
                let init_proxy = name == PROXY && named(name, INIT_CONTAINERS, pod).is_some();
                let mut later = HashSet::new();
                if let Some(env) = env {
                    if name == PROXY {
                        later = written_later(&env, variables, pod);
                    }
                    fields["env"] = env;
                }
                written.own.push(Own { list, fields, over, later, init_proxy, from });
            }
        }
        written
    }
}

/// Puts the user's own fields back over what the overlays made of his containers, and records
/// them in the pod. Says where the fields are an earlier injection's, and what gives way to them.
pub fn reapply(
    draft: &mut Draft,
    written: Written,
    tproxy: bool,
    reinjected: bool,
) -> Result<Vec<Reason>, OwnError> {
    let mut applied = Overrides::default();
    let (mut proxy, mut contested, mut told) = (None, Vec::new(), Vec::new());
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
            told.extend(give_way::to(&mut over, container));
        }
        draft
            .edit(|pod| {
                let change = merge_list(list, &mut pod["spec"][list], vec![over])?;
                if own.from == From::Earlier && change != Change::Kept {
                    told.push(kept_fields());
                }
                Ok(Change::member("spec", Change::member(list, change)))
            })
            .map_err(|problem| own.error(problem))?;
        let Own { mut fields, init_proxy, .. } = own;
        let name = fields["name"].as_str().unwrap_or_default();
        if name == PROXY {
            proxy = proxy.or_else(|| Some(fields["securityContext"].clone()));
        }
        let native = |own: &Value| own["restartPolicy"] == NATIVE;
        if init_proxy
            && (list == CONTAINERS || named(PROXY, list, draft.value()).is_some_and(native))
        {
            // By this another injection tells that the templates are to find it there again.
            fields.as_object_mut().map(|own| own.entry("restartPolicy").or_insert(NATIVE.into()));
        }
        let applied = if list == CONTAINERS { &mut applied.containers } else { &mut applied.init };
        contested.extend(own_env.map(|env| (list, applied.len(), env)));
        applied.push(as_recorded(fields));
    }
    if let Some(security) = proxy {
        follow_user(draft, &security, tproxy);
    }
    if !reinjected && !applied.is_empty() {
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
    Ok(told)
}

fn kept_fields() -> Reason {
    let message = "istio-proxy was a container that holds the application in an earlier injection \
                   and keeps that one's fields, as Istio does it";
    Reason::new("kept_proxy", message).with_hint(
        "take istio-proxy and annotation sidecar.istio.io/status out of the pod for a new one",
    )
}

/// Whether the overlays left a long environment of the user's as it is and only put variables of
/// other names beside it: to merge it again would change nothing.
fn has_its_env(overlaid: Option<&Value>, own: &Value) -> bool {
    let overlaid = overlaid.and_then(|container| container["env"].as_array());
    let (Some(overlaid), Some(own)) = (overlaid, own["env"].as_array()) else { return false };
    // Without a name it is an error, which the merge has to tell.
    let names: Option<HashSet<_>> = own.iter().map(|variable| variable["name"].as_str()).collect();
    let Some(names) = names.filter(|_| own.len() > LONG) else { return false };
    let mut own = own.iter().peekable();
    overlaid.iter().all(|variable| {
        own.next_if_eq(&variable).is_some()
            || variable["name"].as_str().is_none_or(|name| !names.contains(name))
    }) && own.peek().is_none()
}

/// Of a long environment of the user's the variables that an overlay sets as well: a record
/// needs no others, since nothing takes them out of the pod.
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

/// Whether Kubernetes takes the record beside the pod's other annotations, and those that the
/// injection still writes.
fn has_room(pod: &Value, record: &str) -> bool {
    let annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
    let sizes = annotations.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len));
    sizes.sum::<usize>() + record.len() <= ALL_ANNOTATIONS - TO_COME
}

/// An environment but for the variables that are written later.
fn without(env: &Value, later: &HashSet<String>) -> Value {
    let Some(variables) = env.as_array() else { return env.clone() };
    let is_later = |variable: &Value| variable["name"].as_str().is_some_and(|n| later.contains(n));
    variables.iter().filter(|variable| !is_later(variable)).cloned().collect()
}

/// The record has Kubernetes' spelling of quantities and names resources where there are none; the
/// pod keeps the user's.
fn respell_amounts(own: &mut Value, name: &str, original: &Value) {
    let Some(container) = LISTS.iter().find_map(|list| named(name, list, original)) else { return };
    let present = &container[RESOURCES];
    let Some(resources) = own.get_mut(RESOURCES).and_then(Value::as_object_mut) else { return };
    for (kind, amounts) in resources.iter_mut() {
        for (resource, amount) in amounts.as_object_mut().into_iter().flatten() {
            let present = &present[kind][resource];
            if quantity::same(amount, present) {
                *amount = present.clone();
            }
        }
    }
    if resources.is_empty() {
        own.as_object_mut().map(|own| own.remove(RESOURCES));
    }
}

/// The variables that are written after the merge: what is written there has the last word in every
/// injection. Those that tell of the application may stand in the pod already.
fn written_later(env: &Value, variables: &Variables, pod: &Value) -> HashSet<String> {
    let written = |name: &&str| {
        variables.iter().any(|(variable, _)| variable == name) || has_computed(pod, name)
    };
    let names = env.as_array().into_iter().flatten();
    let names = names.filter_map(|variable| variable["name"].as_str());
    names.filter(written).map(str::to_owned).collect()
}

/// A record is of the first injection; a later one may have the container in the other list.
fn recorded_of<'a>(name: &str, list: &str, recorded: &'a Overrides) -> Option<&'a Value> {
    let Overrides { containers, init } = recorded;
    let lists = if list == CONTAINERS { [containers, init] } else { [init, containers] };
    lists.into_iter().flatten().find(|container| container["name"] == name)
}

fn written_of<'a>(name: &str, list: &str, original: &'a Value) -> Option<&'a Value> {
    // A native sidecar is an init container, but people write it under containers; where the
    // overlay has the proxy among the containers, it may have been written under either.
    let lists = if list == CONTAINERS && name != PROXY { &[CONTAINERS][..] } else { &LISTS[..] };
    lists.iter().find_map(|list| named(name, list, original))
}

fn named<'a>(name: &str, list: &str, pod: &'a Value) -> Option<&'a Value> {
    pod["spec"][list].get(find(pod, list, name)?)
}

/// `OpenShift` gives one user to every container that names none, before the webhook sees the pod;
/// the proxy must not share the application's, or its connections could not be told apart.
fn drop_assigned_user(own: &mut Value, original: &Value) {
    let containers = original["spec"][CONTAINERS].as_array().into_iter().flatten();
    let mut users = containers
        .filter(|container| container["name"] != PROXY)
        .map(|container| &container["securityContext"]["runAsUser"]);
    let application = users.rfind(|user| !user.is_null());
    let Some(security) = own["securityContext"].as_object_mut() else { return };
    if application.is_some() && security.get("runAsUser") == application {
        security.remove("runAsUser");
        security.remove("runAsGroup");
    }
}

/// Where the user chose the proxy's uid, the capture must spare that one.
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

const RESOURCES: &str = "resources";
const LISTS: [&str; 2] = [CONTAINERS, INIT_CONTAINERS];

/// The restart policy of an init container that is a native sidecar.
const NATIVE: &str = "Always";

/// The image by which a user says that the overlay's is meant.
const AUTO: &str = "auto";

/// Variables that an environment has at least to be worth shortening.
const LONG: usize = 100;

/// Bytes that Kubernetes allows in the annotations of an object.
const ALL_ANNOTATIONS: usize = 256 << 10;

/// Bytes for the annotations that an injection writes after the record.
const TO_COME: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::merge::merge;

    proptest! {
        #[test]
        fn a_long_environment_is_the_users_again(
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
            let mut over = without_nulls(original["spec"][CONTAINERS][0].clone());
            over["env"] = exclusive_env(&over["env"], &HashSet::new());
            let merged = merge_list(CONTAINERS, &mut expected["spec"][CONTAINERS], vec![over]);
            let mut draft = Draft::new(overlaid);
            let written = Written::of_pod(&original, &overlay, None, &Vec::new(), false);
            let outcome = reapply(&mut draft, written, false, false);
            prop_assert_eq!(outcome.is_ok(), merged.is_ok());
            if outcome.is_ok() {
                prop_assert_eq!(&draft.value()["spec"], &expected["spec"]);
            }
        }
    }

    /// Variables of few names, once or more often, some of them odd.
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
