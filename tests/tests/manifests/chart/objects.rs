//! Chart and kustomize, compared object by object.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use e2e::manifests::{self, Composition};
use e2e::programs::{Programs, repository};
use serde_json::Value;

use super::cases::{CASES, Case, LEFT_OUT};
use super::{by_name, document, helm, templated};
use crate::documents::split;

#[test]
fn chart_has_the_objects_of_kustomize() {
    let programs = Programs::find().unwrap();
    for case in CASES {
        let expected = compared(by_name(split(&case.render(&programs))));
        let found = compared(templated(&case.values()));
        let names = |objects: &BTreeMap<String, Value>| -> BTreeSet<String> {
            objects.keys().cloned().collect()
        };
        assert_eq!(names(&found), names(&expected), "{}", case.name());
        for (name, object) in &expected {
            assert_eq!(found[name], *object, "{}: {name}", case.name());
        }
    }
}

#[test]
fn every_component_is_a_value_or_left_out() {
    let folders = fs::read_dir(crate::documents::manifests().join("components")).unwrap();
    let folders: BTreeSet<String> =
        folders.map(|folder| folder.unwrap().file_name().into_string().unwrap()).collect();
    let used = CASES.iter().flat_map(|case| case.components.iter().chain(case.over_tags));
    let tag = CASES.iter().filter(|case| !case.tags.is_empty()).map(|_| &"tag");
    // With texts of its own, in crate::images.
    let images = &["images", "mesh-images"];
    let used = used.chain(tag).chain(LEFT_OUT).chain(images);
    assert_eq!(used.map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(), folders);
    let page = fs::read_to_string(repository().join("docs/helm.md")).unwrap();
    let (_, page) = page.split_once("## Components as values").unwrap();
    let (with, without) = page.split_once("## Without a value").unwrap();
    for name in &folders {
        let table = if LEFT_OUT.contains(&name.as_str()) { without } else { with };
        let mut rows = table.lines().filter_map(|line| line.split('|').nth(1));
        let is_named = rows.any(|cell| cell.contains(&format!("`{name}`")));
        assert!(is_named, "docs/helm.md does not say which value the component {name} is");
    }
}

#[test]
fn lint_finds_nothing() {
    let chart = e2e::helm::chart();
    let said = helm().must(&["lint", "--strict", "--kube-version=1.35.0", &chart], "").unwrap();
    assert!(said.contains("1 chart(s) linted, 0 chart(s) failed"), "{said}");
}

impl Case {
    fn name(&self) -> String {
        format!("{} with {:?} {:?}", self.folder, self.components, self.values)
    }

    fn values(&self) -> Value {
        let mut values: Value = serde_json::from_str(self.values).unwrap();
        if self.folder == "base" {
            // The base is for an istiod, whose version the proxy has.
            values["mesh"]["enabled"] = false.into();
            values["global"]["proxy"]["image"] = "docker.io/istio/proxyv2:1.28.0".into();
        }
        if let Some(revision) = self.revision {
            values["revision"] = revision.into();
        }
        values
    }

    fn render(&self, programs: &Programs) -> String {
        let Self { folder, components, revision, tags, over_tags, .. } = *self;
        let runbooks = ("runbooks", "url", "https://docs.example.com/alerts.html");
        if components.contains(&"runbooks") {
            return manifests::render(programs, folder, components, &[runbooks]).unwrap();
        }
        let composition = Composition { components, revision, tags };
        composition.render_with(programs, folder, over_tags).unwrap()
    }
}

/// Objects with what may differ taken out: documents in a `ConfigMap` as values, images in them
/// complete, Helm's own annotation, and the Namespace, which `helm install` makes.
fn compared(mut objects: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    objects.remove("Namespace istio-system");
    for (name, object) in &mut objects {
        if name.starts_with("CustomResourceDefinition ") {
            object["metadata"].as_object_mut().unwrap().remove("annotations");
        }
        if name.starts_with("ConfigMap istio") {
            let keys: Vec<String> = object["data"].as_object().unwrap().keys().cloned().collect();
            for key in keys {
                object["data"][&key] = match key.as_str() {
                    "values" => with_complete_images(document(object, &key)),
                    _ => document(object, &key),
                };
            }
        }
    }
    objects
}

/// Values with the images as the injector combines them, and without what it combines them of.
pub(crate) fn with_complete_images(mut values: Value) -> Value {
    let global = values["global"].as_object_mut().unwrap();
    let [hub, tag] = ["hub", "tag"].map(|key| global.remove(key).unwrap());
    for key in ["proxy", "proxy_init"] {
        let image = global[key]["image"].as_str().unwrap();
        if !image.contains('/') {
            let [hub, tag] = [&hub, &tag].map(|one| one.as_str().unwrap());
            global[key]["image"] = format!("{hub}/{image}:{tag}").into();
        }
    }
    values
}
