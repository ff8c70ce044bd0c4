//! Sidecar injection as a pure function.

pub mod check;
pub mod cluster_state;
pub(crate) mod computed_env;
pub(crate) mod error;
pub(crate) mod limits;
mod original_pod;
mod plan;
pub mod policy;
pub mod postprocess;
pub mod prepare;
pub mod reinject;
mod request;

use reason::Reason;
use serde_json::Value;

pub use self::error::InjectError;
use self::plan::Plan;
use self::policy::why_not;
use self::postprocess::{capture_request, metadata, order, probes, prometheus};
use self::reinject::{overrides, relocate_proxy};
pub use self::request::Target;
use crate::budget;
use crate::json::change::{Change, Draft};
use crate::json::patch::{self, Patch};
use crate::kubernetes::api_defaults;
use crate::kubernetes::merge::{merge, settle};
use crate::settings::Settings;
use crate::settings::outrigger::{CaptureRequest, RecordOriginal};

/// Injects the pod, or returns the reason why not.
///
/// Pure: the same settings and target always give the same outcome, byte for byte.
pub fn inject(settings: &Settings, target: Target<'_>) -> Result<InjectionOutcome, InjectError> {
    check::pod::validate(&target.pod)?;
    if let Some(reason) = why_not(settings, target.rules, &target.pod, target.namespace) {
        return Ok(InjectionOutcome::Skipped {
            reason,
            warnings: check::annotations::key_warnings(&target.pod),
        });
    }
    limits::check(&target.pod)?;
    let injection = budget::within(|| with_record(settings, target))?;
    Ok(InjectionOutcome::Injected(Box::new(injection)))
}

/// Result of [`inject`].
#[derive(Clone, Debug)]
pub enum InjectionOutcome {
    /// The pod was injected.
    Injected(Box<Injection>),
    /// The pod stays unchanged.
    Skipped {
        /// The reason for the decision.
        reason: Reason,
        /// Further warnings: an `inject` label or annotation without effect, and keys that look
        /// like one of the injector's.
        warnings: Vec<Reason>,
    },
}

/// An injected pod with its changes and warnings.
#[derive(Clone, Debug)]
pub struct Injection {
    /// The pod after injection.
    pub pod: Value,
    /// The names of the templates in the order of their merge.
    pub templates: Vec<String>,
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

/// Injects the pod, and records what the injected one does not show.
fn with_record(settings: &Settings, target: Target<'_>) -> Result<Injection, InjectError> {
    let plan = Plan::new(settings, &target)?;
    let reinjected = plan.reinjected;
    let is_recorded = settings.values.outrigger.record_original == RecordOriginal::Write;
    let name = is_recorded.then(|| original_pod::workload_name(&target));
    let injection = carry_out(plan, target.pod)?;
    Ok(match name {
        Some(name) => original_pod::record_in(injection, reinjected, &name),
        None => injection,
    })
}

/// Merges the overlays into the pod and postprocesses it.
fn carry_out(plan: Plan<'_>, pod: Value) -> Result<Injection, InjectError> {
    let computed = if plan.reinjected { computed_env::computed_of(&pod) } else { Vec::new() };
    let mut draft = Draft::new(pod);
    let templates = plan.overlays.iter().map(|(template, _)| template.clone()).collect();
    for (template, mut overlay) in plan.overlays {
        budget::spend(1)?;
        settle(&mut overlay, draft.value());
        if plan.reinjected {
            prepare::order::overlay_containers(&mut overlay, draft.value());
        }
        relocate_proxy::put_in_place(&mut draft, &overlay)
            .and_then(|()| draft.edit(|pod| merge(pod, overlay)))
            .map_err(|problem| InjectError::Merge { template, problem })?;
    }
    let Plan { settings, injected, variables, tproxy, reinjected, .. } = plan;
    let settings = &*settings;
    let kept = overrides::reapply(&mut draft, plan.written, tproxy, reinjected)
        .map_err(InjectError::UserContainer)?;
    computed_env::put_back_computed(&mut draft, computed);
    postprocess::path_env::apply(&mut draft, &variables, reinjected);
    prometheus::merge(&mut draft, &settings.mesh, reinjected).map_err(InjectError::Annotations)?;
    prometheus::secure_port(&mut draft);
    let mut warnings = plan.warnings;
    warnings.extend(kept);
    warnings.extend(probes::rewrite(&mut draft, settings, reinjected));
    warnings.extend(metadata::apply(
        &mut draft,
        prepare::path_env::network(&variables),
        &metadata::status(&injected, settings.process.revision_name()),
        &settings.inject.injected_annotations,
    ));
    order::containers(&mut draft, &injected, plan.hold_application);
    order::proxy_env(&mut draft, &variables);
    if settings.values.outrigger.capture_request == CaptureRequest::Write {
        capture_request::apply(&mut draft);
    }
    let (mut pod, mut change) = draft.finish();
    if reinjected {
        api_defaults::keep(&mut pod, &mut change);
    }
    warnings.extend(check::volumes::missing(&pod));
    warnings.extend(check::resources::beyond_pod(&pod));
    let rule = settings.values.outrigger.proxy_user;
    let shared = check::proxy_user::judge(rule, &pod, &injected).map_err(InjectError::ProxyUser)?;
    warnings.extend(shared);
    warnings.extend(plan.config_warnings);
    Ok(Injection { pod, templates, change, warnings })
}
