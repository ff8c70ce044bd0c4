//! Decision about a pod from what the runtime passes.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use crate::answer::{CniError, Code};
use crate::capture_request::{ANNOTATION, CaptureRequest};
use crate::network_config::NetworkConfig;
use crate::node_hint;
use crate::pod::PodIdentity;

/// Decision about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The pod's traffic is captured.
    Capture(CaptureRequest),
    /// The pod is left as it is.
    Pass(PassReason),
    /// The node agent knows the pod.
    Ask(AskReason),
}

/// Reason why a pod is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassReason {
    /// The call is for no pod.
    NoPod,
    /// The namespace is excluded.
    ExcludedNamespace,
    /// The pod has no sidecar.
    NoSidecar,
    /// The pod's own init container programs the capture, or the pod has none.
    NotByPlugin,
}

/// Reason why the node agent is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskReason {
    /// The pod was injected by another injector, which writes no capture request.
    NoRequest,
    /// The runtime passes no annotations.
    NoAnnotations,
}

/// Decides by the network configuration and the annotations that the runtime passes in it.
pub fn decide(config: &NetworkConfig, pod: Option<&PodIdentity>) -> Result<Decision, CniError> {
    let Some(pod) = pod else {
        let annotations = config.annotations.as_ref();
        return if annotations.is_some_and(|annotations| annotations.contains_key(STATUS)) {
            Err(CniError::new(Code::InvalidEnvironment, NAMELESS).hint(PASSED_ARGS))
        } else {
            Ok(Decision::Pass(PassReason::NoPod))
        };
    };
    if config.exclude_namespaces.contains(&pod.namespace) {
        return Ok(Decision::Pass(PassReason::ExcludedNamespace));
    }
    let Some(annotations) = &config.annotations else {
        return Ok(Decision::Ask(AskReason::NoAnnotations));
    };
    let Some(status) = annotations.get(STATUS) else {
        return Ok(Decision::Pass(PassReason::NoSidecar));
    };
    match annotations.get(ANNOTATION) {
        Some(text) => match CaptureRequest::parse(text) {
            Ok(request) => Ok(Decision::Capture(request)),
            Err(error) => Err(invalid_request(pod, OF_ANNOTATION, &error)),
        },
        None if needs_plugin(status, annotations) => Ok(Decision::Ask(AskReason::NoRequest)),
        None => Ok(Decision::Pass(PassReason::NotByPlugin)),
    }
}

/// Returns the error about a capture request, with the hint of the setting if it has one. `origin` is
/// where it comes from.
pub fn invalid_request(pod: &PodIdentity, origin: &str, error: &dyn fmt::Display) -> CniError {
    let text = error.to_string();
    let (what, hint) = node_hint::split(&text);
    CniError::new(Code::InvalidRequest, format!("pod {pod}: {origin}: {what}"))
        .hint(hint.unwrap_or(REWRITTEN))
}

/// True if a plugin may have to capture a pod of another injector: its injection status lists the
/// container that waits for a plugin, or a proxy that no init container captures for. A status that
/// cannot be parsed lists anything.
fn needs_plugin(status: &str, annotations: &BTreeMap<String, String>) -> bool {
    #[derive(Deserialize)]
    struct Status {
        #[serde(rename = "initContainers")]
        init_containers: Option<Vec<String>>,
        containers: Option<Vec<String>>,
    }
    let Ok(status) = serde_json::from_str::<Status>(status) else { return true };
    let lists = |name| {
        let mut all = status.init_containers.iter().chain(&status.containers).flatten();
        all.any(|listed| listed == name)
    };
    let is_uncaptured = annotations.get(INTERCEPTION_MODE).is_some_and(|mode| mode == UNCAPTURED);
    let is_other_proxy = annotations.get(TEMPLATES).is_some_and(|templates| {
        templates.split(',').all(|name| OTHER_PROXIES.contains(&name.trim()))
    });
    lists(VALIDATION)
        || lists(PROXY) && !lists(CAPTURE_CONTAINER) && !is_uncaptured && !is_other_proxy
}

const NAMELESS: &str = "CNI_ARGS has no K8S_POD_NAMESPACE and K8S_POD_NAME in UTF-8, although the \
                        annotations are those of a pod with a sidecar";
const PASSED_ARGS: &str = "container runtimes pass both; a tool that calls the plugin needs \
                           CNI_ARGS=K8S_POD_NAMESPACE=…;K8S_POD_NAME=…";
