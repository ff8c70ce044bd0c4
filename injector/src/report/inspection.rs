//! What would become of a pod if it were created now: both gates, in the order in which the API
//! server asks.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use reason::Reason;
use serde_json::Value;

use crate::inject::cluster_state::ClusterFacts;
use crate::inject::error::InjectError;
use crate::inject::reinject::status::{self, Earlier, STATUS};
use crate::inject::{Injection, Outcome, Target, inject};
use crate::kubernetes::webhook_configuration::{Hook, HookConfiguration};
use crate::settings::Settings;
use crate::settings::proxy_configs::ProxyConfigs;

/// All that decides on injection in a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Injectors<'a> {
    /// The webhook configurations, in the order of their names, in which the API server asks.
    pub configurations: &'a [HookConfiguration],
    /// What is known of the injectors, by revision.
    pub known: &'a BTreeMap<String, Injector>,
}

/// What an injector decides by.
#[derive(Clone, Debug)]
pub struct Injector {
    /// Its settings.
    pub settings: Arc<Settings>,
    /// The `ProxyConfig` resources that are for it.
    pub proxy_configs: ProxyConfigs,
}

/// What one webhook configuration means for a pod.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// The configuration.
    pub configuration: &'a HookConfiguration,
    /// The entry by which it asks.
    pub hook: &'a Hook,
    /// What the injector would answer.
    pub answer: Answer,
}

/// What an injector would answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The pod gets a sidecar.
    Inject(Box<Injection>),
    /// The pod stays as it is.
    Skip(Reason),
    /// The pod is denied.
    Deny(Reason),
    /// The settings of the revision are not known.
    Unknown,
}

impl<'a> Injectors<'a> {
    /// Every configuration by which the API server would ask about the pod, if it were created in
    /// a namespace with these labels, and the answer. The pod is taken without an earlier
    /// injection.
    pub fn ask(&self, namespace_labels: &Value, pod: &Value) -> Vec<Asked<'a>> {
        let mut bare = without_status(pod);
        let mut asked = Vec::new();
        for configuration in self.configurations {
            let Some(hook) = configuration.asks(namespace_labels, &bare) else { continue };
            let injector = self.known.get(&configuration.revision);
            let answer = injector.map_or(Answer::Unknown, |injector| injector.answer(pod));
            // The next one sees what this one has made of the pod.
            if let Answer::Inject(injection) = &answer {
                bare = Cow::Owned(injection.pod.clone());
            }
            asked.push(Asked { configuration, hook, answer });
        }
        asked
    }
}

impl Injector {
    /// What it would answer, asked about the pod without an earlier injection.
    pub fn answer(&self, pod: &Value) -> Answer {
        let earlier = Earlier::of_pod(pod);
        let status_port = self.settings.mesh.default_config.status_port();
        let pod = status::without(pod, earlier.as_ref(), status_port);
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let cluster =
            ClusterFacts { proxy_configs: Some(&self.proxy_configs), ..ClusterFacts::default() };
        let target = Target { cluster, ..Target::at_admission(pod.into_owned(), &namespace) };
        match inject(&self.settings, target) {
            Ok(Outcome::Injected(injection)) => Answer::Inject(injection),
            Ok(Outcome::Skipped { reason, .. }) => Answer::Skip(reason),
            Err(error) => Answer::Deny(denial(&error)),
        }
    }
}

/// Why a pod would be denied, for those who may not read the pod: Events have other readers, and
/// what a template makes of an annotation, or a field of the pod, may be a secret.
fn denial(error: &InjectError) -> Reason {
    let message = format!("the pod would be denied: {}", error.without_values());
    Reason::new(error.word(), message)
        .with_hint("creating it with --dry-run=server says what is wrong")
}

/// What decides whether the API server asks is read from metadata alone.
fn without_status(pod: &Value) -> Cow<'_, Value> {
    let mut bare = Cow::Borrowed(pod);
    if pod["metadata"]["annotations"].get(STATUS).is_some()
        && let Some(annotations) = bare.to_mut()["metadata"]["annotations"].as_object_mut()
    {
        annotations.remove(STATUS);
    }
    bare
}
