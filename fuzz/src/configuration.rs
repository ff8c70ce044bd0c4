//! Configuration documents of injection.

use documents::yaml;
use injector::settings::proxy_configs::{Origin, ProxyConfigResource};
use injector::settings::{Document, Documents, Process, Settings};
use serde_json::json;

use crate::pods;

/// Fuzzes the document `config`.
pub fn inject_config(data: &[u8]) {
    document(data, |document| Documents { inject_config: Some(document), ..Documents::default() });
}

/// Fuzzes the document `values`.
pub fn values(data: &[u8]) {
    document(data, |document| Documents { values: Some(document), ..Documents::default() });
}

/// Fuzzes the document `mesh`, also as a `ProxyConfig` resource and as the annotation.
pub fn mesh_config(data: &[u8]) {
    document(data, |document| Documents { mesh_config: Some(document), ..Documents::default() });
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(spec) = yaml::parse(text)
        && let Err(problem) = ProxyConfigResource::parse(Origin::default(), &spec)
    {
        assert!(!problem.is_empty());
    }
    let annotations = json!({"proxy.istio.io/config": text});
    let pod = json!({
        "metadata": {"name": "web", "annotations": annotations},
        "spec": {"containers": [{"name": "app"}]},
    });
    pods::check(pods::settings(true), &pod);
}

/// Fuzzes YAML: a value that is written and parsed again is the same.
pub fn yaml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match yaml::parse(text) {
        Ok(value) => {
            let written = yaml::to_string(&value).expect("a value that was read can be written");
            assert_eq!(yaml::parse(&written).as_ref(), Ok(&value), "{written}");
        }
        Err(error) => assert!(!error.problem.is_empty()),
    }
}

/// Checks that the document is rejected with its name, or that pods are injected with it.
fn document(data: &[u8], documents: fn(Document<'_>) -> Documents<'_>) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let source = "ConfigMap istio-system/fuzz, key document";
    match Settings::parse(&documents(Document { source, text }), Process::default()) {
        Ok(settings) => {
            assert!(settings.notices.iter().all(|notice| !notice.to_string().is_empty()));
            let pod = json!({
                "metadata": {"name": "web", "labels": {"app": "web"}},
                "spec": {"containers": [{
                    "name": "app", "livenessProbe": {"tcpSocket": {"port": 80}},
                }]},
            });
            pods::check(&settings, &pod);
        }
        Err(error) => {
            assert!(error.to_string().starts_with(source) && !error.problem.is_empty(), "{error}");
        }
    }
}
