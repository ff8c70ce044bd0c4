//! Analysis of a cluster's injection, with the messages of `istioctl analyze`.
//!
//! All functions are pure: they take a [`ClusterState`] and return [`Message`]s.

pub mod cluster_state;
mod denials;
mod image_auto;
pub mod message;
mod namespaces;
pub mod overlaps;
mod pods;
mod revisions;
pub mod suppression;
#[cfg(test)]
mod tests;
mod webhooks;

use cluster_state::ClusterState;
use message::Message;

/// A group of messages about one kind of objects.
#[derive(Clone, Copy, Debug)]
pub struct Analyzer {
    /// Name, as Istio's.
    pub name: &'static str,
    /// Description.
    pub description: &'static str,
    analyze: fn(&ClusterState<'_>) -> Vec<Message>,
}

impl Analyzer {
    /// Analyzer of another crate, which makes its messages itself.
    pub const fn described(name: &'static str, description: &'static str) -> Self {
        Self { name, description, analyze: |_| Vec::new() }
    }
}

/// All analyzers.
pub const ANALYZERS: [Analyzer; 8] = [
    Analyzer {
        name: "annotations.K8sAnalyzer",
        description: "Checks the values of annotations that the injector reads",
        analyze: denials::annotations,
    },
    Analyzer {
        name: "injection.Analyzer",
        description: "Checks the injection labels of namespaces, and pods without a sidecar",
        analyze: |state| [namespaces::labels(state), pods::missing_proxies(state)].concat(),
    },
    Analyzer {
        name: "injection.DenialAnalyzer",
        description: "Checks that the injector denies no pod",
        analyze: denials::pods,
    },
    Analyzer {
        name: "injection.RevisionAnalyzer",
        description: "Checks that the revisions of labels exist",
        analyze: revisions::unknown,
    },
    Analyzer {
        name: "injection.ImageAnalyzer",
        description: "Checks the proxy images of running pods",
        analyze: pods::proxy_images,
    },
    Analyzer {
        name: "injection.ImageAutoAnalyzer",
        description: "Checks that pods and Deployments with `image: auto` are injected",
        analyze: image_auto::not_injected,
    },
    Analyzer {
        name: "webhook.Analyzer",
        description: "Checks that webhooks do not overlap, and that their Services exist",
        analyze: webhooks::overlaps_and_services,
    },
    Analyzer {
        name: "externalcontrolplane.ExternalControlPlaneAnalyzer",
        description: "Checks the URLs of webhooks",
        analyze: webhooks::urls,
    },
];

/// Returns the messages of all analyzers, the most severe first, then by code and object.
pub fn analyze(state: &ClusterState<'_>) -> Vec<Message> {
    let mut messages: Vec<_> =
        ANALYZERS.iter().flat_map(|analyzer| (analyzer.analyze)(state)).collect();
    sort(&mut messages);
    messages
}

/// Sorts messages: the most severe first, then by code and object.
pub fn sort(messages: &mut [Message]) {
    messages.sort_by(|one, other| one.order().cmp(&other.order()));
}
