//! Metrics: the agent serves the application's beside the proxy's own.

use serde_json::{Map, Value, json};

use super::{annotation, find_proxy, put_env};
use crate::change::Draft;
use crate::settings::Settings;
use crate::settings::annotation_kind::switch;
use crate::settings::annotations::{AnnotationError, key};

/// Points Prometheus to the agent, and tells the agent where the application's metrics are.
///
/// The status port is the mesh's. An error names the annotation whose port cannot be scraped.
pub fn merge(draft: &mut Draft, settings: &Settings) -> Result<(), AnnotationError> {
    let status_port = settings.mesh.default_config.status_port();
    let empty = Map::new();
    let annotations = draft.value()["metadata"]["annotations"].as_object().unwrap_or(&empty);
    let setting = |name: &str| find_setting(annotations, name);
    // A value that is no boolean says nothing.
    let scraped = setting(SCRAPE).is_none_or(|(_, value)| switch(value) != Some(false));
    let enabled = match annotation(draft.value(), key::MERGE_METRICS).map(switch) {
        Some(Some(enabled)) => enabled,
        _ => settings.mesh.enable_prometheus_merge,
    };
    let merged = port(annotations) == Some(&*status_port.to_string());
    if !scraped || !enabled || merged {
        return Ok(());
    }
    let targets = match annotations.get(TARGETS).and_then(Value::as_str) {
        Some(targets) => parse_targets(targets).unwrap_or_default(),
        None => Vec::new(),
    };
    let text = |name: &str| setting(name).map_or("", |(_, value)| value).to_owned();
    let (mut path, mut port) = (text(PATH), text(PORT));
    if let Some((first_port, first_path)) = targets.first() {
        (port, path) = (first_port.clone(), first_path.clone());
        for (port, _) in &targets {
            check_port(TARGETS, port, status_port)?;
        }
    } else if let Some((key, value)) = setting(PORT) {
        check_port(key, value, status_port)?;
    }
    let scrape = text(SCRAPE);
    let obsolete: Vec<String> =
        annotations.keys().filter(|key| is_scrape_setting(key)).cloned().collect();
    if find_proxy(draft.value()).is_some()
        && !(scrape.is_empty() && path.is_empty() && port.is_empty())
    {
        put_env(draft, SCRAPE_CONFIG, &scrape_config(&scrape, &path, &port, &targets));
    }
    let annotations = ["metadata".into(), "annotations".into()];
    for key in obsolete.iter().filter(|key| !WRITTEN.contains(&key.as_str())) {
        draft.remove(&annotations, key);
    }
    let status_port = status_port.to_string();
    for (key, value) in WRITTEN.into_iter().zip([&*status_port, "/stats/prometheus", "true"]) {
        draft.set(&["metadata".into(), "annotations".into(), key.into()], value.into());
    }
    Ok(())
}

/// Says where the merged metrics are served over TLS, if the proxy is told to.
pub fn secure_port(draft: &mut Draft) {
    let pod = draft.value();
    let annotations = pod["metadata"]["annotations"].as_object();
    let given = annotations.into_iter().flatten().any(|(key, _)| is_label(key, SECURE_PORT));
    let Some((list, index)) = find_proxy(pod).filter(|_| !given) else {
        return;
    };
    let env = pod["spec"][list][index]["env"].as_array().into_iter().flatten();
    let port = env
        .filter(|variable| variable["name"] == "ENVOY_SECURE_MERGED_METRICS_PORT")
        .find_map(|variable| variable["value"].as_str());
    if let Some(port) = port.filter(|port| !["", "0"].contains(port)).map(str::to_owned) {
        let key = "prometheus.istio.io/secure-port";
        draft.set(&["metadata".into(), "annotations".into(), key.into()], port.into());
    }
}

/// The port that a pod's annotations tell Prometheus, in any spelling of the key.
pub fn port(annotations: &Map<String, Value>) -> Option<&str> {
    find_setting(annotations, PORT).map(|(_, value)| value)
}

/// Whether an annotation tells Prometheus where to scrape, in any spelling.
pub fn is_scrape_setting(key: &str) -> bool {
    [SCRAPE, PATH, PORT].iter().any(|name| is_label(key, name))
}

fn find_setting<'a>(annotations: &'a Map<String, Value>, name: &str) -> Option<(&'a str, &'a str)> {
    annotations
        .iter()
        .find(|(key, _)| is_label(key, name))
        .and_then(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

/// Whether Prometheus turns a key into this label: all but letters, digits and `_` become `_`.
fn is_label(key: &str, name: &str) -> bool {
    let label = key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    label.eq(name.chars())
}

/// `port:path` separated by commas; the path may be left out. `None` where a part is wrong.
fn parse_targets(text: &str) -> Option<Vec<(String, String)>> {
    let targets = text.split(',').map(str::trim).filter(|target| !target.is_empty());
    targets
        .map(|target| {
            let (port, path) = target.split_once(':').unwrap_or((target, ""));
            port.trim().parse::<u16>().ok()?;
            let path = if path.is_empty() { "/metrics" } else { path };
            Some((port.trim().to_owned(), path.to_owned()))
        })
        .collect()
}

/// Istio's `PrometheusScrapeConfiguration`, in the order of its fields.
fn scrape_config(scrape: &str, path: &str, port: &str, targets: &[(String, String)]) -> String {
    let text = |text: &str| Value::from(text).to_string();
    let (scrape, path, port) = (text(scrape), text(path), text(port));
    let mut config = format!("{{\"scrape\":{scrape},\"path\":{path},\"port\":{port}");
    if !targets.is_empty() {
        let targets: Vec<_> =
            targets.iter().map(|(port, path)| json!({"port": port, "path": path})).collect();
        config.push_str(",\"targets\":");
        config.push_str(&Value::from(targets).to_string());
    }
    config + "}"
}

fn check_port(key: &str, value: &str, status_port: u16) -> Result<(), AnnotationError> {
    let problem = match value.trim().parse::<u16>() {
        Ok(port) if port > 0 => {
            let reserved = RESERVED.iter().find(|(reserved, _)| *reserved == port);
            match reserved {
                Some((_, owner)) => format!("is a port of the proxy: {owner}"),
                None if port == status_port => "is the agent's own status port".to_owned(),
                None => return Ok(()),
            }
        }
        _ => "is not a port from 1 to 65535".to_owned(),
    };
    Err(AnnotationError { key: key.to_owned().into(), value: value.to_owned(), problem })
}

/// The variable that tells the agent where the application's metrics are.
pub const SCRAPE_CONFIG: &str = "ISTIO_PROMETHEUS_ANNOTATIONS";

const SCRAPE: &str = "prometheus_io_scrape";
const PATH: &str = "prometheus_io_path";
const PORT: &str = "prometheus_io_port";
const SECURE_PORT: &str = "prometheus_istio_io_secure_port";
const TARGETS: &str = "prometheus.istio.io/scrape-targets";
const WRITTEN: [&str; 3] = ["prometheus.io/port", "prometheus.io/path", "prometheus.io/scrape"];
const RESERVED: [(u16, &str); 9] = [
    (15000, "Envoy's administration"),
    (15001, "outbound capture"),
    (15004, "debugging of the control plane"),
    (15006, "inbound capture"),
    (15008, "HBONE"),
    (15020, "merged metrics"),
    (15021, "health checks"),
    (15053, "DNS capture"),
    (15090, "Envoy's own metrics"),
];
