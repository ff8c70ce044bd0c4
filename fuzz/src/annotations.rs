//! Annotations of a pod.

use injector::inject::InjectError;
use serde_json::{Map, Value, json};

use crate::pods;

/// Fuzzes annotations, one per line as `KEY: VALUE`; `\n` in a line means a line break.
pub fn annotations(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let annotations: Map<String, Value> = text
        .lines()
        .map(|line| {
            let (key, value) = line.split_once(": ").unwrap_or((line, ""));
            (key.to_owned(), value.replace("\\n", "\n").into())
        })
        .collect();
    let pod = json!({
        "metadata": {"name": "web", "annotations": annotations},
        "spec": {"containers": [{
            "name": "app", "image": "app", "ports": [{"containerPort": 80}],
            "readinessProbe": {"httpGet": {"port": 80, "path": "/ready"}},
        }]},
    });
    if let Some(InjectError::Annotations(errors)) = pods::check(pods::settings(true), &pod) {
        assert!(!errors.is_empty());
        for error in errors {
            let message = error.to_string();
            assert!(
                message.contains(&*error.key) && message.contains(&format!("{:?}", error.value))
            );
            assert_eq!(annotations.get(&*error.key), Some(&error.value.into()), "{message}");
        }
    }
}
