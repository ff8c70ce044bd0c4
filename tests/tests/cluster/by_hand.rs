//! `istioctl kube-inject -f FILE | kubectl apply -f -`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use e2e::programs::repository;
use serde_json::Value;

use crate::istioctl::{INSTALLATION, KubeInject};
use crate::stage::{Stage, manifest};

pub(crate) fn by_hand_equals_automatic(stage: &Stage) -> Result<()> {
    let cluster = stage.cluster_with_injector()?;
    let automatic = cluster.namespace("automatic", &["istio-injection=enabled"])?;
    automatic.apply(&manifest("examples/web.yaml")?)?;
    automatic.wait_until_available("web")?;

    let by_hand = cluster.namespace("by-hand", &[])?;
    // The built-in settings name Istio's images: these are those of the installation.
    let web = repository().join("manifests/examples/web.yaml");
    by_hand.apply(&KubeInject::new(web).flags(INSTALLATION).run()?)?;
    by_hand.wait_until_available("web")?;

    let (by_hand_pod, automatic_pod) = (by_hand.pod("app=web")?, automatic.pod("app=web")?);
    let mut different = Vec::new();
    differences("", &by_hand_pod["spec"], &automatic_pod["spec"], &mut different);
    different.retain(|(path, ..)| !ALLOWED.iter().any(|(allowed, _)| path.ends_with(allowed)));
    assert!(different.is_empty(), "by hand, and automatic: {different:#?}");
    automatic.delete()?;
    by_hand.delete()
}

type Difference = (String, Value, Value);

/// Every leaf that differs, by its path; list items with a name go by it.
fn differences(path: &str, left: &Value, right: &Value, found: &mut Vec<Difference>) {
    match (children(left), children(right)) {
        (Some(left), Some(right)) => {
            let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let side = |children: &BTreeMap<String, Value>| {
                    children.get(key).cloned().unwrap_or_default()
                };
                differences(&format!("{path}/{key}"), &side(&left), &side(&right), found);
            }
        }
        _ if left != right => found.push((path.to_owned(), left.clone(), right.clone())),
        _ => {}
    }
}

fn children(value: &Value) -> Option<BTreeMap<String, Value>> {
    let of_item = |(index, item): (usize, &Value)| {
        // The volume of the ServiceAccount token has a random end to its name.
        let name = item["name"].as_str().map(|name| match name.strip_prefix("kube-api-access-") {
            Some(_) => "kube-api-access".to_owned(),
            None => name.to_owned(),
        });
        (format!("{index}:{}", name.unwrap_or_default()), item.clone())
    };
    match value {
        Value::Object(fields) => {
            Some(fields.iter().map(|(key, field)| (key.clone(), field.clone())).collect())
        }
        Value::Array(items) => Some(items.iter().enumerate().map(of_item).collect()),
        _ => None,
    }
}

/// What may differ, by the end of its path, and why.
const ALLOWED: [(&str, &str); 4] = [
    (":kube-api-access/name", "its end is random"),
    (":ISTIO_KUBE_APP_PROBERS/value", "the API server has defaulted what the webhook reviews"),
    (":ISTIO_META_POD_PORTS/value", "the API server has defaulted what the webhook reviews"),
    (":ISTIO_META_OWNER/value", "by hand the namespace is not known: the file does not say it"),
];
