//! Go templates.

use std::collections::BTreeMap;

use injector::inject::InjectError;
use injector::template::Templates;
use serde_json::{json, to_value};

use crate::pods;

/// Fuzzes the text of a template.
pub fn template(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut settings = pods::settings(true).clone();
    let values = json!({"global": {"proxy": {"image": "proxyv2"}}, "list": [1, "a", null]});
    let texts = BTreeMap::from([(NAME.to_owned(), text.to_owned())]);
    settings.templates = match Templates::parse(&texts, &values) {
        Ok(templates) => templates,
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("template \"fuzz\", line "), "{message}");
            return;
        }
    };
    settings.inject.default_templates = vec![NAME.to_owned()];
    let pod = json!({
        "metadata": {"name": "web", "annotations": {"proxy.istio.io/config": "concurrency: 2"}},
        "spec": {"containers": [{"name": "app", "ports": [{"containerPort": 80}]}]},
    });
    // A template may render something else for an injected pod, so reinjection is not checked.
    match pods::injected(&settings, &pod) {
        Ok(Some(injection)) => {
            let mut patched = pod.clone();
            json_patch::patch(&mut patched, &injection.patch().owned())
                .expect("a patch that applies");
            assert_eq!(patched, injection.pod, "the patch gives another pod");
            assert!(injection.pod["spec"].is_object(), "a template takes the pod's spec away");
            assert!(to_value(&injection.pod).unwrap().to_string().len() < MOST_BYTES);
        }
        Ok(None) => panic!("the pod is to be injected"),
        Err(error @ (InjectError::Overlay(_) | InjectError::Merge { .. })) => {
            assert!(error.to_string().starts_with("template \"fuzz\""), "{error}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

const NAME: &str = "fuzz";
/// A rendering may have 8 MiB; as JSON it may be longer.
const MOST_BYTES: usize = 64 << 20;
