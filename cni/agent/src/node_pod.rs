//! Pods of the node, as far as their capture depends on them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, ContainerState, Pod};

use cni::capture_request::{ANNOTATION, CaptureRequest};
use cni::decision::{PROXY, STATUS, VALIDATION};
use cni::pod::PodIdentity;

use crate::istio_annotations;

/// Pod with a sidecar whose capture is not programmed by its own init container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePod {
    /// Namespace, name, and the UID that the runtime passes.
    pub identity: PodIdentity,
    /// UID of the API object.
    pub uid: String,
    /// Version of the API object.
    pub resource_version: String,
    /// Capture request, or the error of an invalid one.
    pub request: Result<CaptureRequest, String>,
    /// True if the request is the pod's annotation. The rules of another pod may be those of another
    /// plugin.
    pub is_requested: bool,
    /// Progress of the container that checks the rules.
    pub validation: Validation,
    /// Addresses of the pod; empty while its sandbox is made.
    pub addresses: Vec<IpAddr>,
    /// True if all containers have ended.
    pub has_ended: bool,
}

/// Progress of the container that checks the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validation {
    /// It has not ended yet: no application container has started.
    Pending,
    /// It ended without the rules (exit code 126), and the kubelet may start it again.
    Failed,
    /// It found the rules, or the pod has no such container and another one has started:
    /// application containers may run.
    Passed,
}

impl NodePod {
    /// Reads a pod; `None` if no plugin captures its traffic.
    ///
    /// The request is the annotation. Other injectors write none: then it is that of the container
    /// that checks the rules, or else of Istio's annotations.
    pub fn read(pod: &Pod) -> Option<Self> {
        let spec = pod.spec.as_ref()?;
        let no_annotations = BTreeMap::new();
        let annotations = pod.metadata.annotations.as_ref().unwrap_or(&no_annotations);
        if !annotations.contains_key(STATUS) || spec.host_network == Some(true) {
            return None;
        }
        let request = match annotations.get(ANNOTATION) {
            Some(text) => CaptureRequest::parse(text)
                .map_err(|error| format!("annotation {ANNOTATION}: {error}")),
            None => match init_container(pod, VALIDATION) {
                Some(container) => request(container)
                    .within_limit()
                    .map_err(|error| format!("arguments of container {VALIDATION}: {error}")),
                None => istio_annotations::request(pod)?,
            },
        };
        let status = pod.status.as_ref();
        let addresses = status.and_then(|status| status.pod_ips.as_ref()).into_iter().flatten();
        let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
        Some(Self {
            identity: identity(pod),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            resource_version: pod.metadata.resource_version.clone().unwrap_or_default(),
            request,
            is_requested: annotations.contains_key(ANNOTATION),
            validation: validation(pod),
            addresses: addresses.filter_map(|it| it.ip.parse().ok()).collect(),
            has_ended: ["Succeeded", "Failed"].contains(&phase),
        })
    }
}

/// Returns the pod's namespace, name, and the UID that the runtime passes.
pub fn identity(pod: &Pod) -> PodIdentity {
    let annotations = pod.metadata.annotations.as_ref();
    let hash = annotations.and_then(|annotations| annotations.get(CONFIG_HASH));
    PodIdentity {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid: hash.or(pod.metadata.uid.as_ref()).cloned().unwrap_or_default(),
    }
}

/// Returns the arguments of a container and the variables that have a literal value.
fn request(container: &Container) -> CaptureRequest {
    let command = container.command.iter().flatten().skip(1);
    let env = container.env.iter().flatten().filter(|variable| variable.value_from.is_none());
    CaptureRequest {
        args: command.chain(container.args.iter().flatten()).cloned().collect(),
        env: env
            .map(|variable| (variable.name.clone(), variable.value.clone().unwrap_or_default()))
            .collect(),
    }
}

fn init_container<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let containers = pod.spec.as_ref()?.init_containers.iter().flatten();
    containers.into_iter().find(|container| container.name == name)
}

fn validation(pod: &Pod) -> Validation {
    if init_container(pod, VALIDATION).is_none() {
        return if has_started(pod) { Validation::Passed } else { Validation::Pending };
    }
    let statuses = pod.status.iter().flat_map(|status| status.init_container_statuses.iter());
    let Some(status) = statuses.flatten().find(|status| status.name == VALIDATION) else {
        return Validation::Pending;
    };
    // The run before this one may have been in another sandbox, where there were rules.
    match (exit_code(status.state.as_ref()), exit_code(status.last_state.as_ref())) {
        (Some(0), _) => Validation::Passed,
        (Some(VALIDATION_FAILED), _) | (None, Some(VALIDATION_FAILED)) => Validation::Failed,
        _ => Validation::Pending,
    }
}

/// True if a container of the application has started.
fn has_started(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let lists = [&status.init_container_statuses, &status.container_statuses];
    let mut own = lists.into_iter().flatten().flatten().filter(|status| status.name != PROXY);
    own.any(|status| {
        let state = status.state.as_ref();
        status.restart_count > 0
            || state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    })
}

