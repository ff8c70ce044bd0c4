//! Images of all objects and of injected containers: by one value of the chart, and by kustomize.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::programs::Programs;
use serde_json::{Value, json};

use super::objects::with_complete_images;
use super::{document, templated};
use crate::documents::{manifests, split};

#[test]
fn one_value_is_the_registry_of_all_images() {
    let values = json!({"global": {"hub": "registry.example.com/mesh/", "tag": "1.2.3"}});
    let objects = templated(&values);
    let images = images(objects.values());
    let expected = ["istio-init", "pilot-discovery", "proxyv2", "sidecar-injector"];
    let expected = expected.map(|name| format!("registry.example.com/mesh/{name}:1.2.3"));
    assert_eq!(images, expected);
}

#[test]
fn digest_takes_the_place_of_registry_and_tag() {
    let image = "registry.example.com/sidecar-injector@sha256:0123";
    let objects = templated(&json!({"injector": {"image": image}}));
    let deployment = &objects["Deployment sidecar-injector"];
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], image);
}

/// Images of injected containers are text in a `ConfigMap`: two lines of `mesh/values.yaml`.
#[test]
fn kustomize_images_reach_every_object() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let up: String = path.components().skip(1).map(|_| "../").collect();
    let base = Path::new(&up).join(manifests().strip_prefix("/").unwrap());
    let values = fs::read_to_string(manifests().join("mesh/values.yaml")).unwrap();
    let values = values
        .replace("  hub: outrigger\n", "  hub: registry.example.com/mesh\n")
        .replace("  tag: 0.1.0\n", "  tag: 1.2.3\n");
    fs::write(path.join("values.yaml"), values).unwrap();
    let image = |name: &str| {
        let from = format!("outrigger/{name}");
        let to = format!("registry.example.com/mesh/{name}");
        json!({"name": from, "newName": to, "newTag": "1.2.3"})
    };
    let kustomization = json!({
        "resources": [base.join("mesh")],
        "images": [image("sidecar-injector"), image("pilot-discovery")],
        "configMapGenerator": [{
            "name": "istio-sidecar-injector", "namespace": "istio-system", "behavior": "merge",
            "files": ["values=values.yaml"],
        }],
        "generatorOptions": {"disableNameSuffixHash": true},
    });
    fs::write(path.join("kustomization.yaml"), kustomization.to_string()).unwrap();
    let kubectl = Programs::find().unwrap().kubernetes("kubectl").unwrap();
    let output = Command::new(kubectl).arg("kustomize").arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let objects = split(&String::from_utf8(output.stdout).unwrap());
    let names = ["istio-init", "pilot-discovery", "proxyv2", "sidecar-injector"];
    let expected = names.map(|name| format!("registry.example.com/mesh/{name}:1.2.3"));
    assert_eq!(images(objects.iter()), expected);
}

/// Images of the containers in objects, and of those that will be injected, in order.
fn images<'a>(objects: impl Iterator<Item = &'a Value>) -> Vec<String> {
    let mut images = Vec::new();
    for object in objects {
        collect(object, &mut images);
        if object["data"]["values"].is_string() {
            let values = with_complete_images(document(object, "values"));
            collect(&values, &mut images);
        }
    }
    images.sort();
    images
}

fn collect(value: &Value, images: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            images.extend(map.get("image").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| collect(value, images));
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, images)),
        _ => {}
    }
}
