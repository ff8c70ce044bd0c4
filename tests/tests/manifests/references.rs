//! References: every name and every selector has a target.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use kube_access::names::RESERVED_REVISIONS;
use webhook_certs::cluster::Options;

use crate::custom::{CertificateSpec, Custom, IssuerSpec, ServiceMonitorSpec};
use crate::documents::{Rendering, renderings, selects};

#[test]
fn selectors_of_the_injector_match_its_pods() {
    for rendering in renderings() {
        let deployment: Deployment = rendering.one("Deployment");
        let spec = deployment.spec.unwrap();
        let labels = spec.template.metadata.unwrap().labels.unwrap();
        let pod = spec.template.spec.unwrap();
        let budget: PodDisruptionBudget = rendering.one("PodDisruptionBudget");
        let spread = pod.topology_spread_constraints.unwrap().into_iter();
        let policies = rendering.all::<NetworkPolicy>("NetworkPolicy").into_iter();
        let affinity = pod.affinity.and_then(|one| one.pod_anti_affinity).into_iter();
        let apart = affinity
            .flat_map(|one| one.required_during_scheduling_ignored_during_execution.unwrap());
        let selectors = [Some(spec.selector), budget.spec.unwrap().selector]
            .into_iter()
            .chain(spread.map(|one| one.label_selector))
            .chain(apart.map(|one| one.label_selector))
            .chain(policies.map(|one| one.spec.unwrap().pod_selector));
        for selector in selectors.map(Option::unwrap) {
            assert!(selects(&selector, &labels), "{:?}: {selector:?}", rendering.composition);
        }
        for scaler in rendering.all::<HorizontalPodAutoscaler>("HorizontalPodAutoscaler") {
            let target = scaler.spec.unwrap().scale_target_ref;
            assert_eq!(Some(target.name), deployment.metadata.name);
            assert_eq!(spec.replicas, None, "two would decide how many replicas there are");
        }
    }
}

#[test]
fn ports_are_the_same_everywhere() {
    for rendering in renderings() {
        let ports = container_ports(rendering);
        for service in rendering.all::<Service>("Service") {
            for port in service.spec.unwrap().ports.unwrap() {
                assert_eq!(port.target_port, Some(IntOrString::Int(ports[&port.name.unwrap()])));
            }
        }
        let policy: NetworkPolicy = rendering.one("NetworkPolicy");
        let spec = policy.spec.unwrap();
        let restricts = |way: &str| spec.policy_types.iter().flatten().any(|one| one == way);
        assert!(restricts("Ingress"));
        assert_eq!(restricts("Egress"), rendering.has("network-policy"));
        let mut closed = ports.clone();
        for rule in spec.ingress.unwrap() {
            let is_for_all = rule.from.is_none();
            let open: BTreeSet<i32> = rule
                .ports
                .unwrap()
                .into_iter()
                .map(|port| match port.port.unwrap() {
                    IntOrString::Int(port) => port,
                    IntOrString::String(name) => ports[&name],
                })
                .collect();
            assert_eq!(is_for_all, open == BTreeSet::from([ports["https-webhook"]]));
            closed.retain(|_, port| !open.contains(port));
        }
        // The port of the kubelet's probes, which come from the node.
        assert_eq!(closed.into_keys().collect::<Vec<_>>(), ["http-probe"]);
        for monitor in rendering.all::<Custom<ServiceMonitorSpec>>("ServiceMonitor") {
            let services = rendering.all::<Service>("Service").into_iter();
            let mut selected = services.filter(|service| {
                let labels = service.metadata.labels.clone().unwrap();
                selects(&monitor.spec.selector, &labels)
            });
            let service = selected.next().unwrap();
            assert!(selected.next().is_none(), "the webhook's Service has no metrics");
            let named = service.spec.unwrap().ports.unwrap().into_iter().map(|port| port.name);
            for endpoint in monitor.spec.endpoints {
                assert!(named.clone().any(|name| name.as_ref() == Some(&endpoint.port)));
            }
        }
    }
}

