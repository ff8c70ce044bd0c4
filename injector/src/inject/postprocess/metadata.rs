//! Labels and annotations that injection writes.

use std::collections::BTreeMap;

use reason::{Reason, words};
use serde::Serialize;
use serde_json::Value;

use crate::inject::prepare::path_env::NETWORK_LABEL;
use crate::inject::reinject::status::STATUS;
use crate::json::change::Draft;
use crate::kubernetes::label_selector;

/// Writes the network label, the status annotation and the annotations that every injected pod
/// gets. Warns about a network name that is not a valid label value.
pub fn apply(
    draft: &mut Draft,
    network: Option<&str>,
    status: &str,
    injected_annotations: &BTreeMap<String, String>,
) -> Option<Reason> {
    let label = network.filter(|network| label_selector::is_value(network));
    if let Some(network) = label {
        draft.set(&["metadata".into(), "labels".into(), NETWORK_LABEL.into()], network.into());
    }
    let mut annotate = |key: &str, value: &str| {
        draft.set(&["metadata".into(), "annotations".into(), key.into()], value.into());
    };
    annotate(STATUS, status);
    for (key, value) in injected_annotations {
        annotate(key, value);
    }
    let network = network.filter(|_| label.is_none())?;
    let message = format!("network {network:?} is not a valid label value");
    Some(Reason::new(words::NETWORK_LABEL, message))
}

/// Returns the value of the status annotation: the names of everything that the overlays add.
pub fn status(injected: &Value, revision: &str) -> String {
    let spec = &injected["spec"];
    let names = |list: &str| {
        let items = spec[list].as_array().filter(|items| !items.is_empty())?;
        let name = |item: &Value| item["name"].as_str().unwrap_or_default().to_owned();
        Some(items.iter().map(name).collect())
    };
    let status = Status {
        init_containers: names("initContainers"),
        containers: names("containers"),
        volumes: names("volumes"),
        image_pull_secrets: names("imagePullSecrets"),
        revision,
    };
    serde_json::to_string(&status).unwrap_or_default()
}

/// Istio's `SidecarInjectionStatus`, in the order of its fields; empty ones are `null`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    init_containers: Option<Vec<String>>,
    containers: Option<Vec<String>>,
    volumes: Option<Vec<String>>,
    image_pull_secrets: Option<Vec<String>>,
    revision: &'a str,
}
