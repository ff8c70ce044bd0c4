//! `manifests/`: the API server accepts all objects, and they are secure, for the base, each
//! component and common compositions.

#[cfg(test)]
mod alerts;
#[cfg(test)]
mod chart;
#[cfg(test)]
mod cni;
#[cfg(test)]
mod cni_chart;
#[cfg(test)]
mod custom;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod features;
#[cfg(test)]
mod images;
#[cfg(test)]
mod istiod;
#[cfg(test)]
mod matching;
#[cfg(test)]
mod mesh;
#[cfg(test)]
mod monitoring;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod references;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod threats;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use e2e::programs::repository;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use crate::custom::{
    CertificateSpec, Custom, IssuerSpec, PodMonitorSpec, PrometheusRuleSpec, ServiceMonitorSpec,
};
use crate::documents::{base, documents, manifests, mesh_renderings, renderings, retyped};

#[test]
fn every_field_exists_in_its_kind() {
    let examples =
        ["examples/web.yaml", "examples/client.yaml", "install.yaml", "install-mesh.yaml"];
    let of_files = examples.into_iter().map(|file| (file.to_owned(), documents(file)));
    let rendered = renderings()
        .iter()
        .map(|rendering| (format!("{:?}", rendering.composition), rendering.documents.clone()));
    for (source, documents) in of_files.chain(rendered) {
        for document in documents {
            let kind = document["kind"].as_str().unwrap().to_owned();
            let typed = match kind.as_str() {
                "Certificate" => retyped::<Custom<CertificateSpec>>(&document),
                "ClusterRole" => retyped::<ClusterRole>(&document),
                "ClusterRoleBinding" => retyped::<ClusterRoleBinding>(&document),
                "ConfigMap" => retyped::<ConfigMap>(&document),
                "CustomResourceDefinition" => retyped::<CustomResourceDefinition>(&document),
                "Deployment" => retyped::<Deployment>(&document),
                "HorizontalPodAutoscaler" => retyped::<HorizontalPodAutoscaler>(&document),
                "Issuer" => retyped::<Custom<IssuerSpec>>(&document),
                "MutatingWebhookConfiguration" => {
                    retyped::<MutatingWebhookConfiguration>(&document)
                }
                "Namespace" => retyped::<Namespace>(&document),
                "NetworkPolicy" => retyped::<NetworkPolicy>(&document),
                "PodDisruptionBudget" => retyped::<PodDisruptionBudget>(&document),
                "PodMonitor" => retyped::<Custom<PodMonitorSpec>>(&document),
                "PrometheusRule" => retyped::<Custom<PrometheusRuleSpec>>(&document),
                "Role" => retyped::<Role>(&document),
                "RoleBinding" => retyped::<RoleBinding>(&document),
                "Secret" => retyped::<Secret>(&document),
                "Service" => retyped::<Service>(&document),
                "ServiceAccount" => retyped::<ServiceAccount>(&document),
                "ServiceMonitor" => retyped::<Custom<ServiceMonitorSpec>>(&document),
                "ValidatingAdmissionPolicy" => retyped::<ValidatingAdmissionPolicy>(&document),
                "ValidatingAdmissionPolicyBinding" => {
                    retyped::<ValidatingAdmissionPolicyBinding>(&document)
                }
                kind => panic!("{source}: no type for a {kind} here yet"),
            };
            assert_eq!(typed, document, "{source}: a field of the {kind} is misspelt or misplaced");
        }
    }
}

#[test]
fn every_component_is_rendered() {
    let folders: BTreeSet<String> = fs::read_dir(manifests().join("components"))
        .unwrap()
        .map(|folder| folder.unwrap().file_name().into_string().unwrap())
        .collect();
    let rendered = renderings().iter().chain(mesh_renderings()).flat_map(|rendering| {
        let tag = (!rendering.composition.tags.is_empty()).then_some("tag");
        rendering.composition.components.iter().copied().chain(tag)
    });
    // They take texts: `monitoring`, `images`.
    let rendered = rendered.chain(["runbooks", "images", "mesh-images"]);
    assert_eq!(rendered.map(str::to_owned).collect::<BTreeSet<_>>(), folders);
}

#[test]
fn install_yaml_equals_the_rendered_base() {
    let rendered = Command::new(manifests().join("render.sh")).arg("--check").output().unwrap();
    let said = String::from_utf8_lossy(&rendered.stderr);
    assert_eq!(rendered.status.code(), Some(0), "render.sh --check: {said}");
    assert_eq!(documents("install.yaml"), base().documents);
}

#[test]
fn objects_are_in_apply_order() {
    let mut kinds: Vec<String> = documents("install.yaml")
        .iter()
        .map(|document| document["kind"].as_str().unwrap().to_owned())
        .collect();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "Namespace",
            "ServiceAccount",
            "Role",
            "ClusterRole",
            "RoleBinding",
            "ClusterRoleBinding",
            "ConfigMap",
            "Service",
            "Deployment",
            "PodDisruptionBudget",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "NetworkPolicy",
            "MutatingWebhookConfiguration",
        ]
    );
    for rendering in renderings() {
        let last = rendering.documents.last().unwrap();
        assert_eq!(last["kind"], "MutatingWebhookConfiguration", "{:?}", rendering.composition);
    }
}

#[test]
fn config_maps_equal_the_built_in_documents() {
    let maps: Vec<Value> = documents("install.yaml");
    let installed = |map: &str, key: &str| {
        let map =
            maps.iter().find(|one| one["kind"] == "ConfigMap" && one["metadata"]["name"] == map);
        ::documents::yaml::parse(map.unwrap()["data"][key].as_str().unwrap()).unwrap()
    };
    let embedded = |file: &str| {
        let folder = repository().join("injector/src/settings/defaults");
        ::documents::yaml::parse(&fs::read_to_string(folder.join(file)).unwrap()).unwrap()
    };
    let sidecar_injector = "istio-sidecar-injector";
    assert_eq!(installed(sidecar_injector, "config"), embedded("inject_config.yaml"));
    assert_eq!(installed("istio", "mesh"), embedded("mesh.yaml"));

    assert_eq!(installed(sidecar_injector, "values"), embedded("values.yaml"));
}

/// kustomize cannot change one value inside a document in a ConfigMap, so components contain the
/// whole document.
#[test]
fn components_change_only_their_own_values() {
    let text = |file: &str| fs::read_to_string(manifests().join(file)).unwrap();
    let base = text("base/values.yaml");
    for (component, provider) in
        [("cni", "default"), ("istio-cni", "default"), ("openshift", "multus")]
    {
        let expected = base.replace(
            "  cni:\n    enabled: false\n    provider: default\n",
            &format!("  cni:\n    enabled: true\n    provider: {provider}\n"),
        );
        assert_ne!(expected, base);
        let found = text(&format!("components/{component}/values.yaml"));
        let (common, own) = found.split_at(expected.len());
        assert_eq!(common, expected);
        let own: Vec<_> = own.lines().filter(|line| !line.contains('#')).collect();
        let request: &[_] =
            if component == "cni" { &["outrigger:", "  captureRequest: write"] } else { &[] };
        assert_eq!(own, request);
    }
}
