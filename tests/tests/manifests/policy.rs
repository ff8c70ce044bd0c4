//! Security of the installation: it runs with minimal privileges, and cannot lock the cluster.

use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Capabilities, Container, Namespace, PodSpec, Volume};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use crate::documents::{Rendering, documents, renderings};

#[test]
fn namespace_enforces_the_restricted_standard() {
    for rendering in renderings() {
        let namespaces: Vec<Namespace> = rendering.all("Namespace");
        let shared = ["no-namespace", "revision", "istiod"];
        let is_shared = shared.into_iter().any(|component| rendering.has(component));
        assert_eq!(namespaces.is_empty(), is_shared, "{:?}", rendering.composition);
        for namespace in namespaces {
            let labels = namespace.metadata.labels.unwrap();
            assert_eq!(labels["istio-injection"], "disabled");
            for mode in ["enforce", "audit", "warn"] {
                assert_eq!(labels[&format!("pod-security.kubernetes.io/{mode}")], "restricted");
            }
        }
    }
}

#[test]
fn injector_runs_with_least_privilege() {
    for rendering in renderings() {
        let what = format!("{:?}", rendering.composition);
        let spec = deployment(rendering);
        assert_eq!(
            spec.template.metadata.unwrap().labels.unwrap()["sidecar.istio.io/inject"],
            "false"
        );
        let pod = spec.template.spec.unwrap();
        assert_restricted(&pod);
        if rendering.has("openshift") {
            let context = pod.security_context.as_ref().unwrap();
            assert_eq!((context.run_as_user, context.run_as_group), (None, None), "{what}");
        } else {
            assert!(pod.security_context.as_ref().unwrap().run_as_user.unwrap() > 0, "{what}");
        }
        assert_eq!(pod.automount_service_account_token, Some(false), "{what}");
        assert_eq!(pod.enable_service_links, Some(false), "{what}");
        let mounts = pod.containers[0].volume_mounts.iter().flatten();
        for mount in mounts {
            assert_eq!(mount.read_only, Some(true), "{what}: {}", mount.name);
            assert!(mount.sub_path.is_none(), "{what}: {}: never changes", mount.name);
        }

        let container = &pod.containers[0];
        assert!(!tag(container).is_empty() && tag(container) != "latest");
        let resources = container.resources.as_ref().unwrap();
        let (requests, limits) =
            (resources.requests.as_ref().unwrap(), resources.limits.as_ref().unwrap());
        assert!(requests.contains_key("cpu") && requests.contains_key("memory"), "{what}");
        assert!(limits.contains_key("memory"), "{what}");
        assert!(!limits.contains_key("cpu"), "{what}: throttling delays every pod");
        let probes =
            [&container.startup_probe, &container.readiness_probe, &container.liveness_probe];
        for probe in probes {
            let http = probe.as_ref().unwrap().http_get.as_ref().unwrap();
            assert_eq!(http.port, IntOrString::String("http-probe".to_owned()));
            assert_eq!(http.scheme, None, "probes stay off the TLS port");
            let ports = container.ports.iter().flatten();
            let port = ports.filter(|port| port.name.as_deref() == Some("http-probe"));
            let flag = |port: i32| format!("--probeAddr=:{port}");
            let flags: Vec<_> = port.map(|port| flag(port.container_port)).collect();
            assert!(container.args.iter().flatten().any(|arg| flags.contains(arg)), "{what}");
        }
    }
}

#[test]
fn rollout_or_drain_leaves_a_replica() {
    for rendering in renderings() {
        let what = format!("{:?}", rendering.composition);
        let spec = deployment(rendering);
        let replicas = spec.replicas.unwrap_or(3);
        assert!(replicas >= 2, "{what}");
        assert!(spec.min_ready_seconds >= Some(5), "{what}");
        let rolling = spec.strategy.unwrap().rolling_update.unwrap();
        assert_eq!(rolling.max_unavailable, Some(IntOrString::Int(0)), "{what}");
        let budget: PodDisruptionBudget = rendering.one("PodDisruptionBudget");
        let budget = budget.spec.unwrap();
        assert_eq!(budget.max_unavailable, Some(IntOrString::Int(1)), "{what}");
        assert_eq!(budget.unhealthy_pod_eviction_policy.as_deref(), Some("AlwaysAllow"), "{what}");
        let pod = spec.template.spec.unwrap();
        // 10 s until endpoints are updated, 20 s for calls in flight.
        assert!(pod.termination_grace_period_seconds >= Some(35), "{what}");
        let constraints = pod.topology_spread_constraints.unwrap().into_iter();
        let keys: Vec<String> = constraints.map(|one| one.topology_key).collect();
        assert_eq!(keys, ["kubernetes.io/hostname", "topology.kubernetes.io/zone"], "{what}");
    }
}

