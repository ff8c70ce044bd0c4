//! Messages about running pods.

use std::collections::BTreeMap;

use super::cluster_state::{AnalyzedPod, ClusterState};
use super::message::{Level, Message, MessageKind, MessageOrigin};
use crate::inject::policy::is_ignored;
use crate::kubernetes::pod::{PROXY, find_proxy};
use crate::report::inspection::Answer;
use crate::report::sidecar_state::image;

/// Returns the messages about pods that a webhook selects and that have no proxy.
pub(super) fn missing_proxies(state: &ClusterState<'_>) -> Vec<Message> {
    let missing = running(state).filter(|analyzed| {
        find_proxy(&analyzed.pod).is_none()
            && matches!(answer(state, analyzed), Some(Answer::Inject(_) | Answer::Unknown))
    });
    let message = |analyzed: &AnalyzedPod| {
        let MessageOrigin { namespace, name, .. } = &analyzed.origin;
        let text = format!(
            "The pod {namespace}/{name} is missing the Istio proxy. This can often be resolved by \
             restarting or redeploying the workload."
        );
        Message::new(&MISSING, &analyzed.origin, text)
    };
    missing.map(message).collect()
}

/// Returns one message for each namespace with pods whose proxy has another image than that of a
/// new pod.
pub(super) fn proxy_images(state: &ClusterState<'_>) -> Vec<Message> {
    let mut pods: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for analyzed in running(state) {
        let Some(current) = image(&analyzed.pod, PROXY) else { continue };
        let Some(Answer::Inject(injection)) = answer(state, analyzed) else { continue };
        if image(&injection.pod, PROXY) != Some(current) {
            pods.entry(&analyzed.origin.namespace).or_default().push(&analyzed.origin.name);
        }
    }
    let message = |(namespace, names): (&str, Vec<&str>)| {
        let unknown = MessageOrigin {
            kind: "Namespace".to_owned(),
            name: namespace.to_owned(),
            ..MessageOrigin::default()
        };
        let origin = state.namespaces.get(namespace).map_or(&unknown, |found| &found.origin);
        let text = format!(
            "The Istio proxy images of the pods running in the namespace do not match the image \
             defined in the injection configuration (pod names: [{}]). This often happens after \
             upgrading the Istio control-plane and can be fixed by redeploying the pods.",
            names.join(" ")
        );
        Message::new(&IMAGES, origin, text)
    };
    pods.into_iter().map(message).collect()
}

fn running<'a>(state: &ClusterState<'a>) -> impl Iterator<Item = &'a AnalyzedPod> {
    state.pods.iter().filter(|one| one.running && !is_ignored(&one.origin.namespace))
}

/// Returns the answer of the first injector that the API server would call.
fn answer(state: &ClusterState<'_>, analyzed: &AnalyzedPod) -> Option<Answer> {
    let labels = state.labels(&analyzed.origin.namespace);
    let asked = state.injectors.ask(&labels, &analyzed.pod);
    asked.into_iter().next().map(|asked| asked.answer)
}

static MISSING: MessageKind = MessageKind { code: "IST0103", level: Level::Warning };
static IMAGES: MessageKind = MessageKind { code: "IST0158", level: Level::Warning };
