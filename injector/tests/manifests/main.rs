//! What `manifests/` installs: that the API server will read all of it, and that it is safe.

#[cfg(test)]
mod documents;
#[cfg(test)]
mod matching;
#[cfg(test)]
mod policy;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde_json::Value;

use crate::documents::{documents, manifests, retyped};

#[test]
fn every_field_is_one_that_kubernetes_knows() {
    for file in ["install.yaml", "examples/web.yaml", "examples/client.yaml"] {
        for document in documents(file) {
            let kind = document["kind"].as_str().unwrap().to_owned();
            let typed = match kind.as_str() {
                "ClusterRole" => retyped::<ClusterRole>(&document),
                "ClusterRoleBinding" => retyped::<ClusterRoleBinding>(&document),
                "ConfigMap" => retyped::<ConfigMap>(&document),
                "Deployment" => retyped::<Deployment>(&document),
                "MutatingWebhookConfiguration" => {
                    retyped::<MutatingWebhookConfiguration>(&document)
                }
                "Namespace" => retyped::<Namespace>(&document),
                "PodDisruptionBudget" => retyped::<PodDisruptionBudget>(&document),
                "Role" => retyped::<Role>(&document),
                "RoleBinding" => retyped::<RoleBinding>(&document),
                "Service" => retyped::<Service>(&document),
                "ServiceAccount" => retyped::<ServiceAccount>(&document),
                kind => panic!("{file}: no type for a {kind} here yet"),
            };
            assert_eq!(typed, document, "{file}: a field of the {kind} is misspelt or misplaced");
        }
    }
}

#[test]
fn install_yaml_is_what_the_base_renders_to() {
    let rendered = Command::new(manifests().join("render.sh")).arg("--check").output().unwrap();
    let said = String::from_utf8_lossy(&rendered.stderr).into_owned();
    match rendered.status.code() {
        Some(0) => {}
        Some(2) if said.contains("no kubectl") && std::env::var_os("CI").is_none() => {
            // Not eprintln!, which the test harness keeps to itself when a test passes.
            writeln!(std::io::stderr(), "left out: {said}").unwrap();
        }
        code => panic!("render.sh --check ended with {code:?}: {said}"),
    }
}

#[test]
fn objects_come_in_the_order_a_cluster_needs_them() {
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
            "MutatingWebhookConfiguration",
        ]
    );
}

#[test]
fn the_config_maps_say_what_is_built_in() {
    let maps: Vec<Value> = documents("install.yaml");
    let installed = |map: &str, key: &str| {
        let map =
            maps.iter().find(|one| one["kind"] == "ConfigMap" && one["metadata"]["name"] == map);
        injector::yaml::parse(map.unwrap()["data"][key].as_str().unwrap()).unwrap()
    };
    let embedded = |file: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/settings/defaults");
        injector::yaml::parse(&fs::read_to_string(folder.join(file)).unwrap()).unwrap()
    };
    let sidecar_injector = "istio-sidecar-injector";
    assert_eq!(installed(sidecar_injector, "config"), embedded("inject_config.yaml"));
    assert_eq!(installed("istio", "mesh"), embedded("mesh.yaml"));

    // The embedded values are those of Istio's chart, which name no released images.
    let mut values = installed(sidecar_injector, "values");
    let mut built_in = embedded("values.yaml");
    for (key, expected) in [
        ("/global/hub", "istio"),
        ("/global/tag", "1.28.0"),
        ("/global/proxy_init/image", "outrigger/istio-init:0.1.0"),
    ] {
        assert_eq!(values.pointer_mut(key).unwrap().take(), expected, "{key}");
        built_in.pointer_mut(key).unwrap().take();
    }
    assert_eq!(values, built_in);
}