#[test]
fn service_account_of_the_pods_has_the_permissions() {
    for rendering in renderings() {
        let account: ServiceAccount = rendering.one("ServiceAccount");
        assert_eq!(account.automount_service_account_token, Some(false));
        let deployment: Deployment = rendering.one("Deployment");
        let pod = deployment.spec.unwrap().template.spec.unwrap();
        assert_eq!(pod.service_account_name, account.metadata.name);
        let subject = ("ServiceAccount", account.metadata.name, account.metadata.namespace);
        let bindings = rendering.all::<RoleBinding>("RoleBinding").into_iter();
        let bindings = bindings.map(|one| (one.role_ref, one.subjects));
        let of_cluster = rendering.all::<ClusterRoleBinding>("ClusterRoleBinding").into_iter();
        for (role, subjects) in bindings.chain(of_cluster.map(|one| (one.role_ref, one.subjects))) {
            let name = if role.kind == "Role" {
                rendering.one::<Role>("Role").metadata.name
            } else {
                rendering.one::<ClusterRole>("ClusterRole").metadata.name
            };
            assert_eq!(Some(role.name), name);
            for one in subjects.unwrap() {
                assert_eq!((one.kind.as_str(), Some(one.name), one.namespace), subject);
            }
        }
    }
}

/// Permissions, flags and webhook configurations refer to each other by name.
#[test]
fn names_in_roles_exist() {
    for rendering in renderings() {
        let what = format!("{:?}", rendering.composition);
        let configurations: BTreeSet<String> =
            rendering.entries().into_iter().map(|(configuration, _)| configuration).collect();
        let deployment: Deployment = rendering.one("Deployment");
        let pod = deployment.spec.unwrap().template.spec.unwrap();
        let args = pod.containers[0].args.clone().unwrap();
        let of_flag = |flag: &str| -> BTreeSet<String> {
            args.iter().filter_map(|arg| arg.strip_prefix(flag)).map(str::to_owned).collect()
        };
        assert_eq!(of_flag("--webhook-configuration="), configurations, "{what}");
        let service = of_flag("--service=");
        for (_, entry) in rendering.entries() {
            let called = entry.client_config.service.unwrap();
            assert!(service.contains(&called.name), "{what}");
            let services = rendering.all::<Service>("Service");
            let found =
                services.iter().find(|one| one.metadata.name.as_ref() == Some(&called.name));
            let found = found.unwrap_or_else(|| panic!("{what}: {}", called.name));
            assert_eq!(found.metadata.namespace.as_ref(), Some(&called.namespace), "{what}");
            let ports = found.spec.as_ref().unwrap().ports.as_ref().unwrap();
            assert!(ports.iter().any(|port| Some(port.port) == called.port), "{what}");
        }
        for role in rendering.all::<ClusterRole>("ClusterRole") {
            let hooks = Some(vec!["mutatingwebhookconfigurations".to_owned()]);
            let rules = role.rules.unwrap().into_iter().filter(|rule| rule.resources == hooks);
            let names = rules.filter_map(|rule| rule.resource_names);
            assert_eq!(names.flatten().collect::<BTreeSet<_>>(), configurations, "{what}");
        }

        let maps = rendering.all::<ConfigMap>("ConfigMap").into_iter();
        let maps: BTreeMap<String, BTreeSet<String>> = maps
            .map(|map| (map.metadata.name.unwrap(), map.data.unwrap().into_keys().collect()))
            .filter(|(name, _)| !name.starts_with("sidecar-injector-dashboard"))
            .collect();
        if rendering.has("istiod") {
            assert!(maps.is_empty(), "{what}: istiod's would be overwritten");
        } else {
            let suffix =
                rendering.composition.revision.map_or(String::new(), |one| format!("-{one}"));
            let keys = |keys: &[&str]| keys.iter().map(ToString::to_string).collect();
            let expected = BTreeMap::from([
                (format!("istio{suffix}"), keys(&["mesh"])),
                (format!("istio-sidecar-injector{suffix}"), keys(&["config", "values"])),
            ]);
            assert_eq!(maps, expected, "{what}");
            let read: BTreeSet<String> = if rendering.has("files") || rendering.has("cert-manager")
            {
                let volumes = pod.volumes.unwrap().into_iter();
                volumes.filter_map(|volume| Some(volume.config_map?.name)).collect()
            } else {
                let rules = rendering.one::<Role>("Role").rules.unwrap().into_iter();
                let maps =
                    rules.filter(|rule| rule.resources == Some(vec!["configmaps".to_owned()]));
                maps.filter_map(|rule| rule.resource_names).flatten().collect()
            };
            assert_eq!(read, maps.into_keys().collect(), "{what}");
        }
    }
}

