//! What the user wrote of containers that are injected.

use std::collections::HashSet;

use serde_json::Value;

use crate::inject::computed_env::has_computed;
use crate::inject::error::OwnError;
use crate::inject::prepare::path_env::Variables;
use crate::inject::reinject::status::{Earlier, Overrides};
use crate::kubernetes::merge::{MergeError, without_nulls_and_directives};
use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS, PROXY, find};
use crate::kubernetes::{quantity, zero_fields};

/// The user's own fields of containers that overlays put in.
#[derive(Debug, Default)]
pub struct Written {
    pub(crate) own: Vec<Own>,
}

/// What the user wrote of one container.
#[derive(Debug)]
pub(crate) struct Own {
    /// The list in which the overlay has the container.
    pub(crate) list: &'static str,
    pub(crate) fields: Value,
    /// The same as it goes over the overlay's, without its environment.
    pub(crate) over: Value,
    /// Names of variables that do not go over the overlay's.
    pub(crate) later: HashSet<String>,
    /// Whether it is a proxy that the user wrote as an init container.
    pub(crate) init_proxy: bool,
    pub(crate) from: From,
}

/// Where it is known from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum From {
    /// An earlier injection's record, in the annotation.
    Record,
    /// The pod.
    Pod,
    /// The pod, in which an earlier injection left it ([`crate::inject::reinject::relocate_proxy::keeps_its_own`]).
    Earlier,
}

impl Own {
    pub(crate) fn name(&self) -> &str {
        self.fields["name"].as_str().unwrap_or_default()
    }

    pub(crate) fn error(&self, problem: MergeError) -> OwnError {
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
                let mut fields = without_nulls_and_directives(fields);
                if name == PROXY {
                    zero_fields::take_out(&mut fields);
                }
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

/// The container of this name in a list of a pod.
pub(crate) fn named<'a>(name: &str, list: &str, pod: &'a Value) -> Option<&'a Value> {
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

const RESOURCES: &str = "resources";
const LISTS: [&str; 2] = [CONTAINERS, INIT_CONTAINERS];

/// The image by which a user says that the overlay's is meant.
const AUTO: &str = "auto";
