//! Picture of `docs/pictures.md`, and the goldens of pictures.

use std::collections::BTreeMap;
use std::sync::Arc;

use documents::yaml;
use injector::kubernetes::webhook_configuration::HookConfiguration;
use injector::kubernetes::workload::Workload;
use injector::report::explanation::explain;
use injector::report::inspection::{Injector, Injectors};
use injector::settings::proxy_configs::ProxyConfigs;
use injector::settings::{Documents, Process, Settings};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::pictures;
use super::report::CheckReport;
use super::target::CheckedPod;

#[test]
fn page_is_current() {
    let namespace = json!({"istio-injection": "enabled", "kubernetes.io/metadata.name": "shop"});
    let report = report(&namespace, &json!({"app": "web", "version": "v1"}));
    reference_pages::check("pictures/check-inject.svg", &pictures::svg(&[report]));
}

#[test]
fn mermaid_shows_every_entry() {
    let namespace = json!({"istio.io/rev": "default", "kubernetes.io/metadata.name": "shop"});
    let injected = report(&namespace, &json!({"app": "web \"quoted\" #1 <b>"}));
    let skipped = report(&namespace, &json!({"sidecar.istio.io/inject": "false"}));
    insta::assert_snapshot!(pictures::mermaid(&[injected, skipped]));
}

proptest! {
    /// Labels may hold anything: the picture stays XML.
    #[test]
    fn any_label_is_drawn_as_xml(key in ".{0,80}", value in "\\PC*|.{0,80}") {
        let report = report(&json!({&key: &value}), &json!({&key: &value}));
        let svg = pictures::svg(std::slice::from_ref(&report));
        prop_assert!(roxmltree::Document::parse(&svg).is_ok(), "{}", svg);
        for line in pictures::mermaid(&[report]).lines().filter(|line| line.contains('"')) {
            let quotes = line.matches('"').count();
            prop_assert!(quotes == 2, "{}", line);
        }
    }
}

/// The report on a pod with the webhooks of our manifests.
fn report(namespace_labels: &Value, labels: &Value) -> CheckReport {
    let webhook = yaml::parse(include_str!("../../../manifests/base/webhook.yaml"));
    let webhook = HookConfiguration::read(&webhook.expect("YAML")).expect("a configuration");
    let configurations = [webhook.expect("an injector's")];
    let process = Process { native_sidecars: true, ..Process::default() };
    let settings = Settings::parse(&Documents::default(), process).expect("defaults");
    let injector =
        Injector { settings: Arc::new(settings), proxy_configs: ProxyConfigs::default() };
    let known = BTreeMap::from([("default".to_owned(), injector)]);
    let injectors = Injectors { configurations: &configurations, known: &known };
    let pod = json!({
        "metadata": {"labels": labels, "namespace": "shop"},
        "spec": {"containers": [{"name": "app", "image": "app"}]},
    });
    let object = Workload {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        name: "web".to_owned(),
        namespace: "shop".to_owned(),
    };
    let webhooks = explain(&injectors, namespace_labels, &pod);
    let checked = CheckedPod { object, place: None, pod, running: false };
    CheckReport { checked, namespace_labels: namespace_labels.clone(), webhooks }
}
