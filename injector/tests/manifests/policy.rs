//! That what is installed has no more rights than it uses, and cannot lock the cluster.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, RuleWithOperations,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMap, Container, Namespace, PodSpec, ServiceAccount,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::documents::{documents, entries, installed, selects, services};

#[test]
fn rights_are_pinned_by_name() {
    let role: Role = installed("Role");
    let cluster_role: ClusterRole = installed("ClusterRole");
    let rules = role.rules.into_iter().chain(cluster_role.rules).flatten();
    let granted: Vec<String> = rules.map(|rule| in_words(&rule)).collect();
    assert_eq!(
        granted,
        [
            "secrets sidecar-injector-ca: get list watch update",
            "secrets (any name): create",
            "configmaps istio-sidecar-injector istio: get list watch",
            "admissionregistration.k8s.io/mutatingwebhookconfigurations istio-sidecar-injector: \
             get list watch patch",
        ]
    );

    let account: ServiceAccount = installed("ServiceAccount");
    assert_eq!(account.automount_service_account_token, Some(false));
    let subject = ("ServiceAccount", account.metadata.name, account.metadata.namespace);
    let binding: RoleBinding = installed("RoleBinding");
    let cluster_binding: ClusterRoleBinding = installed("ClusterRoleBinding");
    for (role, subjects, expected) in [
        (binding.role_ref, binding.subjects, role.metadata.name),
        (cluster_binding.role_ref, cluster_binding.subjects, cluster_role.metadata.name),
    ] {
        assert_eq!(Some(role.name), expected);
        for one in subjects.unwrap() {
            assert_eq!((one.kind.as_str(), Some(one.name), one.namespace), subject);
        }
    }
}

#[test]
fn the_names_that_rights_are_pinned_to_exist() {
    let maps: BTreeMap<String, BTreeSet<String>> = documents("install.yaml")
        .into_iter()
        .filter(|document| document["kind"] == "ConfigMap")
        .map(|document| serde_json::from_value::<ConfigMap>(document).unwrap())
        .map(|map| (map.metadata.name.unwrap(), map.data.unwrap().into_keys().collect()))
        .collect();
    let keys = |keys: &[&str]| keys.iter().map(ToString::to_string).collect();
    assert_eq!(
        maps,
        BTreeMap::from([
            ("istio".to_owned(), keys(&["mesh"])),
            ("istio-sidecar-injector".to_owned(), keys(&["config", "values"])),
        ])
    );
    let webhook: MutatingWebhookConfiguration = installed("MutatingWebhookConfiguration");
    assert_eq!(webhook.metadata.name.unwrap(), "istio-sidecar-injector");
}

#[test]
fn the_injector_runs_with_nothing_it_does_not_need() {
    let namespace: Namespace = installed("Namespace");
    let labels = namespace.metadata.labels.unwrap();
    assert_eq!(labels["istio-injection"], "disabled");
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "restricted");

    let deployment: Deployment = installed("Deployment");
    let spec = deployment.spec.unwrap();
    assert!(spec.replicas.unwrap() >= 2);
    let pod = spec.template.spec.unwrap();
    assert_restricted(&pod);
    assert_eq!(pod.automount_service_account_token, Some(false));
    assert_eq!(pod.enable_service_links, Some(false));
    assert_eq!(spec.template.metadata.unwrap().labels.unwrap()["sidecar.istio.io/inject"], "false");
    let volumes = pod.volumes.unwrap();
    assert!(
        volumes.iter().all(|volume| volume.projected.is_some()),
        "nothing writable: {volumes:?}"
    );

    let container = &pod.containers[0];
    assert!(!tag(container).is_empty() && tag(container) != "latest");
    let resources = container.resources.as_ref().unwrap();
    assert!(resources.requests.as_ref().unwrap().contains_key("cpu"));
    assert!(resources.limits.as_ref().unwrap().contains_key("memory"));
    assert!(!resources.limits.as_ref().unwrap().contains_key("cpu"), "throttling delays every pod");
    for probe in [&container.startup_probe, &container.readiness_probe, &container.liveness_probe] {
        let http = probe.as_ref().unwrap().http_get.as_ref().unwrap();
        assert_eq!(http.port, IntOrString::String("http-monitoring".to_owned()));
        assert_eq!(http.scheme, None, "probes stay off the TLS port");
    }
}

