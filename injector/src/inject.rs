//! The way through: a pod in, an [`Injection`] out.

use serde_json::Value;

use crate::advice;
use crate::change::{Change, Draft};
use crate::cluster_facts::ClusterFacts;
use crate::decision::{Rules, why_not};
use crate::earlier::{self, Earlier};
use crate::injected::outline;
use crate::merge::{MergeError, merge, merge_list};
use crate::overlay::identity::Identity;
use crate::overlay::{self, Context, OverlayError, PROXY};
use crate::overrides;
use crate::own_volumes;
use crate::patch;
use crate::postprocess::{
    self, CONTAINERS, INIT_CONTAINERS, metadata, order, path_env, probes, prometheus,
};
use crate::proxy_user;
use crate::reason::Reason;
use crate::requested;
use crate::resources;
use crate::settings::Settings;
use crate::settings::annotations::{AnnotationError, Annotations, key};
use crate::settings::proxy_config::ProxyConfig;
use crate::settings::proxy_configs::Layers;
use crate::workload::Workload;
use crate::yaml;

/// Injects the pod, or says why not.
///
/// Pure: the same settings and target always give the same outcome, byte for byte.
pub fn inject(settings: &Settings, target: &Target<'_>) -> Result<Outcome, InjectError> {
    check_form(target.pod)?;
    if let Some(reason) = why_not(settings, target.rules, target.pod, target.namespace) {
        return Ok(Outcome::Skipped { reason, advice: advice::of_keys(target.pod) });
    }
    let annotations = annotations(settings, target)?;
    let (proxy_config, advice) = proxy_config(settings, target, annotations);
    let own = (target.rules == Rules::Manual).then_some(&proxy_config);
    let settings = &*settings.with_proxy_config(own);
    let workload = target.workload.clone();
    let workload = workload.unwrap_or_else(|| Workload::of_pod(target.pod, target.namespace));
    let earlier = Earlier::of_pod(target.pod);
    let status_port = settings.mesh.default_config.status_port();
    let native_sidecars = target.cluster.native_sidecars;
    let native_sidecars = native_sidecars.unwrap_or(settings.process.native_sidecars);
    let context = Context {
        settings,
        pod: &earlier::without(target.pod, earlier.as_ref(), status_port),
        annotations,
        namespace: if target.rules == Rules::Admission { target.namespace } else { "" },
        workload: &workload,
        proxy_config: &proxy_config,
        identity: identity(settings, target),
        native_sidecar: native_sidecar(native_sidecars, annotations),
        native_sidecars,
    };
    let mut outcome = inject_into(target, &context, earlier.as_ref())?;
    if let Outcome::Injected(injection) = &mut outcome {
        injection.warnings.extend(advice);
    }
    Ok(outcome)
}

/// What is to be injected.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// The pod (or pod template): an object with `metadata` and `spec`.
    pub pod: &'a Value,
    /// The namespace of the request, or of the workload in a file; empty where it is not known.
    pub namespace: &'a str,
    /// What is known of the cluster.
    pub cluster: ClusterFacts<'a>,
    /// The workload, where the caller knows it; otherwise it is inferred from the pod.
    pub workload: Option<Workload>,
    /// Environment for the proxy from the webhook's path, in any order
    /// (`/inject/cluster/c1/net/n1`).
    pub path_env: &'a [(String, String)],
    /// Which rules decide.
    pub rules: Rules,
}

impl<'a> Target<'a> {
    /// A new pod of a namespace, decided as at admission; nothing else is known.
    pub fn at_admission(pod: &'a Value, namespace: &'a str) -> Self {
        Self {
            pod,
            namespace,
            cluster: ClusterFacts::default(),
            workload: None,
            path_env: &[],
            rules: Rules::Admission,
        }
    }
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
    /// RFC 6902: turns the target's pod into `pod`.
    pub patch: json_patch::Patch,
    /// What the user should know.
    pub warnings: Vec<Reason>,
}

/// Why a pod cannot be injected. Its message names the annotation or setting at fault.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// One or more annotations of the pod are wrong.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Annotations(Vec<AnnotationError>),
    /// An overlay and the pod do not go together.
    #[error("template {template:?}: {source}")]
    Merge {
        /// The overlay's name.
        template: String,
        /// Why not.
        source: MergeError,
    },
    /// An overlay cannot be made.
    #[error(transparent)]
    Overlay(OverlayError),
    /// The pod itself has a form that cannot be injected.
    #[error("pod: {0}")]
    Pod(String),
    /// A container runs as the proxy's user, and the settings refuse that.
    #[error("pod: {0}")]
    ProxyUser(Reason),
}

