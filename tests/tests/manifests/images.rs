//! Images of all objects and of injected containers.

use e2e::manifests::render;
use e2e::programs::Programs;
use serde_json::{Value, json};

use crate::chart::{document, templated, with_complete_images};
use crate::cni_chart;
use crate::documents::{documents, mesh_renderings, renderings, split};

/// A name without a registry is one of Docker's: `docker.io/outrigger` is not ours.
#[test]
fn every_image_names_its_registry() {
    let rendered = renderings().iter().chain(mesh_renderings());
    let mut sources: Vec<(String, Vec<String>)> = rendered
        .map(|one| (format!("{:?}", one.composition), images(one.documents.iter())))
        .collect();
    for file in ["install.yaml", "install-mesh.yaml"] {
        sources.push((file.to_owned(), images(documents(file).iter())));
    }
    let node_agent = split(&render(&Programs::find().unwrap(), "cni", &[], &[]).unwrap());
    sources.push(("cni".to_owned(), images(node_agent.iter())));
    sources.push(("the chart".to_owned(), images(templated(&json!({})).values())));
    let node_agent = cni_chart::templated(&json!({}));
    sources.push(("the node agent's chart".to_owned(), images(node_agent.values())));
    for (source, images) in sources {
        assert!(!images.is_empty(), "{source}");
        for image in images {
            let registry = image.split_once('/').map_or("", |(first, _)| first);
            let is_named = registry == "localhost" || registry.contains(['.', ':']);
            assert!(is_named, "{source}: {image}");
        }
    }
}

#[test]
fn one_component_sets_registry_and_tag_of_all_images() {
    let registry = "registry.example.com:5000/mesh";
    let texts = [("images", "registry", registry), ("images", "tag", "1.2.3")];
    let revision = [&texts[..], &[("revision", "revision", "canary")]].concat();
    let ours = ["istio-init", "pilot-discovery", "proxyv2", "sidecar-injector"];
    let proxy = "docker.io/istio/proxyv2:1.28.0";
    let alone = &["istio-init", "sidecar-injector"][..];
    let node_agent = &["install-cni"][..];
    let cases = [
        ("base", &["images"][..], &texts[..], alone, Some(proxy)),
        ("base", &["cni", "images"], &texts, alone, Some(proxy)),
        ("base", &["istio-cni", "images"], &texts, alone, Some(proxy)),
        ("base", &["openshift", "images"], &texts, alone, Some(proxy)),
        ("base", &["istiod", "images"], &texts, &["sidecar-injector"], None),
        ("mesh", &["mesh-images"], &texts, &ours, None),
        ("mesh", &["mesh-images", "mesh-revision"], &revision, &ours, None),
        ("cni", &["images"], &texts, node_agent, None),
    ];
    let programs = Programs::find().unwrap();
    for (folder, components, texts, ours, others) in cases {
        let objects = split(&render(&programs, folder, components, texts).unwrap());
        let ours = ours.iter().map(|name| format!("{registry}/{name}:1.2.3"));
        let mut expected: Vec<_> = ours.chain(others.map(str::to_owned)).collect();
        expected.sort();
        assert_eq!(images(objects.iter()), expected, "{folder} with {components:?}");
    }
}

/// Images of the containers in objects, and of those that will be injected, in order.
pub(crate) fn images<'a>(objects: impl Iterator<Item = &'a Value>) -> Vec<String> {
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
