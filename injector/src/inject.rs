//! The way through: a pod in, an [`Injection`] out.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::change::{Change, Draft};
use crate::decision::{Decision, Rules, decide, of_another_revision};
use crate::form;
pub use crate::inject_error::InjectError;
use crate::merge::merge;
use crate::overrides;
use crate::patch::{self, Patch};
use crate::plan::Plan;
use crate::postprocess::{self, CONTAINERS, metadata, order, path_env, probes, prometheus};
use crate::proxy_user;
use crate::reason::Reason;
use crate::resources;
use crate::settings::Settings;
use crate::settings::annotations::key;
use crate::settings::outrigger::ProxyUser;
pub use crate::target::Target;

/// Injects the pod, or says why not.
///
/// Pure: the same settings and target always give the same outcome, byte for byte.
pub fn inject(settings: &Settings, target: Target<'_>) -> Result<Outcome, InjectError> {
    form::check(&target.pod)?;
    match decide(&settings.inject, target.rules, &target.pod, target.namespace) {
        Decision::Inject => {}
        Decision::Skip(reason) => return Ok(Outcome::Skipped(reason)),
    }
    if target.rules == Rules::Admission
        && let Some(reason) = of_another_revision(settings, &target.pod)
    {
        return Ok(Outcome::Skipped(reason));
    }
    let plan = Plan::of(settings, &target)?;
    let injection = carry_out(settings, plan, target.pod)?;
    Ok(Outcome::Injected(Box::new(injection)))
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The pod was injected.
    Injected(Box<Injection>),
    /// The pod stays as it is.
    Skipped(Reason),
}

/// An injected pod and how it came about.
#[derive(Clone, Debug)]
pub struct Injection {
    /// The pod after injection.
    pub pod: Value,
    /// What was done to the target's pod.
    pub change: Change,
    /// What the user should know.
    pub warnings: Vec<Reason>,
}

impl Injection {
    /// RFC 6902: turns the target's pod into the injected one.
    pub fn patch(&self) -> Patch<'_> {
        patch::write(&self.pod, &self.change)
    }
}

/// Puts everything into the pod, and brings it into order.
fn carry_out(settings: &Settings, mut plan: Plan, pod: Value) -> Result<Injection, InjectError> {
    let mut draft = Draft::new(pod);
    for (template, overlay) in std::mem::take(&mut plan.overlays) {
        move_proxy(&mut draft, &overlay);
        draft
            .edit(|pod| merge(pod, overlay))
            .map_err(|source| InjectError::Merge { template, source })?;
    }
    let Plan { injected, variables, tproxy, reinjected, .. } = plan;
    overrides::reapply(&mut draft, plan.written, tproxy, reinjected)
        .map_err(|source| InjectError::Merge { template: key::OVERRIDES.to_owned(), source })?;
    path_env::apply(&mut draft, &variables);
    prometheus::merge(&mut draft, settings)
        .map_err(|error| InjectError::Annotations(vec![error]))?;
    prometheus::secure_port(&mut draft);
    let mut warnings = plan.advice;
    warnings.extend(probes::rewrite(&mut draft, settings, reinjected));
    metadata::apply(
        &mut draft,
        path_env::network(&variables),
        &metadata::status(&injected, settings.process.revision_name()),
        &settings.inject.injected_annotations,
    );
    order::containers(&mut draft, plan.hold_application);
    order::proxy_env(&mut draft, &variables);
    let (pod, change) = draft.finish();
    warnings.extend(resources::beyond_pod(&pod));
    warnings.extend(shared_user(settings, &pod, &injected)?);
    warnings.extend(plan.config_advice);
    Ok(Injection { pod, change, warnings })
}

/// What there is to say of a container that runs as the proxy's user.
fn shared_user(
    settings: &Settings,
    pod: &Value,
    injected: &Value,
) -> Result<Option<Reason>, InjectError> {
    let shared = || proxy_user::shared(pod, injected);
    match settings.values.outrigger.proxy_user {
        ProxyUser::Allow => Ok(None),
        ProxyUser::Warn => Ok(shared()),
        ProxyUser::Deny => match shared() {
            Some(reason) => Err(InjectError::ProxyUser(reason)),
            None => Ok(None),
        },
    }
}

/// A proxy that the user wrote into one list of containers goes where the overlay has it, so that
/// the pod does not end up with two.
fn move_proxy(draft: &mut Draft, overlay: &Value) {
    let (Some((to, _)), Some((from, index))) =
        (postprocess::find_proxy(overlay), postprocess::find_proxy(draft.value()))
    else {
        return;
    };
    if from == to {
        return;
    }
    let mut proxy = Value::Null;
    let taken: Result<(), std::convert::Infallible> = draft.edit(|pod| {
        let Some(list) = pod["spec"][from].as_array_mut() else {
            return Ok(Change::Kept);
        };
        let before = list.len();
        proxy = list.remove(index);
        let gone = BTreeMap::from([(index, proxy.clone())]);
        if to == CONTAINERS {
            // Among the containers it is no native sidecar.
            proxy.as_object_mut().map(|proxy| proxy.remove("restartPolicy"));
        }
        let origins = (0..before).filter(|place| *place != index).map(Some).collect();
        let change = Change::list(origins, gone, BTreeMap::new());
        Ok(Change::member("spec", Change::member(from, change)))
    });
    match taken {
        Ok(()) => draft.push(&["spec".into(), to.into()], proxy),
        Err(never) => match never {},
    }
}
