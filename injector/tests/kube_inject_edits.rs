//! Edits of manifests: one patch on every file of `testdata/kube-inject/edits`, in every layout that
//! people write.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use injector::manifest::{Document, Edit, Manifest};
use injector::yaml;
use json_patch::{Patch, PatchOperation};
use serde_json::{Value, json};

#[test]
fn edits_keep_what_they_do_not_touch() {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_snapshot_path("../testdata/kube-inject/edits/expected");
    settings.bind(|| {
        insta::glob!("../testdata/kube-inject/edits", "*.*", |path| {
            let text = fs::read_to_string(path).unwrap();
            insta::assert_snapshot!(visible(&edited(&text)));
        });
    });
}

/// The text after an edit of every pod template, checked against the patched values.
fn edited(text: &str) -> String {
    let mut edited = String::new();
    for document in Document::split(text) {
        let manifest = Manifest::read(&document).unwrap();
        let pods: Vec<_> = manifest
            .pods()
            .iter()
            .map(|template| {
                let mut pod = manifest.pod(template).clone();
                let patch = patch(&pod);
                json_patch::patch(&mut pod, &patch).unwrap();
                (template, patch, pod)
            })
            .collect();
        let edits: Vec<_> =
            pods.iter().map(|(template, patch, pod)| Edit { template, patch, pod }).collect();
        let after = manifest.edit(&edits).unwrap();
        if pods.is_empty() {
            assert_eq!(after, document.text);
        } else {
            let value = yaml::parse(&after).unwrap();
            for (template, _, pod) in &pods {
                assert_eq!(at(&value, &template.place), pod);
            }
        }
        edited.push_str(&after);
    }
    edited
}

/// Something of all that injection does: entries and items first, last and in new collections,
/// values replaced and removed, containers in another order.
fn patch(pod: &Value) -> Patch {
    let mut operations = Vec::new();
    let mut add = |path: &str, value: Value| {
        operations.push(json!({"op": "add", "path": path, "value": value}));
    };
    let is = |pointer: &str, is: fn(&Value) -> bool| pod.pointer(pointer).is_some_and(is);
    if !is("/metadata", Value::is_object) {
        add("/metadata", json!({}));
    }
    if is("/metadata/annotations", Value::is_object) {
        add("/metadata/annotations/istio.io~1rev", json!("default"));
        add("/metadata/annotations/prometheus.io~1port", json!("15020"));
    } else {
        add(
            "/metadata/annotations",
            json!({"istio.io/rev": "default", "prometheus.io/port": "15020"}),
        );
    }
    if !is("/metadata/labels", Value::is_object) {
        add("/metadata/labels", json!({}));
    }
    add("/metadata/labels/security.istio.io~1tlsMode", json!("istio"));
    add("/spec/containers/-", json!({"image": "proxy:1", "name": "istio-proxy"}));
    if !is("/spec/initContainers", Value::is_array) {
        add("/spec/initContainers", json!([]));
    }
    let env =
        json!([{"name": "PROXY_CONFIG", "value": "{}\n"}, {"name": "PORTS", "value": "[\n]"}]);
    add("/spec/initContainers/0", json!({"name": "istio-init", "args": ["-x", ""], "env": env}));
    if !is("/spec/volumes", Value::is_array) {
        add("/spec/volumes", json!([]));
    }
    add("/spec/volumes/0", json!({"name": "istio-data", "emptyDir": {}}));
    if is("/spec/containers/1", Value::is_object) {
        operations.push(
            json!({"op": "move", "from": "/spec/containers/1", "path": "/spec/containers/0"}),
        );
    }
    if is("/spec/containers/1/image", Value::is_string) {
        operations
            .push(json!({"op": "replace", "path": "/spec/containers/0/image", "value": "image:2"}));
    }
    if is("/spec/containers/0/args", Value::is_array) {
        operations.push(json!({"op": "remove", "path": "/spec/containers/0/args/0"}));
    }
    let operations: Vec<PatchOperation> = serde_json::from_value(Value::Array(operations)).unwrap();
    Patch(operations)
}

fn at<'v>(value: &'v Value, place: &[String]) -> &'v Value {
    place.iter().fold(value, |value, token| match value {
        Value::Array(items) => &items[token.parse::<usize>().unwrap()],
        _ => &value[token],
    })
}

/// With the bytes that a reader of the snapshot cannot see.
fn visible(text: &str) -> String {
    let end = if text.ends_with('\n') { "" } else { "⟨no line break⟩" };
    let text = text.replace('\u{feff}', "⟨BOM⟩").replace('\t', "⟶").replace("\r\n", "␍\n");
    let text = text.replace(" \n", "·\n");
    format!("{text}{end}")
}
