//! Prometheus annotations before injection.

use reason::Reason;
use serde_json::{Map, Value};

use super::doubt;
use crate::inject::computed_env::SCRAPE_CONFIG;
use crate::inject::postprocess::prometheus::{SECURE_METRICS_PORT, WRITTEN, WRITTEN_PATH};
use crate::json::short;
use crate::kubernetes::pod::{find_proxy, proxy_env};
use crate::settings::annotations::key;

/// Restores the annotations that lead Prometheus to the application.
pub(super) fn restore(
    annotations: &mut Map<String, Value>,
    injected: &Value,
    doubts: &mut Vec<Reason>,
) {
    let secure = proxy_env(injected, SECURE_METRICS_PORT);
    if secure.is_some() && annotations.get(key::SECURE_PORT).and_then(Value::as_str) == secure {
        annotations.remove(key::SECURE_PORT);
    }
    let [port, path, scrape] = WRITTEN;
    let is_merged = annotations.contains_key(port)
        && annotations.get(path).is_some_and(|path| path == WRITTEN_PATH)
        && annotations.get(scrape).is_some_and(|scrape| scrape == "true");
    let is_switched_off = annotations.get(key::MERGE_METRICS).is_some_and(|merge| merge == "false");
    if !is_merged || is_switched_off {
        return;
    }
    if find_proxy(injected).is_none() {
        let message = format!(
            "{port}, {path}, {scrape} and {} are removed; without a proxy, injection does not \
             record the original annotations",
            key::SCRAPE_TARGETS
        );
        doubts.push(doubt::not_recorded(message));
    }
    let text = proxy_env(injected, SCRAPE_CONFIG).filter(|text| !text.is_empty());
    let config: Option<Value> = text.and_then(short::parse);
    if text.is_some() && !config.as_ref().is_some_and(Value::is_object) {
        let message = format!(
            "{port}, {path} and {scrape} are removed: variable {SCRAPE_CONFIG} of istio-proxy is \
             not the JSON of injection"
        );
        doubts.push(doubt::lost_record(message));
    }
    let config = config.unwrap_or_default();
    let targets: Vec<_> = config["targets"].as_array().into_iter().flatten().collect();
    for (key, field) in [(port, "port"), (path, "path"), (scrape, "scrape")] {
        let value = config[field].as_str().unwrap_or_default();
        // With targets, port and path are those of the first target.
        if value.is_empty() || !targets.is_empty() && field != "scrape" {
            annotations.remove(key);
        } else {
            annotations.insert(key.to_owned(), value.into());
        }
    }
    if let Some(scheme) = config["scheme"].as_str() {
        annotations.insert(key::PROMETHEUS_SCHEME.to_owned(), scheme.into());
    }
    if targets.is_empty() {
        return;
    }
    let text = |target: &Value, field: &str| target[field].as_str().unwrap_or_default().to_owned();
    let targets = targets.iter().map(|target| text(target, "port") + ":" + &text(target, "path"));
    let targets: Vec<_> = targets.collect();
    annotations.insert(key::SCRAPE_TARGETS.to_owned(), targets.join(",").into());
    let message = format!(
        "the annotation {} is restored with a path for each port; the pod does not show the \
         author's spelling, nor annotations prometheus.io/port and prometheus.io/path beside it",
        key::SCRAPE_TARGETS
    );
    doubts.push(doubt::not_recorded(message));
}