impl InjectError {
    /// The word for logs and metrics, as [`Reason::word`].
    pub fn word(&self) -> &'static str {
        match self {
            Self::Annotations(_) => "bad_annotation",
            Self::Merge { .. } => "merge_failed",
            Self::Overlay(OverlayError::NotFound { .. }) => "unknown_template",
            Self::Overlay(_) => "template_failed",
            Self::Pod(_) => "bad_pod",
            Self::ProxyUser(reason) => reason.word(),
        }
    }
}

fn inject_into(
    target: &Target<'_>,
    context: &Context<'_>,
    earlier: Option<&Earlier>,
) -> Result<Outcome, InjectError> {
    let settings = context.settings;
    let mut draft = Draft::new(target.pod.clone());
    let variables = path_env::variables(context, target.path_env);
    let (injected, own_volumes) = overlay_all(&mut draft, target.pod, context, &variables)?;
    overrides::reapply(&mut draft, context, target.pod, &injected, earlier)
        .map_err(|source| InjectError::Merge { template: key::OVERRIDES.to_owned(), source })?;
    path_env::apply(&mut draft, &variables);
    prometheus::merge(&mut draft, context).map_err(InjectError::Annotations)?;
    prometheus::secure_port(&mut draft);
    let mut warnings = advice::of_pod(target.pod, context.annotations);
    // An earlier injection has told it, and its own volumes look the same.
    warnings.extend(own_volumes.into_iter().filter(|_| earlier.is_none()));
    warnings.extend(probes::rewrite(&mut draft, context, earlier.is_some()));
    warnings.extend(metadata::apply(
        &mut draft,
        path_env::network(&variables),
        &metadata::status(&injected, settings.process.revision_name()),
        &settings.inject.injected_annotations,
    ));
    let hold = context.proxy_config.hold_application_until_proxy_starts()
        || settings.values.global.proxy.hold_application_until_proxy_starts.on();
    order::containers(&mut draft, hold);
    order::proxy_env(&mut draft, &variables);
    let (pod, change) = draft.finish();
    if let Some(error) = own_volumes::missing(&pod, context.annotations) {
        return Err(InjectError::Annotations(vec![error]));
    }
    warnings.extend(resources::beyond_pod(&pod));
    let rule = settings.values.outrigger.proxy_user;
    let shared = proxy_user::judge(rule, &pod, &injected).map_err(InjectError::ProxyUser)?;
    warnings.extend(shared);
    let patch = patch::write(target.pod, &pod, &change);
    Ok(Outcome::Injected(Box::new(Injection { pod, patch, warnings })))
}

/// Puts every overlay over the pod, one after the other; returns what they are together, and what
/// there is to say of the pod's own volumes.
fn overlay_all(
    draft: &mut Draft,
    pod: &Value,
    context: &Context<'_>,
    variables: &path_env::Variables,
) -> Result<(Value, Vec<Reason>), InjectError> {
    let mut overlays = Vec::new();
    for template in requested::templates(&context.settings.inject, context.annotations) {
        let overlay = overlay::make(&template, context).map_err(InjectError::Overlay)?;
        overlays.push((template, overlay));
    }
    unite_proxy(&mut overlays);
    let (mut injected, mut told) = (Value::Object(serde_json::Map::new()), Vec::new());
    for (template, mut overlay) in overlays {
        let failed = |source| InjectError::Merge { template: template.clone(), source };
        check_overlay(&overlay).map_err(failed)?;
        order::overlay_env(&mut overlay, variables);
        resources::adjust(&mut overlay, context);
        told.extend(own_volumes::settle(&mut overlay, pod));
        merge(&mut injected, outline(&overlay)).map_err(failed)?;
        move_proxy(draft, &overlay).map_err(failed)?;
        draft.edit(|pod| merge(pod, overlay)).map_err(failed)?;
    }
    Ok((injected, told))
}

/// What a template renders has objects where a pod has them: a scalar would take the place of the
/// pod's own.
fn check_overlay(overlay: &Value) -> Result<(), MergeError> {
    let is_object = |place: &&str| {
        overlay.pointer(place).is_none_or(|value| value.is_object() || value.is_null())
    };
    match OBJECTS.iter().find(|place| !is_object(place)) {
        Some(place) => Err(MergeError::NotAnObject { field: place[1..].replace('/', ".") }),
        None if overlay.get("spec").is_some_and(Value::is_null) => {
            Err(MergeError::NotAnObject { field: "spec".to_owned() })
        }
        None => Ok(()),
    }
}

