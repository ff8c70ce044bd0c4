//! Sidecar injection as a pure function.

use serde_json::Value;

use crate::advice;
use crate::api_defaults;
use crate::budget;
use crate::change::{Change, Draft};
use crate::decision::why_not;
use crate::form;
pub use crate::inject_error::InjectError;
use crate::limits;
use crate::merge::{merge, settle};
use crate::moved_proxy;
use crate::overrides;
use crate::own_volumes;
use crate::patch::{self, Patch};
use crate::plan::Plan;
use crate::postprocess::{self, metadata, order, path_env, probes, prometheus};
use crate::proxy_user;
use crate::reason::Reason;
use crate::resources;
use crate::settings::Settings;
pub use crate::target::Target;

/// Injects the pod, or returns the reason why not.
///
/// Pure: the same settings and target always give the same outcome, byte for byte.
pub fn inject(settings: &Settings, target: Target<'_>) -> Result<Outcome, InjectError> {
    form::check(&target.pod)?;
    if let Some(reason) = why_not(settings, target.rules, &target.pod, target.namespace) {
        return Ok(Outcome::Skipped { reason, advice: advice::of_keys(&target.pod) });
    }
    limits::check(&target.pod)?;
    let injection = budget::within(|| carry_out(Plan::of(settings, &target)?, target.pod))?;
    Ok(Outcome::Injected(Box::new(injection)))
}

/// Result of [`inject`].
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The pod was injected.
    Injected(Box<Injection>),
    /// The pod stays unchanged.
    Skipped {
        /// The reason for the decision.
        reason: Reason,
        /// Further warnings: an `inject` label or annotation without effect, and keys that look
        /// like one of the injector's.
        advice: Vec<Reason>,
    },
}

/// An injected pod with its changes and warnings.
#[derive(Clone, Debug)]
pub struct Injection {
    /// The pod after injection.
    pub pod: Value,
    /// The changes to the target's pod.
    pub change: Change,
    /// Warnings for the user.
    pub warnings: Vec<Reason>,
}

impl Injection {
    /// Returns the RFC 6902 patch from the target's pod to the injected one.
    pub fn patch(&self) -> Patch<'_> {
        patch::write(&self.pod, &self.change)
    }
}

/// Merges the overlays into the pod and postprocesses it.
fn carry_out(plan: Plan<'_>, pod: Value) -> Result<Injection, InjectError> {
    let computed = if plan.reinjected { postprocess::computed_of(&pod) } else { Vec::new() };
    let mut draft = Draft::new(pod);
    for (template, mut overlay) in plan.overlays {
        budget::spend(1)?;
        settle(&mut overlay, draft.value());
        if plan.reinjected {
            order::overlay_containers(&mut overlay, draft.value());
        }
        moved_proxy::put_in_place(&mut draft, &overlay)
            .and_then(|()| draft.edit(|pod| merge(pod, overlay)))
            .map_err(|problem| InjectError::Merge { template, problem })?;
    }
    let Plan { settings, injected, variables, tproxy, reinjected, .. } = plan;
    let settings = &*settings;
    let kept = overrides::reapply(&mut draft, plan.written, tproxy, reinjected)
        .map_err(InjectError::Own)?;
    postprocess::put_back_computed(&mut draft, computed);
    path_env::apply(&mut draft, &variables, reinjected);
    prometheus::merge(&mut draft, &settings.mesh, reinjected).map_err(InjectError::Annotations)?;
    prometheus::secure_port(&mut draft);
    let mut warnings = plan.advice;
    warnings.extend(kept);
    warnings.extend(probes::rewrite(&mut draft, settings, reinjected));
    warnings.extend(metadata::apply(
        &mut draft,
        path_env::network(&variables),
        &metadata::status(&injected, settings.process.revision_name()),
        &settings.inject.injected_annotations,
    ));
    order::containers(&mut draft, &injected, plan.hold_application);
    order::proxy_env(&mut draft, &variables);
    let (mut pod, mut change) = draft.finish();
    if reinjected {
        api_defaults::keep(&mut pod, &mut change);
    }
    warnings.extend(own_volumes::missing(&pod));
    warnings.extend(resources::beyond_pod(&pod));
    let rule = settings.values.outrigger.proxy_user;
    let shared = proxy_user::judge(rule, &pod, &injected).map_err(InjectError::ProxyUser)?;
    warnings.extend(shared);
    warnings.extend(plan.config_advice);
    Ok(Injection { pod, change, warnings })
}
