//! Comparison of a running pod with a fresh injection.

use reason::{Reason, words};
use serde_json::Value;

use super::inspection::{Answer, Injectors, WebhookAnswer};
use crate::inject::Injection;
use crate::inject::reinject::status::InjectionStatus;
use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS, find};

/// Result of comparing a running pod with a fresh injection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SidecarState {
    /// The pod was injected, and a fresh injection is the same.
    Current,
    /// The pod was injected, and a fresh injection differs.
    Stale(Vec<Reason>),
    /// The pod has no sidecar, although both gates select it.
    Missing(Reason),
    /// No injector would inject the pod, whether it has a sidecar or not.
    NotAsked(Reason),
    /// The injector's answer is unknown.
    Unknown(Reason),
}

impl SidecarState {
    /// Compares a pod with `metadata` (and its namespace's labels) and `spec`.
    ///
    /// The comparison covers the revision and the injected containers with their images. Other
    /// components may also change the rest of a sidecar between its injection and its start.
    pub fn new(injectors: &Injectors<'_>, namespace_labels: &Value, pod: &Value) -> Self {
        let asked = injectors.ask(namespace_labels, pod);
        let earlier = InjectionStatus::from_pod(pod);
        let injecting = asked.iter().find_map(|asked| match &asked.answer {
            Answer::Inject(injection) => Some((asked, injection)),
            Answer::Skip(_) | Answer::Deny(_) | Answer::Unknown => None,
        });
        match (injecting, earlier) {
            (Some((by, injection)), Some(earlier)) => {
                let revision = &by.configuration.revision;
                let reasons = differences(pod, &earlier, revision, injection);
                if reasons.is_empty() { Self::Current } else { Self::Stale(reasons) }
            }
            (Some((by, _)), None) => Self::Missing(missing(by)),
            (None, earlier) => not_injected(asked, earlier.is_some()),
        }
    }
}

/// Returns the result for a pod that no injector injects. Of several answers it uses the one that
/// needs action: a denial, else an unknown configuration, else a skip.
fn not_injected(asked: Vec<WebhookAnswer<'_>>, has_sidecar: bool) -> SidecarState {
    let mut sidecar_state = None;
    for WebhookAnswer { configuration, answer, .. } in asked {
        match answer {
            Answer::Inject(_) => {}
            Answer::Deny(reason) if has_sidecar => return SidecarState::Stale(vec![reason]),
            Answer::Deny(reason) => return SidecarState::Missing(reason),
            Answer::Skip(reason) => {
                sidecar_state.get_or_insert(SidecarState::NotAsked(reason));
            }
            Answer::Unknown => {
                let message = format!(
                    "the configuration of revision {} is not known",
                    configuration.revision
                );
                sidecar_state =
                    Some(SidecarState::Unknown(Reason::new(words::UNKNOWN_CONFIGURATION, message)));
            }
        }
    }
    sidecar_state.unwrap_or_else(|| {
        SidecarState::NotAsked(Reason::new(words::NOT_SELECTED, "no webhook selects the pod"))
    })
}

fn missing(by: &WebhookAnswer<'_>) -> Reason {
    let message = format!(
        "no sidecar, though webhook configuration {} selects the pod",
        by.configuration.name
    );
    Reason::new(words::NO_SIDECAR, message)
}

/// Returns the differences between the pod's injection and a fresh one.
fn differences(
    pod: &Value,
    earlier: &InjectionStatus,
    revision: &str,
    injection: &Injection,
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if earlier.revision() != revision {
        let message = format!(
            "injected by revision {:?}; a new pod would be injected by revision {revision:?}",
            earlier.revision()
        );
        reasons.push(Reason::new(words::REVISION_CHANGED, message));
    }
    let today = InjectionStatus::from_pod(&injection.pod).unwrap_or_default();
    let has = |earlier: &InjectionStatus, name: &str| earlier.names().any(|one| one == name);
    for name in earlier.names() {
        if !has(&today, name) {
            let message = format!("a new pod would not have container {name}");
            reasons.push(Reason::new(words::CONTAINERS_CHANGED, message));
            continue;
        }
        let (before, now) = (image(pod, name), image(&injection.pod, name));
        if let (Some(before), Some(now)) = (before, now)
            && before != now
        {
            let message =
                format!("container {name} has image {before}; a new pod would have {now}");
            reasons.push(Reason::new(words::IMAGE_CHANGED, message));
        }
    }
    for name in today.names().filter(|name| !has(earlier, name)) {
        let message = format!("a new pod would have container {name}");
        reasons.push(Reason::new(words::CONTAINERS_CHANGED, message));
    }
    reasons
}

/// Returns the image of a container or init container.
pub(crate) fn image<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    let mut lists = [CONTAINERS, INIT_CONTAINERS].into_iter();
    lists.find_map(|list| pod["spec"][list][find(pod, list, name)?]["image"].as_str())
}
