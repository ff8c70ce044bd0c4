//! Effects of components on the injector: flag, permission, mount and webhook entry.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, RuleWithOperations,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{PodSpec, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::custom::{Custom, PrometheusRuleSpec};
use crate::documents::{Labels, Rendering, renderings, selects};
use crate::rights::granted;

#[test]
fn client_cas_are_mounted() {
    for rendering in renderings().iter().filter(|one| one.has("client-certificates")) {
        let pod = pod(rendering);
        let args = pod.containers[0].args.clone().unwrap();
        let file = flag(&args, "--client-ca-file=").unwrap();
        // One ConfigMap for all revisions, since the same API servers call all of them.
        assert_eq!(mounted(&pod, file), "sidecar-injector-client-ca/ca.crt");
        // With the CA alone, any kubelet could call.
        assert_eq!(flag(&args, "--client-allowed-names="), Some("kube-apiserver"));
        let is_read = granted(rendering).iter().any(|right| right.contains("client-ca"));
        assert!(!is_read, "it is mounted");
    }
}

#[test]
fn cluster_signer_replaces_the_secret() {
    for rendering in renderings() {
        let args = pod(rendering).containers[0].args.clone().unwrap();
        let signer = flag(&args, "--signer-name=");
        assert_eq!(signer.is_some(), rendering.has("csr"), "{:?}", rendering.composition);
        assert_eq!(args.contains(&"--approve-csr".to_owned()), rendering.has("csr-approval"));
        let rights = granted(rendering);
        let approves = rights.iter().find(|right| right.ends_with(": approve"));
        assert_eq!(approves.is_some(), rendering.has("csr-approval"));
        let Some(signer) = signer else { continue };
        assert_eq!(flag(&args, "--cert-mode="), Some("csr"));
        assert!(approves.is_none_or(|right| right.contains(signer)), "another signer");
        let file = flag(&args, "--signer-ca-file=").unwrap();
        assert_eq!(mounted(&pod(rendering), file), "sidecar-injector-signer-ca/ca.crt");
    }
}

#[test]
fn trust_probe_has_its_own_entry_and_permission() {
    for rendering in renderings() {
        let configurations: Vec<MutatingWebhookConfiguration> =
            rendering.all("MutatingWebhookConfiguration");
        let entries = configurations.into_iter().flat_map(|one| one.webhooks.unwrap());
        let mut probes = entries.filter(|entry| entry.name.starts_with("probe."));
        let args = pod(rendering).containers[0].args.clone().unwrap();
        let may_create = "configmaps (any name): create".to_owned();
        if !rendering.has("trust-probe") {
            assert!(probes.next().is_none() && !args.contains(&"--trust-probe".to_owned()));
            assert!(!granted(rendering).contains(&may_create));
            continue;
        }
        assert!(args.contains(&"--trust-probe".to_owned()));
        assert!(granted(rendering).contains(&may_create));
        let probe = probes.next().unwrap();
        assert!(probes.next().is_none(), "one is enough");
        // With `Ignore`, the probe would not notice a failure.
        assert_eq!(probe.failure_policy.as_deref(), Some("Fail"));
        assert_eq!(
            probe.rules.unwrap(),
            [RuleWithOperations {
                api_groups: Some(vec![String::new()]),
                api_versions: Some(vec!["v1".to_owned()]),
                operations: Some(vec!["CREATE".to_owned()]),
                resources: Some(vec!["configmaps".to_owned()]),
                scope: Some("Namespaced".to_owned()),
            }]
        );
        let called = probe.client_config.service.unwrap();
        let services: Vec<Service> = rendering.all("Service");
        assert!(services.iter().any(|one| one.metadata.name.as_ref() == Some(&called.name)));

        // Only the labelled ConfigMap in the injector's namespace is sent to the injector.
        let labels = |key: &str, value: &str| Labels::from([(key.to_owned(), value.to_owned())]);
        let matched = |selector: &Option<LabelSelector>, labels: &Labels| {
            selects(selector.as_ref().unwrap(), labels)
        };
        let name = "kubernetes.io/metadata.name";
        assert!(matched(&probe.namespace_selector, &labels(name, "istio-system")));
        assert!(!matched(&probe.namespace_selector, &labels(name, "kube-system")));
        assert!(!matched(&probe.object_selector, &Labels::new()));
        let container = &pod(rendering).containers[0];
        let mut env = container.env.iter().flatten();
        let revision = env.find(|one| one.name == "REVISION").and_then(|one| one.value.clone());
        let revision = revision.unwrap_or_else(|| "default".to_owned());
        for other in ["default", "canary", "true"] {
            let is_called = matched(&probe.object_selector, &labels("outrigger.io/probe", other));
            let is_own = other == revision && !rendering.has("dormant");
            assert_eq!(is_called, is_own, "{:?}: {other}", rendering.composition);
        }
    }
}

#[test]
fn reports_come_with_permission_to_list_pods() {
    for rendering in renderings() {
        let args = pod(rendering).containers[0].args.clone().unwrap();
        let is_asked_for = flag(&args, "--report-interval=").is_some();
        assert_eq!(is_asked_for, rendering.has("reports"), "{:?}", rendering.composition);
        let rights = granted(rendering);
        for right in REPORTS {
            assert_eq!(rights.contains(&right.to_owned()), is_asked_for, "{right}");
        }
        let rules: Vec<Custom<PrometheusRuleSpec>> = rendering.all("PrometheusRule");
        let groups = rules.into_iter().flat_map(|one| one.spec.groups);
        let mut alerts = groups.flat_map(|group| group.rules).map(|rule| rule.alert);
        let is_watched = alerts.any(|alert| alert == "PodsWithoutSidecar");
        assert_eq!(is_watched, is_asked_for && rendering.has("prometheus"));
    }
}

/// Permissions that only reports need.
pub(crate) const REPORTS: [&str; 4] = [
    "pods namespaces (any name): list",
    "events (any name): create",
    "apps/deployments (any name): get",
    "batch/cronjobs (any name): get",
];

fn pod(rendering: &Rendering) -> PodSpec {
    rendering.one::<Deployment>("Deployment").spec.unwrap().template.spec.unwrap()
}

/// Returns the `ConfigMap` and key mounted at a path in the container.
fn mounted(pod: &PodSpec, path: &str) -> String {
    let (folder, key) = path.rsplit_once('/').unwrap();
    let mut mounts = pod.containers[0].volume_mounts.iter().flatten();
    let mount = mounts.find(|mount| mount.mount_path == folder).unwrap();
    let volume = pod.volumes.iter().flatten().find(|one| one.name == mount.name).unwrap();
    format!("{}/{key}", volume.config_map.as_ref().unwrap().name)
}

fn flag<'a>(args: &'a [String], flag: &str) -> Option<&'a str> {
    args.iter().find_map(|arg| arg.strip_prefix(flag))
}
