//! Plan of an injection: the overlays and everything else computed before the pod is changed.

use std::borrow::Cow;

use serde_json::Value;

use crate::advice;
use crate::budget;
use crate::decision::Rules;
use crate::earlier::{self, Earlier};
use crate::form;
use crate::inject_error::InjectError;
use crate::injected::outline;
use crate::limits;
use crate::merge::merge;
use crate::moved_proxy;
use crate::overlay::identity::Identity;
use crate::overlay::{self, Context, PROXY, fit};
use crate::own_volumes;
use crate::postprocess::path_env::{self, Variables};
use crate::postprocess::{self, CONTAINERS, INIT_CONTAINERS, order, prometheus};
use crate::reason::Reason;
use crate::requested;
use crate::resources;
use crate::settings::Settings;
use crate::settings::annotations::{AnnotationError, Annotations, key};
use crate::settings::notice::LAST_COUNTS;
use crate::settings::proxy_config::ProxyConfig;
use crate::settings::proxy_configs::Layers;
use crate::target::Target;
use crate::workload::Workload;
use crate::written::{From, Written};
use crate::yaml;

/// Overlays with their names, in merge order.
type Overlays = Vec<(String, Value)>;

/// All input that injection takes from the unchanged pod. It borrows nothing from the pod, which
/// can then be changed without a copy.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    /// The effective settings for this pod.
    pub(crate) settings: Cow<'a, Settings>,
    /// The overlays to merge.
    pub(crate) overlays: Overlays,
    /// Names of everything that the overlays add.
    pub(crate) injected: Value,
    /// User-supplied fields of injected containers.
    pub(crate) written: Written,
    /// Environment of the proxy from the webhook's path.
    pub(crate) variables: Variables,
    /// True if the application waits for the proxy.
    pub(crate) hold_application: bool,
    /// True if TPROXY captures inbound connections.
    pub(crate) tproxy: bool,
    /// True if the pod was injected before.
    pub(crate) reinjected: bool,
    /// Warnings about labels, annotations and volumes.
    pub(crate) advice: Vec<Reason>,
    /// Warnings about the proxy's configuration.
    pub(crate) config_advice: Vec<Reason>,
}

impl<'a> Plan<'a> {
    /// Builds the overlays of a pod and collects the rest of the plan.
    pub(crate) fn of(settings: &'a Settings, target: &Target<'_>) -> Result<Self, InjectError> {
        let pod = &target.pod;
        let (annotations, mut errors) = valid(settings, pod);
        let own = annotations.get(key::PROXY_CONFIG);
        let own = own.filter(|_| errors.iter().all(|error| error.key != key::PROXY_CONFIG));
        let (proxy_config, config_advice) = proxy_config(settings, target, own);
        let own = (target.rules == Rules::Manual).then_some(&proxy_config);
        let effective = settings.with_proxy_config(own);
        let settings = &*effective;
        // The proxy's configuration decides which ports can be scraped.
        let entries = pod["metadata"]["annotations"].as_object().into_iter();
        errors.extend(entries.flat_map(|own| prometheus::problems(own, &settings.mesh)));
        errors.extend(requested::too_many(annotations));
        if !errors.is_empty() {
            errors.extend(requested::problems(settings, annotations));
            return Err(InjectError::Annotations(errors));
        }
        let workload = target.workload.clone();
        let workload = workload.unwrap_or_else(|| Workload::of_pod(pod, target.namespace));
        let earlier = Earlier::of_pod(pod);
        let status_port = settings.mesh.default_config.status_port();
        let native_sidecars = target.cluster.native_sidecars;
        let native_sidecars = native_sidecars.unwrap_or(settings.process.native_sidecars);
        let context = Context {
            settings,
            pod: &earlier::without(pod, earlier.as_ref(), status_port),
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
        form::check_names(pod, &injected, earlier.is_some())?;
        let mut advice = advice::of_pod(pod, annotations);
        // The previous injection reported it, and its own volumes look like the user's.
        advice.extend(own_volumes.into_iter().filter(|_| earlier.is_none()));
        let openshift = settings.process.openshift;
        let revision = settings.process.revision_name();
        let keeps_its_own = earlier
            .as_ref()
            .is_some_and(|earlier| moved_proxy::keeps_its_own(pod, earlier, &overlays, revision));
        let earlier = earlier.as_ref();
        let written =
            Written::of_pod(pod, &injected, earlier, keeps_its_own, &variables, openshift);
        recordable(&written)?;
        Ok(Self {
            written,
            hold_application: proxy_config.hold_application_until_proxy_starts()
                || settings.values.global.proxy.hold_application_until_proxy_starts.on(),
            tproxy: context.interception_mode() == "TPROXY",
            reinjected: earlier.is_some(),
            overlays,
            injected,
            variables,
            advice,
            config_advice,
            settings: effective,
        })
    }
}

/// Rejects containers that cannot be recorded in the annotation of overrides. A file may hold
/// values that no API server accepts.
fn recordable(written: &Written) -> Result<(), InjectError> {
    written.own.iter().try_for_each(|own| limits::check_recorded(&own.fields))?;
    let misfit = written
        .own
        .iter()
        .filter(|own| own.from != From::Record)
        .find_map(|own| fit::in_json(fit::Place::Container, &own.fields, own.name()));
    misfit.map_or(Ok(()), |misfit| Err(InjectError::Pod(format!("container {misfit}"))))
}

/// Returns the pod's annotations and their validation errors.
fn valid<'a>(settings: &Settings, pod: &'a Value) -> (Annotations<'a>, Vec<AnnotationError>) {
    let (annotations, mut errors) = Annotations::of_pod(pod);
    // Only the Datadog tracer reads this annotation.
    let datadog = &*settings.values.global.proxy.tracer == "datadog";
    errors.retain(|error| datadog || error.key != key::DATADOG_ENV);
    (annotations, errors)
}

