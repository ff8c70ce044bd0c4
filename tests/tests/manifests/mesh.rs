//! The whole mesh: the base with its control plane.

use std::collections::{BTreeMap, BTreeSet};

use e2e::manifests::Composition;
use e2e::programs::Programs;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::documents::{base, documents, manifests, mesh_renderings, split};
use crate::policy::assert_restricted;

fn mesh() -> Vec<Value> {
    documents("install-mesh.yaml")
}

/// The control plane's object of a kind.
fn own<T: DeserializeOwned>(kind: &str, name: &str) -> T {
    let found = mesh()
        .into_iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    serde_json::from_value(found.unwrap_or_else(|| panic!("{kind} {name}"))).unwrap()
}

#[test]
fn whole_mesh_has_the_base_unchanged_but_for_images() {
    let by_name = |objects: &[Value]| -> BTreeMap<String, Value> {
        let name = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
        objects.iter().map(|object| (name(object), object.clone())).collect()
    };
    let (base, mesh) = (by_name(&base().documents), by_name(&mesh()));
    for (name, object) in &base {
        if name != r#""ConfigMap" "istio-sidecar-injector""# {
            assert_eq!(mesh.get(name), Some(object));
        }
    }
    for name in mesh.keys().filter(|name| !base.contains_key(*name)) {
        assert!(
            ["pilot-discovery", "istiod", "peerauthentications"]
                .iter()
                .any(|one| name.contains(one)),
            "{name}"
        );
    }
    let text = |file: &str| std::fs::read_to_string(manifests().join(file)).unwrap();
    let images = [
        (
            "  hub: docker.io/istio\n  tag: 1.28.0\n",
            "  # Registry and tag of the images in injected pods. The component `mesh-images` sets both: no other \
             text of this file\n  # has single quotes.\n  hub: 'localhost/outrigger'\n  tag: '0.1.0'\n",
        ),
        (
            "    # A name with a slash is taken as it is, without hub and tag. The component `images` sets it: no \
             other text of\n    # this file has single quotes.\n    \
             image: 'localhost/outrigger/istio-init:0.1.0'\n",
            "    image: istio-init\n",
        ),
    ];
    let expected = images.iter().fold(text("base/values.yaml"), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    assert_eq!(text("mesh/values.yaml"), expected);
}

#[test]
fn control_plane_has_rights_pinned_by_name() {
    let rules = |rules: Option<Vec<PolicyRule>>| -> Vec<String> {
        let list = |list: Option<Vec<String>>| list.unwrap_or_default().join(" ");
        rules
            .unwrap_or_default()
            .into_iter()
            .map(|rule| {
                let names = list(rule.resource_names);
                let names = if names.is_empty() { "(any name)".to_owned() } else { names };
                format!("{} {names}: {}", list(rule.resources), rule.verbs.join(" "))
            })
            .collect()
    };
    let role: Role = own("Role", "pilot-discovery");
    assert_eq!(
        rules(role.rules),
        [
            "secrets pilot-discovery-ca: get list watch update",
            "secrets (any name): create",
            "configmaps istio: list watch",
            "events (any name): create",
        ]
    );
    let role: ClusterRole = own("ClusterRole", "pilot-discovery");
    assert_eq!(
        rules(role.rules),
        [
            "services pods nodes namespaces (any name): list watch",
            "endpointslices (any name): list watch",
            "peerauthentications (any name): list watch",
            "mutatingwebhookconfigurations (any name): list watch",
            "configmaps istio-ca-root-cert: list watch create patch",
            "tokenreviews (any name): create",
            "authorizationpolicies (any name): list watch",
            "requestauthentications (any name): list watch",
            "virtualservices destinationrules gateways serviceentries sidecars workloadentries \
             workloadgroups envoyfilters (any name): list watch",
            "telemetries (any name): list watch",
            "wasmplugins (any name): list watch",
        ]
    );
}

#[test]
fn control_plane_survives_a_rollout_and_a_drain() {
    let deployment: Deployment = own("Deployment", "pilot-discovery");
    let spec = deployment.spec.unwrap();
    assert_eq!(spec.replicas, Some(2));
    let pod = spec.template.spec.unwrap();
    assert_restricted(&pod);
    assert_eq!(pod.automount_service_account_token, Some(false));
    let budget: PodDisruptionBudget = own("PodDisruptionBudget", "pilot-discovery");
    assert_eq!(budget.spec.unwrap().selector, Some(spec.selector));
}

