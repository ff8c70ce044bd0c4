//! Edits of manifests: one patch on every file of `testdata/kube-inject/edits`, in every common
//! layout.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use documents::yaml;
use injector::manifest::{Document, Edit, Manifest};
use json_patch::{Patch, PatchOperation};
use serde_json::{Value, json};

#[test]
fn edits_keep_untouched_text() {
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

#[test]
fn list_items_are_edited_like_the_whole_list() {
    for path in files() {
        let text = fs::read_to_string(&path).unwrap();
        let mut lists = vec![text.clone()];
        for (indent, dash) in [("", ""), ("", "# of the list\n"), ("  ", ""), ("    ", "\n")] {
            lists.push(in_a_list(&text, indent, dash));
        }
        for list in lists {
            let documents = Document::split(&list);
            let parts: Vec<_> = documents.iter().copied().flat_map(Document::parts).collect();
            assert_eq!(parts.iter().map(|part| part.text).collect::<String>(), list);
            let whole = yaml::parse_file(&list).is_ok().then(|| edited_each(documents));
            if let Some(whole) = whole {
                assert_eq!(edited_each(parts), whole, "{}: {list}", path.display());
            }
        }
    }
}

#[test]
fn list_is_edited_item_by_item() {
    let pod = |name: &str| format!("{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}}}");
    let parts = |text: &str| {
        let documents = Document::split(text).into_iter();
        let parts = documents.flat_map(Document::parts);
        parts.map(|part| (part.line, part.text.to_owned())).collect::<Vec<_>>()
    };
    let (a, b) = (pod("a"), pod("b"));
    let head = "---\napiVersion: v1\nkind: List\nitems: # these\n";
    let block = format!("{head}- # one\n  {a}\n\n# below\n- {b}\nmetadata: {{}}\n");
    let expected = [
        (1, head.to_owned()),
        (5, format!("- # one\n  {a}\n\n# below\n")),
        (9, format!("- {b}\n")),
        (10, "metadata: {}\n".to_owned()),
    ];
    assert_eq!(parts(&block), expected);
    let flow = format!("{{apiVersion: v1, items: [\n {a},\n {b}], kind: List}}");
    let expected = [
        (1, "{apiVersion: v1, items: [\n".to_owned()),
        (2, format!(" {a}")),
        (2, ",\n".to_owned()),
        (3, format!(" {b}")),
        (3, "], kind: List}".to_owned()),
    ];
    assert_eq!(parts(&flow), expected);
    for whole in [
        block.replace("kind: List", "kind: Lists"),
        block.replace("apiVersion: v1\nkind", "apiVersion: v2\nkind"),
        block.replace("metadata: {}", "metadata: &anchor {}"),
        block.replace("metadata: {}", "kind: List"),
        block.replace("metadata: {}", "metadata: ]"),
        format!("{head}[]"),
    ] {
        assert_eq!(parts(&whole), [(1, whole.clone())], "{whole}");
    }
}

/// Returns the documents of a file as the items of a `List`.
fn in_a_list(text: &str, indent: &str, before: &str) -> String {
    let mut list = "apiVersion: v1\nitems:\n".to_owned();
    for document in Document::split(text) {
        let lines = document.text.lines().filter(|line| !line.starts_with("---"));
        let mut lines = lines.map(|line| line.trim_start_matches('\u{feff}'));
        let Some(first) = lines.find(|line| !line.is_empty() && !line.starts_with('#')) else {
            continue;
        };
        list.extend([before, indent, "- ", first, "\n"]);
        list.extend(lines.map(|line| format!("{indent}  {line}\n")));
    }
    format!("{list}kind: List\nmetadata:\n    resourceVersion: \"\"\n")
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/kube-inject/edits");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_file()).collect()
}

/// Returns the text after an edit of every pod template. Checks it against the patched values.
fn edited(text: &str) -> String {
    edited_each(Document::split(text))
}

fn edited_each(documents: Vec<Document<'_>>) -> String {
    let mut edited = String::new();
    for document in documents {
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

/// Returns a patch with every kind of operation of an injection: entries and items added first,
/// last and in new collections, values replaced and removed, containers reordered.
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

/// Makes the invisible bytes of a snapshot visible.
fn visible(text: &str) -> String {
    let end = if text.ends_with('\n') { "" } else { "⟨no line break⟩" };
    let text = text.replace('\u{feff}', "⟨BOM⟩").replace('\t', "⟶").replace("\r\n", "␍\n");
    let text = text.replace(" \n", "·\n");
    format!("{text}{end}")
}
