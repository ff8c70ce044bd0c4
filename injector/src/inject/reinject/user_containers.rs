//! Collection of user-supplied fields of injected containers, before overlays change the pod.

use std::collections::HashSet;

use serde_json::Value;

use crate::inject::computed_env::has_computed;
use crate::inject::error::UserContainerError;
use crate::inject::prepare::path_env::Variables;
use crate::inject::reinject::status::{InjectionStatus, Overrides};
use crate::kubernetes::merge::{MergeError, without_nulls_and_directives};
use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS, PROXY, find};
use crate::kubernetes::{quantity, zero_fields};
use crate::overlay::image::AUTO;

/// User-supplied fields of the containers that overlays add.
#[derive(Debug, Default)]
pub struct UserContainers {
    pub(crate) own: Vec<UserContainer>,
}

/// User-supplied fields of one container.
#[derive(Debug)]
pub(crate) struct UserContainer {
    /// The list in which the overlay has the container.
    pub(crate) list: &'static str,
    pub(crate) fields: Value,
    /// The fields to merge over the overlay's, without the environment.
    pub(crate) over: Value,
    /// Names of variables that are not merged over the overlay's.
    pub(crate) later: HashSet<String>,
    /// True if it is a proxy that the user wrote as an init container.
    pub(crate) init_proxy: bool,
    pub(crate) from: UserContainerOrigin,
}

/// Source of user-supplied fields.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum UserContainerOrigin {
    /// The record of a previous injection, in the annotation.
    Record,
    /// The pod.
    Pod,
    /// The pod, in which an earlier injection left it
    /// ([`crate::inject::reinject::relocate_proxy::keeps_its_own`]).
    PreviousInjection,
}

impl UserContainer {
    pub(crate) fn name(&self) -> &str {
        self.fields["name"].as_str().unwrap_or_default()
    }

    pub(crate) fn error(&self, problem: MergeError) -> UserContainerError {
        let origin = match self.from {
            UserContainerOrigin::Record => "annotation proxy.istio.io/overrides: container",
            UserContainerOrigin::Pod | UserContainerOrigin::PreviousInjection => {
                "the user-supplied fields of the injected container"
            }
        };
        UserContainerError { name: self.name().to_owned(), origin, problem }
    }
}

impl UserContainers {
    /// Collects the fields from the pod before it is changed.
    ///
    /// `injected` has the names that the overlays add. Fields of a container from a previous
    /// injection are user-supplied only if that injection recorded them, or if the proxy
    /// `keeps_its_own`.
    pub fn from_pod(
        pod: &Value,
        injected: &Value,
        earlier: Option<&InjectionStatus>,
        keeps_its_own: bool,
        variables: &Variables,
        openshift: bool,
    ) -> Self {
        let recorded = Overrides::from_pod(pod);
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
                    Some(_) => UserContainerOrigin::Record,
                    None if kept => UserContainerOrigin::PreviousInjection,
                    None => UserContainerOrigin::Pod,
                };
                let Some(mut fields) = of_record.or_else(of_pod).cloned() else { continue };
                if fields["image"] == AUTO {
                    fields.as_object_mut().map(|own| own.remove("image"));
                }
                if name == PROXY && openshift {
                    drop_assigned_user(&mut fields, pod);
                }
                // A null has no meaning here, but in a merge it would remove the injected field.
                let mut fields = without_nulls_and_directives(fields);
                if name == PROXY {
                    zero_fields::take_out(&mut fields);
                }
                // Avoids a copy of `env`, which may be long; it is copied later if the overlay
                // changed it.
                let env = fields.as_object_mut().and_then(|own| own.remove("env"));
                let mut over = fields.clone();
                respell_amounts(&mut over, name, pod);
                if name == PROXY && list == CONTAINERS {
                    // A proxy in `containers` is not a native sidecar, even if the user wrote one.
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
                written.own.push(UserContainer { list, fields, over, later, init_proxy, from });
            }
        }
        written
    }
}

/// Restores the user's spelling of quantities from the pod. The record has Kubernetes' canonical
/// spelling, and an empty `resources` if the user gave none.
pub(crate) fn respell_amounts(own: &mut Value, name: &str, original: &Value) {
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

/// Returns the variables that are written after the merge; their later value wins in every
/// injection. The computed ones that describe the application may already be in the pod.
fn written_later(env: &Value, variables: &Variables, pod: &Value) -> HashSet<String> {
    let written = |name: &&str| {
        variables.iter().any(|(variable, _)| variable == name) || has_computed(pod, name)
    };
    let names = env.as_array().into_iter().flatten();
    let names = names.filter_map(|variable| variable["name"].as_str());
    names.filter(written).map(str::to_owned).collect()
}

/// Returns the recorded container. The record is of the first injection, and a later one may have
/// the container in the other list.
fn recorded_of<'a>(name: &str, list: &str, recorded: &'a Overrides) -> Option<&'a Value> {
    let Overrides { containers, init } = recorded;
    let lists = if list == CONTAINERS { [containers, init] } else { [init, containers] };
    lists.into_iter().flatten().find(|container| container["name"] == name)
}

fn written_of<'a>(name: &str, list: &str, original: &'a Value) -> Option<&'a Value> {
    // A native sidecar is an init container, but users write it under `containers` too. The proxy
    // of an overlay with it in `containers` may have been written under either.
    let lists = if list == CONTAINERS && name != PROXY { &[CONTAINERS][..] } else { &LISTS[..] };
    lists.iter().find_map(|list| named(name, list, original))
}

/// Returns the container of this name in a list of a pod.
pub(crate) fn named<'a>(name: &str, list: &str, pod: &'a Value) -> Option<&'a Value> {
    pod["spec"][list].get(find(pod, list, name)?)
}

/// Removes the user that `OpenShift` assigned. Before it calls the webhook, it gives one user to
/// every container without one. The proxy must not share the application's user, because the
/// capture could not distinguish their connections.
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