#[test]
fn every_webhook_entry_is_complete_and_cannot_lock_the_cluster() {
    for rendering in renderings() {
        for (configuration, entry) in rendering.entries() {
            let name = format!("{:?}: {configuration} {}", rendering.composition, entry.name);
            let failure = if rendering.has("fail-open") { "Ignore" } else { "Fail" };
            assert_eq!(entry.failure_policy.as_deref(), Some(failure), "{name}");
            // Later webhooks may add containers, or drop fields that they do not know.
            assert_eq!(entry.reinvocation_policy.as_deref(), Some("IfNeeded"), "{name}");
            assert_eq!(entry.match_policy.as_deref(), Some("Equivalent"), "{name}");
            assert_eq!(entry.timeout_seconds, Some(5), "{name}");
            assert_eq!(entry.side_effects, "None", "{name}");
            assert_eq!(entry.admission_review_versions, ["v1"], "{name}");
            assert_eq!(
                entry.rules.unwrap(),
                [RuleWithOperations {
                    api_groups: Some(vec![String::new()]),
                    api_versions: Some(vec!["v1".to_owned()]),
                    operations: Some(vec!["CREATE".to_owned()]),
                    resources: Some(vec!["pods".to_owned()]),
                    scope: Some("Namespaced".to_owned()),
                }],
                "{name}"
            );
            let conditions = entry.match_conditions.unwrap().into_iter();
            let conditions: Vec<_> = conditions.map(|condition| condition.name).collect();
            let mut expected = vec!["not-a-mirror-pod"];
            if rendering.has("istiod") && configuration.starts_with("sidecar-injector") {
                expected.push("not-injected-by-istiod");
            }
            assert_eq!(conditions, expected, "{name}: other skips are answered with a warning");
            let called = entry.client_config.service.unwrap();
            assert_eq!(called.path.as_deref(), Some("/inject"), "{name}");
        }
    }
}

/// A manifest with a `caBundle` would overwrite the injector's at every apply.
#[test]
fn no_rendering_has_a_ca_bundle() {
    fn has_key(value: &Value, key: &str) -> bool {
        match value {
            Value::Object(map) => {
                map.contains_key(key) || map.values().any(|value| has_key(value, key))
            }
            Value::Array(list) => list.iter().any(|value| has_key(value, key)),
            _ => false,
        }
    }
    for rendering in renderings() {
        for document in &rendering.documents {
            assert!(!has_key(document, "caBundle"), "{:?}", rendering.composition);
        }
    }
}

#[test]
fn examples_need_no_permissions() {
    for file in ["examples/web.yaml", "examples/client.yaml"] {
        let documents = documents(file);
        for document in documents.iter().filter(|document| document["kind"] == "Deployment") {
            let deployment: Deployment = serde_json::from_value(document.clone()).unwrap();
            assert_eq!(deployment.metadata.namespace, None, "{file}: goes into any namespace");
            assert_restricted(&deployment.spec.unwrap().template.spec.unwrap());
        }
    }
}

fn deployment(rendering: &Rendering) -> DeploymentSpec {
    rendering.one::<Deployment>("Deployment").spec.unwrap()
}

/// Checks the Pod Security Standard `restricted`, and a read-only root file system.
pub(crate) fn assert_restricted(pod: &PodSpec) {
    let context = pod.security_context.as_ref().unwrap();
    assert_eq!(context.run_as_non_root, Some(true));
    assert_ne!(context.run_as_user, Some(0));
    assert_eq!(context.seccomp_profile.as_ref().unwrap().type_, "RuntimeDefault");
    assert!(context.sysctls.is_none() && context.se_linux_options.is_none());
    assert!(pod.host_network.is_none() && pod.host_pid.is_none() && pod.host_ipc.is_none());
    assert!(pod.init_containers.is_none() && pod.ephemeral_containers.is_none());
    assert!(pod.volumes.iter().flatten().all(is_harmless), "{:?}", pod.volumes);
    for container in &pod.containers {
        let context = container.security_context.as_ref().unwrap();
        assert_eq!(context.allow_privilege_escalation, Some(false), "{}", container.name);
        assert_eq!(context.read_only_root_filesystem, Some(true), "{}", container.name);
        assert!(context.privileged.is_none() && context.run_as_user.is_none());
        let dropped = Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) };
        assert_eq!(context.capabilities, Some(dropped), "{}", container.name);
        assert!(container.ports.iter().flatten().all(|port| port.host_port.is_none()));
    }
}

/// True if the volume is not of the node and not writable.
fn is_harmless(volume: &Volume) -> bool {
    volume.projected.is_some() || volume.secret.is_some() || volume.config_map.is_some()
}

fn tag(container: &Container) -> &str {
    container.image.as_deref().unwrap().rsplit_once(':').map_or("", |(_, tag)| tag)
}
