//! Plan of an injection: the overlay and its consequences.

use std::borrow::Cow;

use reason::Reason;
use serde_json::Value;

use super::error::InjectError;
use super::policy::Rules;
use super::postprocess::prometheus;
use super::prepare::path_env::{self, Variables};
use super::prepare::proxy_config::proxy_config;
use super::prepare::{Overlays, injected, overlays};
use super::reinject::relocate_proxy;
use super::reinject::status::{self, InjectionStatus};
use super::reinject::user_containers::{UserContainerOrigin, UserContainers};
use super::request::Target;
use super::{check, limits};
use crate::istio::proxy_identity::Identity;
use crate::kubernetes::pod_schema;
use crate::kubernetes::workload::Workload;
use crate::overlay::context::Context;
use crate::settings::Settings;
use crate::settings::annotations::{AnnotationError, Annotations, key};

/// All that injection takes from the pod as the user wrote it. It stands by itself, so that the
/// pod can then be changed without a copy of it.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    /// The settings that count for this pod.
    pub(crate) settings: Cow<'a, Settings>,
    /// Overlay of the pod.
    pub(crate) overlays: Overlays,
    /// Names of the objects that the overlays add.
    pub(crate) injected: Value,
    /// The user's own containers of injected names.
    pub(crate) written: UserContainers,
    /// The proxy's environment from the webhook's path.
    pub(crate) variables: Variables,
    /// True if the application waits for the proxy.
    pub(crate) hold_application: bool,
    /// True if inbound connections are captured by TPROXY.
    pub(crate) tproxy: bool,
    /// True if the pod was injected before.
    pub(crate) reinjected: bool,
    /// Warnings about labels, annotations and volumes.
    pub(crate) warnings: Vec<Reason>,
    /// Warnings about the proxy's configuration.
    pub(crate) config_warnings: Vec<Reason>,
}

impl<'a> Plan<'a> {
    /// Makes the overlays of a pod and collects the rest.
    pub(crate) fn new(settings: &'a Settings, target: &Target<'_>) -> Result<Self, InjectError> {
        let pod = &target.pod;
        let (annotations, mut errors) = valid(settings, pod);
        let own = annotations.get(key::PROXY_CONFIG);
        let own = own.filter(|_| errors.iter().all(|error| error.key != key::PROXY_CONFIG));
        let (proxy_config, config_warnings) = proxy_config(settings, target, own);
        let own = (target.rules == Rules::Manual).then_some(&proxy_config);
        let effective = settings.with_proxy_config(own);
        let settings = &*effective;
        // Which ports can be scraped, the proxy's configuration decides.
        let entries = pod["metadata"]["annotations"].as_object().into_iter();
        errors.extend(entries.flat_map(|own| prometheus::problems(own, &settings.mesh)));
        errors.extend(check::templates::too_many(annotations));
        if !errors.is_empty() {
            errors.extend(check::templates::problems(settings, annotations));
            return Err(InjectError::Annotations(errors));
        }
        let workload = target.workload.clone();
        let workload = workload.unwrap_or_else(|| Workload::from_pod(pod, target.namespace));
        let earlier = InjectionStatus::from_pod(pod);
        let status_port = settings.mesh.default_config.status_port();
        let native_sidecars = target.cluster.native_sidecars;
        let native_sidecars = native_sidecars.unwrap_or(settings.process.native_sidecars);
        let context = Context {
            settings,
            pod: &status::without(pod, earlier.as_ref(), status_port),
            annotations,
            namespace: if target.rules == Rules::Admission { target.namespace } else { "" },
            workload: &workload,
            proxy_config: &proxy_config,
            identity: identity(settings, target),
            native_sidecar: native_sidecar(native_sidecars, annotations),
            native_sidecars,
        };
        let variables = path_env::variables(&context, target.path_env);
        let (overlays, own_volumes) = overlays(&context, pod, &variables)?;
        let mut injected = injected(&overlays)?;
        if let Some(earlier) = &earlier {
            earlier.name_left_ones(&mut injected, pod, context.pod);
        }
        check::pod::validate_names(pod, &injected, earlier.is_some())?;
        let mut warnings = check::annotations::pod_warnings(pod, annotations);
        let is_sidecar = overlays.iter().any(|(template, _)| template == "sidecar");
        let ineffective = check::ineffective::warnings(&context, is_sidecar);
        let hold_application = proxy_config.hold_application_until_proxy_starts()
            || settings.values.global.proxy.hold_application_until_proxy_starts.on();
        // A previous injection has given these warnings. The volumes and annotations that it added
        // look the same.
        let replaced = check::pod::replaced_sysctls(pod, &overlays);
        let first = own_volumes.into_iter().chain(replaced).chain(ineffective);
        warnings.extend(first.filter(|_| earlier.is_none()));
        warnings.extend(check::other_mesh::warning(pod));
        warnings.extend(check::hold::canceled(&context, hold_application && is_sidecar));
        let openshift = settings.process.openshift;
        let revision = settings.process.revision_name();
        let keeps_its_own = earlier.as_ref().is_some_and(|earlier| {
            relocate_proxy::keeps_its_own(pod, earlier, &overlays, revision)
        });
        let earlier = earlier.as_ref();
        let written =
            UserContainers::from_pod(pod, &injected, earlier, keeps_its_own, &variables, openshift);
        recordable(&written)?;
        Ok(Self {
            written,
            hold_application,
            tproxy: context.interception_mode() == "TPROXY",
            reinjected: earlier.is_some(),
            overlays,
            injected,
            variables,
            warnings,
            config_warnings,
            settings: effective,
        })
    }
}

/// Refuses containers that the annotation of overrides could not say again: a file may hold what
/// no API server takes.
fn recordable(written: &UserContainers) -> Result<(), InjectError> {
    written.own.iter().try_for_each(|own| limits::check_recorded(&own.fields))?;
    let misfit =
        written.own.iter().filter(|own| own.from != UserContainerOrigin::Record).find_map(|own| {
            pod_schema::in_json(pod_schema::PodList::Container, &own.fields, own.name())
        });
    misfit.map_or(Ok(()), |misfit| Err(InjectError::Pod(format!("container {misfit}"))))
}

/// The pod's annotations, and what is wrong with them by themselves.
fn valid<'a>(settings: &Settings, pod: &'a Value) -> (Annotations<'a>, Vec<AnnotationError>) {
    let (annotations, mut errors) = Annotations::from_pod(pod);
    // Nothing else reads it.
    let datadog = &*settings.values.global.proxy.tracer == "datadog";
    errors.retain(|error| datadog || error.key != key::DATADOG_ENV);
    (annotations, errors)
}

/// The usual user and group, or what `OpenShift` allows in the namespace.
fn identity(settings: &Settings, target: &Target<'_>) -> Identity {
    let annotations = target.cluster.namespace_annotations;
    let annotations = annotations.filter(|_| settings.process.openshift);
    annotations.map(Identity::from_namespace).unwrap_or_default()
}

/// The pod's own word, else the cluster's or the process's.
fn native_sidecar(default: bool, annotations: Annotations<'_>) -> bool {
    match annotations.or(key::NATIVE_SIDECAR, "") {
        "" => default,
        word => word != "false",
    }
}