/// Hint about a request that no setting of the pod explains.
const REWRITTEN: &str = "correct the pod's annotations for its capture, and create it anew";
/// Origin of a request that the injector has written.
pub const OF_ANNOTATION: &str = "annotation sidecar.outrigger.io/capture";
/// Origin of a request of a pod of another injector.
pub const OF_AGENT: &str = "capture request from the node agent";
/// Annotation of every injected pod.
pub const STATUS: &str = "sidecar.istio.io/status";
/// Annotation with the mode of the capture.
pub const INTERCEPTION_MODE: &str = "sidecar.istio.io/interceptionMode";
/// Mode of a pod whose traffic is not captured.
pub const UNCAPTURED: &str = "NONE";
/// Container of the proxy.
pub const PROXY: &str = "istio-proxy";
/// The init container that programs the capture itself.
pub const CAPTURE_CONTAINER: &str = "istio-init";
/// Annotation with the names of the templates by which the pod was injected.
const TEMPLATES: &str = "inject.istio.io/templates";
/// Istio's templates of proxies that are no sidecars of captured pods.
const OTHER_PROXIES: [&str; 6] =
    ["gateway", "grpc-agent", "grpc-simple", "kube-gateway", "waypoint", "agentgateway"];
/// The init container that checks the rules of a plugin.
pub const VALIDATION: &str = "istio-validation";

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(runtime_config: &str) -> Result<Decision, CniError> {
        let input = format!(
            r#"{{"cniVersion":"1.0.0","exclude_namespaces":["kube-system"],
                "runtimeConfig":{runtime_config}}}"#
        );
        let config = NetworkConfig::parse(input.as_bytes()).unwrap();
        let pod = PodIdentity::parse("K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web").unwrap();
        decide(&config, Some(&pod))
    }

    fn with_annotations(annotations: &str) -> Result<Decision, CniError> {
        decision(&format!(r#"{{"io.kubernetes.cri.pod-annotations":{{{annotations}}}}}"#))
    }

    #[test]
    fn pods_are_decided_by_their_annotations() {
        use Decision::{Ask, Capture, Pass};
        let validated =
            r#""sidecar.istio.io/status":"{\"initContainers\":[\"istio-validation\"]}""#;
        let own =
            r#""sidecar.istio.io/status":"{\"initContainers\":[\"istio-init\",\"istio-proxy\"]}""#;
        let proxy = |further: &str| {
            let status = r#""sidecar.istio.io/status":"{\"containers\":[\"istio-proxy\"]}""#;
            format!("{status}{further}")
        };
        let request = r#""sidecar.outrigger.io/capture":"{\"args\":[\"-i\",\"*\"]}""#;
        let capture = CaptureRequest { args: vec!["-i".into(), "*".into()], ..Default::default() };
        for (annotations, expected) in [
            (String::new(), Pass(PassReason::NoSidecar)),
            (request.to_owned(), Pass(PassReason::NoSidecar)),
            (own.to_owned(), Pass(PassReason::NotByPlugin)),
            (r#""sidecar.istio.io/status":"{}""#.to_owned(), Pass(PassReason::NotByPlugin)),
            (proxy(""), Ask(AskReason::NoRequest)),
            (proxy(r#","inject.istio.io/templates":"sidecar, mine""#), Ask(AskReason::NoRequest)),
            (proxy(r#","inject.istio.io/templates":"gateway""#), Pass(PassReason::NotByPlugin)),
            (
                proxy(r#","sidecar.istio.io/interceptionMode":"NONE""#),
                Pass(PassReason::NotByPlugin),
            ),
            (validated.to_owned(), Ask(AskReason::NoRequest)),
            (r#""sidecar.istio.io/status":"?""#.to_owned(), Ask(AskReason::NoRequest)),
            (format!("{validated},{request}"), Capture(capture)),
        ] {
            assert_eq!(with_annotations(&annotations).unwrap(), expected, "{annotations}");
        }
        assert_eq!(decision("{}").unwrap(), Ask(AskReason::NoAnnotations));
    }

    #[test]
    fn invalid_request_names_pod_and_annotation() {
        let error = with_annotations(
            r#""sidecar.istio.io/status":"{}","sidecar.outrigger.io/capture":"[""#,
        )
        .unwrap_err();
        assert!(
            error.message.starts_with(
                "pod shop/web: annotation sidecar.outrigger.io/capture: it is not a capture request: "
            ),
            "{error}"
        );
    }

    #[test]
    fn excluded_namespaces_and_calls_without_a_pod_pass() {
        let input = br#"{"cniVersion":"1.0.0","exclude_namespaces":["kube-system"]}"#;
        let config = NetworkConfig::parse(input).unwrap();
        let pod = PodIdentity::parse("K8S_POD_NAMESPACE=kube-system;K8S_POD_NAME=dns").unwrap();
        let excluded = Decision::Pass(PassReason::ExcludedNamespace);
        assert_eq!(decide(&config, Some(&pod)).unwrap(), excluded);
        assert_eq!(decide(&config, None).unwrap(), Decision::Pass(PassReason::NoPod));
        let nameless = br#"{"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{
            "sidecar.istio.io/status":"{}"}}}"#;
        let error = decide(&NetworkConfig::parse(nameless).unwrap(), None).unwrap_err();
        assert_eq!(error.code, Code::InvalidEnvironment);
    }
}