/// Two revisions have no object in common.
#[test]
fn revisions_share_no_object() {
    let objects = |rendering: &Rendering| -> BTreeSet<String> {
        let name = |document: &serde_json::Value| {
            format!("{} {}", document["kind"], document["metadata"]["name"])
        };
        rendering.documents.iter().map(name).collect()
    };
    let find = |revision| {
        let of = move |one: &&Rendering| one.composition.revision == revision;
        // A tag may point at any of them.
        let is_alone =
            |one: &&Rendering| one.composition.tags.is_empty() && !one.has("default-tag");
        renderings().iter().filter(of).filter(is_alone).map(objects)
    };
    let default: BTreeSet<String> = find(None).flatten().collect();
    let canary: BTreeSet<String> = find(Some("canary")).flatten().collect();
    let other: BTreeSet<String> = find(Some("1-28")).flatten().collect();
    assert!(default.is_disjoint(&canary) && canary.is_disjoint(&other));
    assert!(default.is_disjoint(&other));
}

/// The name of a revision's object has the revision as suffix. A name that extends another one of
/// its kind would therefore collide with an object of some revision.
#[test]
fn name_suffixes_of_objects_are_reserved_revisions() {
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for rendering in renderings().iter().filter(|one| one.composition.revision.is_none()) {
        let mut add = |kind: &str, name: &serde_json::Value| {
            let name = name.as_str().unwrap().to_owned();
            names.entry(kind.to_owned()).or_default().insert(name);
        };
        for document in &rendering.documents {
            add(document["kind"].as_str().unwrap(), &document["metadata"]["name"]);
            if document["kind"] == "Certificate" {
                add("Secret", &document["spec"]["secretName"]);
            }
        }
        add("Secret", &serde_json::json!(Options::default().secret_name));
    }
    let is_tag = |name: &str| name.starts_with("istio-revision-tag-");
    let found: BTreeSet<&str> = names
        .values()
        .flat_map(|names| names.iter().map(move |name| (name, names)))
        .filter(|(name, _)| !is_tag(name))
        .flat_map(|(name, names)| {
            let after = names.iter().filter_map(move |other| other.strip_prefix(name.as_str()));
            after.filter_map(|after| after.strip_prefix('-'))
        })
        .collect();
    assert_eq!(found, BTreeSet::from(RESERVED_REVISIONS));
}

#[test]
fn certificates_name_the_service_and_are_mounted() {
    let with = renderings().iter().filter(|one| one.has("cert-manager"));
    for rendering in with {
        let certificates: Vec<Custom<CertificateSpec>> = rendering.all("Certificate");
        let issuers: Vec<Custom<IssuerSpec>> = rendering.all("Issuer");
        let leaf = certificates.iter().find(|one| one.spec.dns_names.is_some()).unwrap();
        let deployment: Deployment = rendering.one("Deployment");
        let pod = deployment.spec.unwrap().template.spec.unwrap();
        let mut mounted = pod.volumes.unwrap().into_iter().filter_map(|volume| volume.secret);
        assert_eq!(mounted.next().unwrap().secret_name.as_ref(), Some(&leaf.spec.secret_name));
        for (_, entry) in rendering.entries() {
            let service = entry.client_config.service.unwrap();
            let name = format!("{}.{}.svc", service.name, service.namespace);
            assert_eq!(leaf.spec.dns_names.as_ref().unwrap(), &[name]);
        }
        let from = format!("istio-system/{}", leaf.metadata.name.as_ref().unwrap());
        let configurations =
            rendering.documents.iter().filter(|one| one["kind"] == "MutatingWebhookConfiguration");
        for configuration in configurations {
            let annotations = &configuration["metadata"]["annotations"];
            assert_eq!(annotations["cert-manager.io/inject-ca-from"], from);
        }
        // The leaf, its issuer, the CA, its issuer.
        let issuer = |name: &str| {
            issuers.iter().find(|one| one.metadata.name.as_deref() == Some(name)).unwrap()
        };
        let of_leaf = issuer(&leaf.spec.issuer_ref.name).spec.ca.as_ref().unwrap();
        let is_ca = |one: &&Custom<CertificateSpec>| one.spec.is_ca == Some(true);
        let authority = certificates.iter().find(is_ca).unwrap();
        assert_eq!(of_leaf.secret_name, authority.spec.secret_name);
        assert!(issuer(&authority.spec.issuer_ref.name).spec.self_signed.is_some());
    }
}