#[test]
fn components_of_the_injector_leave_the_control_plane_alone() {
    let programs = Programs::find().unwrap();
    let of_control_plane = |objects: Vec<Value>| -> Vec<Value> {
        let is_own = |one: &Value| one["metadata"]["labels"]["app"] == "pilot-discovery";
        objects.into_iter().filter(is_own).collect()
    };
    let expected = of_control_plane(mesh());
    assert!(expected.len() > 8);
    for composition in OVER_THE_MESH {
        let rendered = split(&composition.render_over(&programs, "mesh").unwrap());
        assert_eq!(of_control_plane(rendered), expected, "{composition:?}");
    }
}

#[test]
fn plaintext_discovery_is_not_reachable() {
    let service: Service = own("Service", "istiod");
    let ports = service.spec.unwrap().ports.unwrap();
    assert_eq!(ports.iter().map(|port| port.port).collect::<Vec<_>>(), [15012, 15014]);
    let deployment: Deployment = own("Deployment", "pilot-discovery");
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let args = pod.containers[0].args.as_ref().unwrap();
    assert!(!args.iter().any(|arg| arg.starts_with("--grpcAddr")), "{args:?}");
    let policy: NetworkPolicy = own("NetworkPolicy", "pilot-discovery");
    let rules = policy.spec.unwrap().ingress.unwrap();
    assert!(rules[0].from.is_none() && rules[1].from.is_some(), "metrics are not for all pods");
}

#[test]
fn revision_of_the_mesh_shares_no_object() {
    let canary = mesh_renderings().iter().find(|one| one.has("mesh-revision")).unwrap();
    let names = |objects: &[Value]| -> BTreeSet<String> {
        let name = |it: &Value| format!("{} {}", it["kind"], it["metadata"]["name"]);
        objects.iter().map(name).collect()
    };
    let ours = names(&canary.documents);
    // The definition of policies too is the other control plane's: it would take theirs away.
    let default = names(&mesh());
    assert_eq!(ours.intersection(&default).collect::<Vec<_>>(), [""; 0]);
    for name in ["Service\" \"istiod-canary", "Deployment\" \"pilot-discovery-canary"] {
        assert!(ours.contains(&format!("\"{name}\"")), "{ours:?}");
    }
    let find = |kind: &str, name: &str| -> &Value {
        let mut all = canary.documents.iter().filter(|it| it["kind"] == kind);
        all.find(|it| it["metadata"]["name"] == name).unwrap()
    };
    let settings = find("ConfigMap", "istio-canary")["data"]["mesh"].as_str().unwrap();
    let address = "discoveryAddress: istiod-canary.istio-system.svc:15012\n";
    assert!(settings.contains(address), "{settings}");
    let pod = &find("Deployment", "pilot-discovery-canary")["spec"]["template"]["spec"];
    let args = json!(["discovery", "--namespace=istio-system", "--revision=canary"]);
    assert_eq!(pod["containers"][0]["args"], args);
    let names = |kind: &str| -> Vec<&Value> {
        let rules = find(kind, "pilot-discovery-canary")["rules"].as_array().unwrap();
        rules.iter().filter_map(|it| it["resourceNames"].as_array()).flatten().collect()
    };
    assert_eq!(names("Role"), ["pilot-discovery-ca-canary", "istio-canary"]);
    assert_eq!(names("ClusterRole"), ["istio-ca-root-cert"]);
    let policy = find("ValidatingAdmissionPolicy", "pilot-discovery-secrets-canary");
    let condition = policy["spec"]["matchConditions"][0]["expression"].as_str().unwrap();
    assert!(
        condition.ends_with("\"system:serviceaccount:istio-system:\" + \"pilot-discovery-canary\"")
    );
}

/// The components of the injector that can go together.
const OVER_THE_MESH: [Composition; 2] = [
    Composition {
        components: &[
            "ha",
            "cni",
            "network-policy",
            "kube-system",
            "prometheus",
            "grafana",
            "trust-probe",
            "reports",
            "require-injection",
            "default-tag",
            "client-certificates",
        ],
        revision: None,
        tags: &["prod", "pre-prod"],
    },
    Composition::new(&["auto", "openshift", "csr", "csr-approval", "no-guard-policy", "aks"]),
];