/// Places of a pod that hold objects.
const OBJECTS: [&str; 4] = ["/metadata", "/metadata/labels", "/metadata/annotations", "/spec"];

/// Overlays that speak of the proxy speak of one container. Where one has it as a native sidecar,
/// what the others say of it goes there.
fn unite_proxy(overlays: &mut [(String, Value)]) {
    let native = |overlay: &Value| postprocess::find(overlay, INIT_CONTAINERS, PROXY).is_some();
    if overlays.iter().any(|(_, overlay)| native(overlay)) {
        for (_, overlay) in overlays {
            make_native(overlay);
        }
    }
}

/// Moves a proxy from the containers to the init containers.
fn make_native(pod: &mut Value) {
    let Some(index) = postprocess::find(pod, CONTAINERS, PROXY) else { return };
    let Some(containers) = pod["spec"][CONTAINERS].as_array_mut() else { return };
    let proxy = containers.remove(index);
    match pod["spec"][INIT_CONTAINERS].as_array_mut() {
        Some(list) => list.push(proxy),
        None => pod["spec"][INIT_CONTAINERS] = Value::Array(vec![proxy]),
    }
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
        if to == CONTAINERS {
            // Among the containers it is no native sidecar.
            proxy.as_object_mut().map(|proxy| proxy.remove("restartPolicy"));
        }
        let origins = (0..before).filter(|place| *place != index).map(Some).collect();
        let change = Change::list(origins, before, std::collections::BTreeMap::new());
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

/// A pod is an object with a `spec`; what injection reads and extends has its Kubernetes type.
fn check_form(pod: &Value) -> Result<(), InjectError> {
    let wrong =
        |what: &str, allowed: &str| Err(InjectError::Pod(format!("{what} is not {allowed}")));
    if !pod["spec"].is_object() {
        return wrong("spec", "an object");
    }
    for (place, value) in [
        ("metadata", &pod["metadata"]),
        ("metadata.labels", &pod["metadata"]["labels"]),
        ("metadata.annotations", &pod["metadata"]["annotations"]),
    ] {
        if !value.is_object() && !value.is_null() {
            return wrong(place, "an object");
        }
    }
    for place in ["labels", "annotations"] {
        let entries = pod["metadata"][place].as_object().into_iter().flatten();
        if let Some((key, value)) = entries.into_iter().find(|(_, value)| !value.is_string()) {
            return wrong(&format!("metadata.{place}[{key:?}]: {value}"), "a string");
        }
    }
    for list in ["containers", "initContainers", "volumes", "imagePullSecrets"] {
        let value = &pod["spec"][list];
        let objects = value.as_array().map(|items| items.iter().all(Value::is_object));
        if !value.is_null() && objects != Some(true) {
            return wrong(&format!("spec.{list}"), "a list of objects");
        }
    }
    Ok(())
}

/// The pod's annotations, if none of them is wrong.
fn annotations<'a>(
    settings: &Settings,
    target: &Target<'a>,
) -> Result<Annotations<'a>, InjectError> {
    let (annotations, mut errors) = Annotations::of_pod(target.pod);
    let entries = target.pod["metadata"]["annotations"].as_object();
    errors.extend(entries.into_iter().flat_map(|own| prometheus::problems(own, &settings.mesh)));
    if !errors.is_empty() {
        errors.extend(requested::problems(settings, annotations));
    }
    if errors.is_empty() { Ok(annotations) } else { Err(InjectError::Annotations(errors)) }
}

/// All layers of the pod's proxy configuration on top of each other, and what there is to say of
/// its own.
fn proxy_config(
    settings: &Settings,
    target: &Target<'_>,
    annotations: Annotations<'_>,
) -> (ProxyConfig, Vec<Reason>) {
    let annotation = annotations.get(key::PROXY_CONFIG);
    // Validation has shown that it can be read.
    let annotation = annotation.and_then(|text| yaml::parse(text).ok());
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
    let advice = layers.advice(&config, target.rules == Rules::Manual);
    (config, advice)
}

/// The usual user and group, or what `OpenShift` allows in the namespace.
fn identity(settings: &Settings, target: &Target<'_>) -> Identity {
    let annotations = target.cluster.namespace_annotations;
    let annotations = annotations.filter(|_| settings.process.openshift);
    annotations.map(Identity::of_namespace).unwrap_or_default()
}

/// The pod's own word, else the cluster's or the process's.
fn native_sidecar(default: bool, annotations: Annotations<'_>) -> bool {
    match annotations.or(key::NATIVE_SIDECAR, "") {
        "" => default,
        word => word != "false",
    }
}