fn exit_code(state: Option<&ContainerState>) -> Option<i32> {
    Some(state?.terminated.as_ref()?.exit_code)
}

/// UID of a static pod for the runtime, as an annotation of its mirror pod.
const CONFIG_HASH: &str = "kubernetes.io/config.hash";
/// Exit code of `istio-init` if the rules are missing.
const VALIDATION_FAILED: i32 = 126;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(annotations: &Value, spec: &Value, status: &Value) -> Option<NodePod> {
        let metadata = json!({"name": "web", "namespace": "shop", "uid": "u",
            "resourceVersion": "7", "annotations": annotations});
        let pod = json!({"metadata": metadata, "spec": spec, "status": status});
        NodePod::read(&serde_json::from_value(pod).unwrap())
    }

    fn spec() -> Value {
        json!({"containers": [], "initContainers": [{"name": "istio-validation",
            "args": ["istio-iptables", "-p", "15001"],
            "env": [{"name": "A", "value": "b"}, {"name": "N", "valueFrom": {}}]}]})
    }

    #[test]
    fn request_is_the_annotation_or_else_the_container() {
        let pod = read(&json!({STATUS: "{}"}), &spec(), &json!({})).unwrap();
        let args = ["istio-iptables", "-p", "15001"].map(str::to_owned).to_vec();
        let env = BTreeMap::from([("A".to_owned(), "b".to_owned())]);
        assert_eq!(pod.request, Ok(CaptureRequest { args, env }));
        let annotations = json!({STATUS: "{}", ANNOTATION: r#"{"args":["-i","*"]}"#});
        let request = read(&annotations, &spec(), &json!({})).unwrap().request.unwrap();
        assert_eq!(request.args, ["-i", "*"]);
        let invalid = read(&json!({STATUS: "{}", ANNOTATION: "["}), &spec(), &json!({})).unwrap();
        assert!(
            invalid.request.unwrap_err().starts_with("annotation sidecar.outrigger.io/capture: ")
        );
    }

    #[test]
    fn other_pods_are_left_alone() {
        assert_eq!(read(&json!({}), &spec(), &json!({})), None);
        let own = json!({"containers": [], "initContainers": [{"name": "istio-init"}]});
        assert_eq!(read(&json!({STATUS: "{}"}), &own, &json!({})), None);
        let mut host = spec();
        host["hostNetwork"] = true.into();
        assert_eq!(read(&json!({STATUS: "{}"}), &host, &json!({})), None);
    }

    #[test]
    fn progress_is_that_of_the_last_end() {
        let ended = |code| json!({"terminated": {"exitCode": code}});
        for (state, last, expected) in [
            (json!({"waiting": {}}), json!({}), Validation::Pending),
            (json!({"running": {}}), json!({}), Validation::Pending),
            (json!({"running": {}}), ended(126), Validation::Failed),
            // A sandbox that was made again.
            (json!({"running": {}}), ended(0), Validation::Pending),
            (json!({"waiting": {}}), ended(0), Validation::Pending),
            (ended(126), json!({}), Validation::Failed),
            (ended(1), json!({}), Validation::Pending),
            (ended(0), ended(126), Validation::Passed),
        ] {
            let status = json!({"name": "istio-validation", "image": "", "imageID": "",
                "ready": false, "restartCount": 0, "state": state, "lastState": last});
            let status = json!({"initContainerStatuses": [status]});
            let pod = read(&json!({STATUS: "{}"}), &spec(), &status).unwrap();
            assert_eq!(pod.validation, expected, "{status}");
        }
    }

    #[test]
    fn pod_without_validation_has_istios_annotations() {
        let spec = json!({"containers": [{"name": "app"}, {"name": "istio-proxy"}]});
        let annotations =
            json!({STATUS: "{}", "traffic.sidecar.istio.io/includeInboundPorts": "80"});
        let pod = read(&annotations, &spec, &json!({})).unwrap();
        assert_eq!(pod.validation, Validation::Pending);
        assert!(pod.request.unwrap().args.join(" ").contains("-b 80 "));
        for (name, expected) in [("app", Validation::Passed), ("istio-proxy", Validation::Pending)]
        {
            let running = json!({"containerStatuses": [{"name": name, "image": "", "imageID": "",
                "ready": true, "restartCount": 0, "state": {"running": {}}}]});
            assert_eq!(read(&annotations, &spec, &running).unwrap().validation, expected, "{name}");
        }
        let gateway = json!({"containers": [{"name": "istio-proxy", "args": ["proxy", "router"]}]});
        assert_eq!(read(&annotations, &gateway, &json!({})), None);
    }

    #[test]
    fn static_pod_has_the_uid_of_the_runtime() {
        let annotations = json!({STATUS: "{}", CONFIG_HASH: "h"});
        let pod = read(&annotations, &spec(), &json!({"phase": "Failed"})).unwrap();
        assert_eq!((pod.identity.uid.as_str(), pod.uid.as_str()), ("h", "u"));
        assert!(pod.has_ended);
    }
}