#[test]
fn everything_that_selects_the_injector_selects_its_pods() {
    let deployment: Deployment = installed("Deployment");
    let spec = deployment.spec.unwrap();
    let labels = spec.template.metadata.unwrap().labels.unwrap();
    let pod = spec.template.spec.unwrap();
    let budget: PodDisruptionBudget = installed("PodDisruptionBudget");
    let spread = pod.topology_spread_constraints.unwrap().into_iter().map(|one| one.label_selector);
    let selectors = [Some(spec.selector), budget.spec.unwrap().selector].into_iter().chain(spread);
    for selector in selectors.map(Option::unwrap) {
        assert!(selects(&selector, &labels), "{selector:?}");
    }
    let ports: BTreeMap<String, i32> = pod.containers[0]
        .ports
        .iter()
        .flatten()
        .map(|port| (port.name.clone().unwrap(), port.container_port))
        .collect();
    for service in services() {
        let spec = service.spec.unwrap();
        assert!(spec.selector.unwrap().iter().all(|(key, value)| labels.get(key) == Some(value)));
        for port in spec.ports.unwrap() {
            assert_eq!(port.target_port, Some(IntOrString::Int(ports[&port.name.unwrap()])));
        }
    }
}

#[test]
fn every_webhook_entry_is_complete_and_cannot_lock_the_cluster() {
    for entry in entries() {
        let name = &entry.name;
        assert_eq!(entry.failure_policy.as_deref(), Some("Fail"), "{name}");
        assert_eq!(entry.reinvocation_policy.as_deref(), Some("Never"), "{name}");
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
        let conditions = entry.match_conditions.unwrap();
        assert_eq!(conditions.len(), 1, "{name}: other skips are answered with a warning");
        assert!(conditions[0].expression.contains("kubernetes.io/config.mirror"), "{name}");

        assert!(entry.client_config.ca_bundle.is_none(), "{name}: caBundle is the injector's");
        let called = entry.client_config.service.unwrap();
        assert_eq!(called.path.as_deref(), Some("/inject"), "{name}");
        let service = services()
            .into_iter()
            .find(|service| service.metadata.name.as_deref() == Some(&called.name))
            .unwrap();
        assert_eq!(service.metadata.namespace.unwrap(), called.namespace, "{name}");
        let ports = service.spec.unwrap().ports.unwrap();
        assert!(ports.iter().any(|port| Some(port.port) == called.port), "{name}");
    }
}

#[test]
fn the_examples_need_no_rights() {
    for file in ["examples/web.yaml", "examples/client.yaml"] {
        let documents = documents(file);
        for document in documents.iter().filter(|document| document["kind"] == "Deployment") {
            let deployment: Deployment = serde_json::from_value(document.clone()).unwrap();
            assert_eq!(deployment.metadata.namespace, None, "{file}: goes into any namespace");
            assert_restricted(&deployment.spec.unwrap().template.spec.unwrap());
        }
    }
}

/// What the Pod Security Standard `restricted` asks for, and a read-only root.
fn assert_restricted(pod: &PodSpec) {
    let context = pod.security_context.as_ref().unwrap();
    assert_eq!(context.run_as_non_root, Some(true));
    assert_eq!(context.seccomp_profile.as_ref().unwrap().type_, "RuntimeDefault");
    assert!(pod.host_network.is_none() && pod.host_pid.is_none() && pod.host_ipc.is_none());
    for container in &pod.containers {
        let context = container.security_context.as_ref().unwrap();
        assert_eq!(context.allow_privilege_escalation, Some(false), "{}", container.name);
        assert_eq!(context.read_only_root_filesystem, Some(true), "{}", container.name);
        let dropped = Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) };
        assert_eq!(context.capabilities, Some(dropped), "{}", container.name);
    }
}

fn tag(container: &Container) -> &str {
    container.image.as_deref().unwrap().rsplit_once(':').map_or("", |(_, tag)| tag)
}

fn in_words(rule: &PolicyRule) -> String {
    let list = |list: &Option<Vec<String>>| list.as_deref().unwrap_or_default().join(" ");
    let group = list(&rule.api_groups);
    let slash = if group.is_empty() { "" } else { "/" };
    let names = match list(&rule.resource_names) {
        names if names.is_empty() => "(any name)".to_owned(),
        names => names,
    };
    format!("{group}{slash}{} {names}: {}", list(&rule.resources), rule.verbs.join(" "))
}
