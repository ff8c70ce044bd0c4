//! The documents of `manifests/`, read.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The one object of a kind that is installed.
pub(crate) fn installed<T: DeserializeOwned>(kind: &str) -> T {
    let mut found: Vec<Value> = documents("install.yaml");
    found.retain(|document| document["kind"] == kind);
    assert_eq!(found.len(), 1, "one {kind}");
    serde_json::from_value(found.remove(0)).unwrap()
}

pub(crate) fn entries() -> Vec<MutatingWebhook> {
    installed::<MutatingWebhookConfiguration>("MutatingWebhookConfiguration").webhooks.unwrap()
}

pub(crate) fn services() -> Vec<Service> {
    let documents = documents("install.yaml").into_iter();
    let services = documents.filter(|document| document["kind"] == "Service");
    services.map(|document| serde_json::from_value(document).unwrap()).collect()
}

pub(crate) fn documents(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(manifests().join(file)).unwrap();
    text.split("\n---\n").map(|document| injector::yaml::parse(document).unwrap()).collect()
}

/// A document as its type writes it: without what the type does not know.
pub(crate) fn retyped<T: DeserializeOwned + Serialize>(document: &Value) -> Value {
    serde_json::to_value(serde_json::from_value::<T>(document.clone()).unwrap()).unwrap()
}

pub(crate) fn manifests() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../manifests")
}

/// Whether a label selector matches, as the API server reads it.
pub(crate) fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
    let label = |key: &str| labels.get(key).map(String::as_str);
    let equal =
        selector.match_labels.iter().flatten().all(|(key, value)| label(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|requirement| {
            let value = label(&requirement.key);
            let listed = requirement.values.iter().flatten().any(|one| value == Some(one));
            match requirement.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                operator => panic!("no such operator: {operator}"),
            }
        })
}

pub(crate) type Labels = BTreeMap<String, String>;