/// Returns the overlays of the pod in merge order, and warnings about the pod's own volumes.
fn overlays(
    context: &Context<'_>,
    pod: &Value,
    variables: &Variables,
) -> Result<(Overlays, Vec<Reason>), InjectError> {
    let mut overlays = Vec::new();
    for template in requested::templates(&context.settings.inject, context.annotations) {
        budget::spend(1)?;
        let overlay = overlay::make(&template, context).map_err(InjectError::Overlay)?;
        overlays.push((template, overlay));
    }
    unite_proxy(&mut overlays);
    let mut told = Vec::new();
    for (_, overlay) in &mut overlays {
        order::overlay_env(overlay, variables, pod);
        resources::adjust(overlay, context);
        told.extend(own_volumes::settle(overlay, pod));
    }
    Ok((overlays, told))
}

/// Returns the names of everything that the overlays add.
fn injected(overlays: &[(String, Value)]) -> Result<Value, InjectError> {
    let mut injected = Value::Object(serde_json::Map::new());
    for (template, overlay) in overlays {
        merge(&mut injected, outline(overlay))
            .map_err(|problem| InjectError::Merge { template: template.clone(), problem })?;
    }
    Ok(injected)
}

/// Moves the proxy of all overlays into one list, if any overlay has it in `containers`. The list
/// is `initContainers` if an overlay makes the proxy a native sidecar, else `containers`.
fn unite_proxy(overlays: &mut [(String, Value)]) {
    let is_native = |overlay: &Value| {
        let proxy = postprocess::find(overlay, INIT_CONTAINERS, PROXY);
        proxy.is_some_and(|at| overlay["spec"][INIT_CONTAINERS][at]["restartPolicy"] == "Always")
    };
    let among_containers =
        |overlay: &Value| postprocess::find(overlay, CONTAINERS, PROXY).is_some();
    if !overlays.iter().any(|(_, overlay)| among_containers(overlay)) {
        return;
    }
    let native = overlays.iter().any(|(_, overlay)| is_native(overlay));
    let (from, to) =
        if native { (CONTAINERS, INIT_CONTAINERS) } else { (INIT_CONTAINERS, CONTAINERS) };
    for (_, overlay) in overlays {
        move_proxy(overlay, from, to);
    }
}

/// Moves a proxy from one list of containers to the other.
fn move_proxy(overlay: &mut Value, from: &str, to: &str) {
    let Some(index) = postprocess::find(overlay, from, PROXY) else { return };
    let Some(containers) = overlay["spec"][from].as_array_mut() else { return };
    let proxy = containers.remove(index);
    match overlay["spec"][to].as_array_mut() {
        Some(list) => list.push(proxy),
        None => overlay["spec"][to] = Value::Array(vec![proxy]),
    }
}

/// Returns the proxy configuration with all of the pod's layers, and warnings about the pod's own
/// layer. The layer is valid YAML.
fn proxy_config(
    settings: &Settings,
    target: &Target<'_>,
    annotation: Option<&str>,
) -> (ProxyConfig, Vec<Reason>) {
    let annotation = annotation.and_then(|text| yaml::parse_first(text).ok());
    let (annotation, passed_over) = annotation.unzip();
    let layers = Layers {
        mesh: &settings.mesh,
        resources: target.cluster.proxy_configs,
        namespace: target.namespace,
        labels: target.pod["metadata"]["labels"].as_object(),
        annotation: annotation.as_ref().filter(|layer| !layer.is_null()),
    };
    let config = match target.rules {
        Rules::Admission => layers.for_admission(),
        Rules::Manual => layers.for_a_file(),
    };
    let mut advice = layers.advice(&config, target.rules == Rules::Manual);
    advice.extend(passed_over.flatten().map(|error| {
        let message = format!("annotation {}: {error}; {LAST_COUNTS}", key::PROXY_CONFIG);
        Reason::new("repeated_in_proxy_config", message)
    }));
    advice.extend(annotation.iter().flat_map(|layer| no_text(layer, &config)));
    (config, advice)
}

/// Warns about entries of the pod's `proxyMetadata` that YAML parses as numbers or booleans.
fn no_text(layer: &Value, config: &ProxyConfig) -> Vec<Reason> {
    let names = ["proxyMetadata", "proxy_metadata"].into_iter();
    let entries = names.filter_map(|name| layer.get(name)?.as_object()).flatten();
    let odd = entries.filter(|(_, value)| value.is_number() || value.is_boolean());
    odd.map(|(name, value)| {
        let kind = if value.is_number() { "a number" } else { "true or false" };
        let text = config.metadata(name).unwrap_or_default();
        let message = format!(
            "annotation {}: proxyMetadata.{name} is {kind} to YAML; the text {text:?} counts",
            key::PROXY_CONFIG
        );
        Reason::new("no_text_in_proxy_metadata", message)
            .with_hint("put it between quotes, so that it stays as it is written")
    })
    .collect()
}

/// Returns the default user and group, or on `OpenShift` those of the namespace.
fn identity(settings: &Settings, target: &Target<'_>) -> Identity {
    let annotations = target.cluster.namespace_annotations;
    let annotations = annotations.filter(|_| settings.process.openshift);
    annotations.map(Identity::of_namespace).unwrap_or_default()
}

/// Returns the pod's choice, or else the default of cluster or process.
fn native_sidecar(default: bool, annotations: Annotations<'_>) -> bool {
    match annotations.or(key::NATIVE_SIDECAR, "") {
        "" => default,
        word => word != "false",
    }
}
