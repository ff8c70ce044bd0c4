//! The way through: a pod in, an [`Injection`] out.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::advice;
use crate::change::{Change, Draft};
use crate::decision::why_not;
use crate::form;
pub use crate::inject_error::InjectError;
use crate::merge::{MergeError, merge, merge_list};
use crate::overlay::PROXY;
use crate::overrides;
use crate::own_volumes;
use crate::patch::{self, Patch};
use crate::plan::Plan;
use crate::postprocess::{
    self, CONTAINERS, INIT_CONTAINERS, metadata, order, path_env, probes, prometheus,
};
use crate::proxy_user;
use crate::reason::Reason;
use crate::resources;
use crate::settings::Settings;
use crate::settings::annotations::key;
pub use crate::target::Target;

/// Injects the pod, or says why not.
///
/// Pure: the same settings and target always give the same outcome, byte for byte.
pub fn inject(settings: &Settings, target: Target<'_>) -> Result<Outcome, InjectError> {
    form::check(&target.pod)?;
    if let Some(reason) = why_not(settings, target.rules, &target.pod, target.namespace) {
        return Ok(Outcome::Skipped { reason, advice: advice::of_keys(&target.pod) });
    }
    let plan = Plan::of(settings, &target)?;
    let injection = carry_out(plan, target.pod)?;
    Ok(Outcome::Injected(Box::new(injection)))
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The pod was injected.
    Injected(Box<Injection>),
    /// The pod stays as it is.
    Skipped {
        /// Why.
        reason: Reason,
        /// What else the user should know: of a switch that says nothing, and of keys that look
        /// like one of the injector's.
        advice: Vec<Reason>,
    },
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
fn carry_out(plan: Plan<'_>, pod: Value) -> Result<Injection, InjectError> {
    let mut draft = Draft::new(pod);
    for (template, overlay) in plan.overlays {
        move_proxy(&mut draft, &overlay)
            .and_then(|()| draft.edit(|pod| merge(pod, overlay)))
            .map_err(|source| InjectError::Merge { template, source })?;
    }
    let Plan { settings, injected, variables, tproxy, reinjected, .. } = plan;
    let settings = &*settings;
    overrides::reapply(&mut draft, plan.written, tproxy, reinjected)
        .map_err(|source| InjectError::Merge { template: key::OVERRIDES.to_owned(), source })?;
    path_env::apply(&mut draft, &variables, reinjected);
    prometheus::merge(&mut draft, &settings.mesh).map_err(InjectError::Annotations)?;
    prometheus::secure_port(&mut draft);
    let mut warnings = plan.advice;
    warnings.extend(probes::rewrite(&mut draft, settings, reinjected));
    warnings.extend(metadata::apply(
        &mut draft,
        path_env::network(&variables),
        &metadata::status(&injected, settings.process.revision_name()),
        &settings.inject.injected_annotations,
    ));
    order::containers(&mut draft, plan.hold_application);
    order::proxy_env(&mut draft, &variables);
    let (pod, change) = draft.finish();
    warnings.extend(own_volumes::missing(&pod));
    warnings.extend(resources::beyond_pod(&pod));
    let rule = settings.values.outrigger.proxy_user;
    let shared = proxy_user::judge(rule, &pod, &injected).map_err(InjectError::ProxyUser)?;
    warnings.extend(shared);
    warnings.extend(plan.config_advice);
    Ok(Injection { pod, change, warnings })
}

/// A proxy that stands in the one list of containers goes where the overlay has it, so that the pod
/// does not end up with two. Where one stands there already, as in pods that Istio gave two
/// (`sidecar,spire`), they become one.
fn move_proxy(draft: &mut Draft, overlay: &Value) -> Result<(), MergeError> {
    let Some((to, _)) = postprocess::find_proxy(overlay) else { return Ok(()) };
    let from = if to == CONTAINERS { INIT_CONTAINERS } else { CONTAINERS };
    let Some(index) = postprocess::find(draft.value(), from, PROXY) else { return Ok(()) };
    let mut proxy = Value::Null;
    draft.edit(|pod| {
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
    })?;
    if postprocess::find(draft.value(), to, PROXY).is_none() {
        draft.push(&["spec".into(), to.into()], proxy);
        return Ok(());
    }
    draft.edit(|pod| {
        let change = merge_list(to, &mut pod["spec"][to], vec![proxy])?;
        Ok(Change::member("spec", Change::member(to, change)))
    })
}
