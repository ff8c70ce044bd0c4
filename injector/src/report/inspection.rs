//! Simulated admission of a pod: both gates, in the order of the API server's calls.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use reason::Reason;
use serde_json::Value;

use crate::inject::cluster_state::ClusterFacts;
use crate::inject::error::InjectError;
use crate::inject::reinject::status::{self, InjectionStatus, STATUS};
use crate::inject::{Injection, InjectionOutcome, Target, inject};
use crate::kubernetes::webhook_configuration::{Hook, HookConfiguration};
use crate::settings::Settings;
use crate::settings::proxy_configs::ProxyConfigs;

/// Webhook configurations and injectors of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Injectors<'a> {
    /// Webhook configurations sorted by name, which is the API server's order of calls.
    pub configurations: &'a [HookConfiguration],
    /// Known injectors, by revision.
    pub known: &'a BTreeMap<String, Injector>,
}

/// Inputs of an injector's decision.
#[derive(Clone, Debug)]
pub struct Injector {
    /// Settings of the injector.
    pub settings: Arc<Settings>,
    /// `ProxyConfig` resources that apply to it.
    pub proxy_configs: ProxyConfigs,
}

/// Call of one webhook configuration for a pod.
#[derive(Clone, Debug)]
pub struct WebhookAnswer<'a> {
    /// The configuration.
    pub configuration: &'a HookConfiguration,
    /// Entry that matches the pod.
    pub hook: &'a Hook,
    /// Answer of the injector.
    pub answer: Answer,
}

/// Answer of an injector.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The pod gets a sidecar.
    Inject(Box<Injection>),
    /// The pod stays as it is.
    Skip(Reason),
    /// The pod is denied.
    Deny(Reason),
    /// The settings of the revision are unknown.
    Unknown,
}

impl<'a> Injectors<'a> {
    /// Returns every configuration that the API server would call for the pod in a namespace with
    /// these labels, and the injector's answer. A previous injection is removed from the pod first.
    pub fn ask(&self, namespace_labels: &Value, pod: &Value) -> Vec<WebhookAnswer<'a>> {
        let mut bare = without_status(pod);
        let mut asked = Vec::new();
        for configuration in self.configurations {
            let Some(hook) = configuration.asks(namespace_labels, &bare) else { continue };
            let injector = self.known.get(&configuration.revision);
            let answer = injector.map_or(Answer::Unknown, |injector| injector.answer(pod));
            // The next configuration sees the pod as changed by this one.
            if let Answer::Inject(injection) = &answer {
                bare = Cow::Owned(injection.pod.clone());
            }
            asked.push(WebhookAnswer { configuration, hook, answer });
        }
        asked
    }
}

impl Injector {
    /// Returns the injector's answer for the pod without its previous injection.
    pub fn answer(&self, pod: &Value) -> Answer {
        match self.outcome(pod) {
            Ok(InjectionOutcome::Injected(injection)) => Answer::Inject(injection),
            Ok(InjectionOutcome::Skipped { reason, .. }) => Answer::Skip(reason),
            Err(error) => Answer::Deny(denial(&error)),
        }
    }

    /// Returns the outcome of injection for the pod without its previous injection. The error may
    /// have values of the pod.
    pub fn outcome(&self, pod: &Value) -> Result<InjectionOutcome, InjectError> {
        let earlier = InjectionStatus::from_pod(pod);
        let status_port = self.settings.mesh.default_config.status_port();
        let pod = status::without(pod, earlier.as_ref(), status_port);
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let cluster =
            ClusterFacts { proxy_configs: Some(&self.proxy_configs), ..ClusterFacts::default() };
        let target = Target { cluster, ..Target::at_admission(pod.into_owned(), &namespace) };
        inject(&self.settings, target)
    }
}

/// Returns the reason of a denial, for readers without access to the pod. Events have other readers
/// than the pod, and a field of the pod or the output of a template may be a secret.
fn denial(error: &InjectError) -> Reason {
    let message = format!("the pod would be denied: {}", error.without_values());
    Reason::new(error.reason_word(), message)
        .with_hint("create it with --dry-run=server to see the error")
}

/// Returns the pod without the annotation of its previous injection. The API server's selectors and
/// conditions use metadata only.
pub(super) fn without_status(pod: &Value) -> Cow<'_, Value> {
    let mut bare = Cow::Borrowed(pod);
    if pod["metadata"]["annotations"].get(STATUS).is_some()
        && let Some(annotations) = bare.to_mut()["metadata"]["annotations"].as_object_mut()
    {
        annotations.remove(STATUS);
    }
    bare
}
