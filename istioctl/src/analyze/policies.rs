//! Policies of mutual TLS without effect.

use std::collections::BTreeMap;

use injector::analysis::Analyzer;
use injector::analysis::cluster_state::AnalyzedPod;
use injector::analysis::message::{Level, Message, MessageKind, MessageOrigin};
use pilot_registry::event::{Event, Update};
use pilot_registry::index::Index;
use pilot_registry::manifest::{Manifest, ObjectDefaults, PodManifest, ServiceManifest};
use pilot_routing::peer_authentication::{PeerAuthentication, PeerAuthentications, without_effect};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Objects that decide on the effect of policies.
#[derive(Debug, Default)]
pub(super) struct Policies {
    /// Objects `PeerAuthentication`.
    pub(super) objects: Vec<(MessageOrigin, Value)>,
    /// Services, by whose ports policies are misread.
    pub(super) services: Vec<Value>,
}

impl Policies {
    /// Returns the messages about policies. `pods` have the labels of the workloads.
    pub(super) fn messages(&self, pods: &[AnalyzedPod], root_namespace: &str) -> Vec<Message> {
        let (mut messages, mut policies, mut origins) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (origin, object) in &self.objects {
            match PeerAuthentication::from_object(object) {
                Ok(policy) => {
                    origins.insert(policy.key(), origin);
                    policies.push(policy);
                }
                Err(error) => messages.push(message(&INVALID, origin, error.to_string())),
            }
        }
        let pods = pods.iter().map(|pod| manifest(&pod.origin, &pod.pod)).collect::<Vec<_>>();
        let snapshot = Index::from_events([
            Event::Services(Update::Replace(converted::<ServiceManifest>(&self.services))),
            Event::Pods(Update::Replace(converted::<PodManifest>(&pods))),
        ])
        .snapshot();
        let all = PeerAuthentications::new(root_namespace, policies.clone());
        let found = without_effect(&policies, &all, root_namespace, &snapshot);
        let found = found.into_iter().filter_map(|it| {
            Some(message(&WITHOUT_EFFECT, origins.get(&it.policy)?, it.reason.to_string()))
        });
        messages.extend(found);
        messages
    }
}

/// Pod of a template under the name of its workload.
fn manifest(origin: &MessageOrigin, pod: &Value) -> Value {
    json!({
        "metadata": {
            "name": format!("{}-{}", origin.kind, origin.name),
            "namespace": origin.namespace,
            "labels": pod["metadata"]["labels"],
        },
        "spec": {"containers": pod["spec"]["containers"]},
    })
}

/// Values of the objects that can be read. Others are no part of the mesh either.
fn converted<M: Manifest + DeserializeOwned>(objects: &[Value]) -> Vec<M::Object> {
    let defaults = ObjectDefaults::default();
    let read = |object: &Value| {
        serde_json::from_value::<M>(object.clone()).ok()?.convert(&defaults).ok().flatten()
    };
    objects.iter().filter_map(read).collect()
}

fn message(kind: &'static MessageKind, origin: &MessageOrigin, text: String) -> Message {
    Message { kind, origin: origin.clone(), text }
}

/// Name and description of the analyzer.
pub(super) const ANALYZER: Analyzer = Analyzer::described(
    "security.PeerAuthenticationAnalyzer",
    "Checks that objects PeerAuthentication, and their port levels, have an effect",
);

static INVALID: MessageKind = MessageKind { code: "OUT0201", level: Level::Error };
static WITHOUT_EFFECT: MessageKind = MessageKind { code: "OUT0202", level: Level::Warning };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::snapshot::origin;

    fn texts(policies: &[Value]) -> Vec<String> {
        let policies = policies.iter().map(|policy| {
            let mut object = policy.clone();
            object["apiVersion"] = "security.istio.io/v1".into();
            object["kind"] = "PeerAuthentication".into();
            (origin("PeerAuthentication", &object["metadata"], "file:1".to_owned()), object)
        });
        let service = json!({"metadata": {"name": "web", "namespace": "shop"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}});
        let policies = Policies { objects: policies.collect(), services: vec![service] };
        let pod = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}});
        let metadata = json!({"name": "web", "namespace": "shop"});
        let deployment = origin("Deployment", &metadata, String::new());
        let pods = [AnalyzedPod { origin: deployment, pod, running: false }];
        let messages = policies.messages(&pods, "istio-system");
        messages.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn policies_without_effect_have_a_message() {
        let metadata = |name: &str, namespace: &str| json!({"name": name, "namespace": namespace});
        let selector = json!({"matchLabels": {"app": "web"}});
        let ports = |port: &str| json!({port: {"mode": "DISABLE"}});
        let found = texts(&[
            json!({"metadata": metadata("default", "shop"), "spec": {"mtls": {"mode": "STRICT"}}}),
            json!({"metadata": metadata("second", "shop"), "spec": {"mtls": {"mode": "STRICT"}}}),
            json!({"metadata": metadata("ports", "bank"), "spec": {"portLevelMtls": ports("80")}}),
            json!({"metadata": metadata("service-port", "shop"),
                "spec": {"selector": selector, "portLevelMtls": ports("80")}}),
            json!({"metadata": metadata("root", "istio-system"), "spec": {"selector": selector}}),
            json!({"metadata": metadata("invalid", "bank"), "spec": {"mtls": {"mode": "ON"}}}),
        ]);
        insta::assert_debug_snapshot!(found, @r#"
        [
            "Error [OUT0201] (PeerAuthentication bank/invalid file:1) PeerAuthentication bank/invalid: spec.mtls.mode: invalid mode \"ON\": expected UNSET, DISABLE, PERMISSIVE or STRICT",
            "Warning [OUT0202] (PeerAuthentication shop/second file:1) it has no effect: shop/default is older and selects the same workloads; hint: merge them, or delete one",
            "Warning [OUT0202] (PeerAuthentication bank/ports file:1) portLevelMtls has no effect without selector.matchLabels; hint: select the workloads of the ports",
            "Warning [OUT0202] (PeerAuthentication shop/service-port file:1) portLevelMtls.80 has no effect: 80 is the port of service web.shop.svc.cluster.local, and its workloads listen on 8080; hint: write 8080",
            "Warning [OUT0202] (PeerAuthentication istio-system/root file:1) it has no effect: policies of the root namespace select no workloads; hint: move it to the namespace of the workloads",
        ]
        "#);
        let fine = json!({"metadata": metadata("fine", "shop"),
            "spec": {"selector": selector, "portLevelMtls": ports("8080")}});
        assert_eq!(texts(&[fine]), [""; 0]);
    }
}
