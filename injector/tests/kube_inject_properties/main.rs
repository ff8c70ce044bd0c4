//! Edits of any YAML by any patch: the result has the expected value, and the text that the patch
//! does not touch stays.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod changes;
mod layout;
mod written;

use changes::{Changes, step};
use documents::yaml;
use injector::manifest::{Document, Edit, Manifest};
use json_patch::Patch;
use layout::{layout, map};
use proptest::prelude::*;
use serde_json::{Value, json};
use written::PodText;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn edit_is_exact_and_local(
        pod in map(),
        layout in layout(),
        steps in prop::collection::vec(step(), 1..6),
    ) {
        let written = PodText::from_pod(&pod, layout);
        let documents = Document::split(&written.text);
        prop_assert_eq!(documents.len(), 1);
        let manifest = Manifest::read(&documents[0]).unwrap();
        let template = &manifest.pods()[0];
        let before = manifest.pod(template);
        prop_assert_eq!(before, &yaml::parse(&written.text).unwrap());

        let mut changes = Changes { pod: before.clone(), ..Changes::default() };
        for step in &steps {
            changes.apply(step);
        }
        let patch: Patch = serde_json::from_value(Value::Array(changes.operations.clone())).unwrap();
        let edit = Edit { template, patch: &patch, pod: &changes.pod };
        let text = manifest.edit(&[edit]).unwrap();
        prop_assert_eq!(&yaml::parse(&text).unwrap(), &changes.pod);
        written.assert_kept(&text, &changes)?;
    }

    #[test]
    fn any_text_causes_no_panic(text in "(apiVersion: v1\nkind: (Pod|List)\n)?([-:?&*!|>{}\\[\\],#'\" a\n\t\r\u{feff}é]|<<|spec|---|items){0,60}") {
        for document in Document::split(&text) {
            if let Ok(manifest) = Manifest::read(&document) {
                for template in manifest.pods() {
                    let mut pod = manifest.pod(template).clone();
                    let patch: Patch = serde_json::from_value(json!([
                        {"op": "add", "path": "/metadata", "value": {"labels": {"a": "b"}}},
                    ])).unwrap();
                    json_patch::patch(&mut pod, &patch).unwrap();
                    let edited = manifest.edit(&[Edit { template, patch: &patch, pod: &pod }]);
                    if let Ok(edited) = edited {
                        yaml::parse(&edited).unwrap();
                    }
                }
            }
        }
    }
}