/// Every account with permissions is guarded. The policies of one revision are not another's: they
/// are created and deleted with it.
#[test]
fn guard_policies_are_bound_and_match_the_account() {
    for rendering in renderings() {
        let is_left_out = ["no-guard-policy", "files", "cert-manager"];
        let is_left_out = is_left_out.iter().any(|one| rendering.has(one));
        let expected = if is_left_out { 0 } else { 2 + usize::from(rendering.has("trust-probe")) };
        let account = rendering.one::<ServiceAccount>("ServiceAccount").metadata.name.unwrap();
        let mut policies: Vec<ValidatingAdmissionPolicy> =
            rendering.all("ValidatingAdmissionPolicy");
        let mut bindings: Vec<ValidatingAdmissionPolicyBinding> =
            rendering.all("ValidatingAdmissionPolicyBinding");
        // This policy binds users, and has a test on an API server.
        let is_guard =
            |name: &Option<String>| name.as_ref().is_some_and(|one| !one.starts_with(REQUIRED));
        policies.retain(|one| is_guard(&one.metadata.name));
        bindings.retain(|one| is_guard(&one.metadata.name));
        if rendering.has("require-injection") {
            let kinds = rendering.documents.iter().map(|one| one["kind"].as_str().unwrap());
            let kept = kinds.filter(|kind| kind.starts_with("ValidatingAdmissionPolicy")).count();
            assert_eq!(kept, 2 * (expected + 1), "{:?}", rendering.composition);
        }
        let counts = (policies.len(), bindings.len());
        assert_eq!(counts, (expected, expected), "{:?}", rendering.composition);
        for policy in policies {
            let of_policy = |one: &ValidatingAdmissionPolicyBinding| {
                one.spec.as_ref().unwrap().policy_name == policy.metadata.name
            };
            let bound = bindings.iter().position(of_policy).unwrap();
            let binding = bindings.remove(bound).spec.unwrap();
            assert_eq!(binding.match_resources, None, "it is bound in a part of the cluster");
            assert!(binding.validation_actions.unwrap().contains(&"Deny".to_owned()));
            let spec = policy.spec.unwrap();
            assert_eq!(spec.failure_policy.as_deref(), Some("Fail"));
            let conditions = spec.match_conditions.unwrap().into_iter();
            let who = [
                r#"request.userInfo.username.startsWith("system:serviceaccount:") &&"#,
                &format!(r#"request.userInfo.username.endsWith(":" + "{account}") &&"#),
                r#"authorizer.group("admissionregistration.k8s.io").resource("mutatingwebhookconfigurations")"#,
                &format!(r#".name("istio-" + "{account}").check("patch").allowed()"#),
            ]
            .join(" ");
            assert_eq!(conditions.map(|one| one.expression).collect::<Vec<_>>(), [who]);
        }
    }
}

/// Uninstallation selects by this label, since Istio's chart has `app: sidecar-injector` too.
#[test]
fn every_object_has_our_own_label() {
    for rendering in renderings() {
        for document in &rendering.documents {
            let labels = &document["metadata"]["labels"];
            let what = format!("{:?}: {}", rendering.composition, document["metadata"]["name"]);
            assert_eq!(labels["app.kubernetes.io/part-of"], "outrigger", "{what}");
        }
    }
}

const REQUIRED: &str = "sidecar-injector-required";

fn container_ports(rendering: &Rendering) -> BTreeMap<String, i32> {
    let deployment: Deployment = rendering.one("Deployment");
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let ports = pod.containers[0].ports.iter().flatten();
    ports.map(|port| (port.name.clone().unwrap(), port.container_port)).collect()
}
