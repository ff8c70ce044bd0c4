//! Metrics: the agent serves the application's beside the proxy's own.

use mesh::mesh_config::MeshConfig;
use mesh::proxy_ports;
use serde_json::{Map, Value, json};

use crate::inject::computed_env::{SCRAPE_CONFIG, put_env};
use crate::istio::scrape_settings::{
    PATH, PORT, SCHEME, SCRAPE, SETTINGS, TARGETS, find_setting, is_label, parse_targets,
};
use crate::json::change::Draft;
use crate::json::short;
use crate::kubernetes::pod::{find_env, find_proxy};
use crate::settings::annotation_kind::switch;
use crate::settings::annotations::{AnnotationError, key};

/// Points Prometheus to the agent, and passes the location of the application's metrics to the
/// agent.
///
/// The status port is the mesh's. The errors name the annotations with ports that cannot be
/// scraped.
pub fn merge(
    draft: &mut Draft,
    mesh: &MeshConfig,
    reinjected: bool,
) -> Result<(), Vec<AnnotationError>> {
    let empty = Map::new();
    let annotations = draft.value()["metadata"]["annotations"].as_object().unwrap_or(&empty);
    let Some(metrics) = Metrics::wanted(annotations, mesh) else {
        return Ok(());
    };
    let is_configured = reinjected && metrics.are_configured(draft.value());
    let status_port = mesh.default_config.status_port();
    let of_labels = |names: &[&str]| -> Vec<String> {
        let is_written = |key: &str| WRITTEN.contains(&key) || key == key::PROMETHEUS_SCHEME;
        let keys = annotations.keys().filter(|key| !is_written(key));
        keys.filter(|key| names.iter().any(|name| is_label(key, name))).cloned().collect()
    };
    if metrics.is_merged(status_port) {
        // A template has set the targets again.
        if is_configured || (reinjected && metrics.targets.is_empty()) {
            let obsolete = of_labels(&[TARGETS]);
            remove(draft, &obsolete);
        }
        return Ok(());
    }
    // A template may have added some of the annotations.
    let problems = metrics.problems(status_port);
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut obsolete = of_labels(&SETTINGS);
    let is_secure = metrics.is_secure;
    if is_secure {
        obsolete.extend(of_labels(&[SCHEME]));
    }
    let config = metrics.config().filter(|_| !is_configured && find_proxy(draft.value()).is_some());
    if let Some(config) = config {
        put_env(draft, SCRAPE_CONFIG, &config);
    }
    remove(draft, &obsolete);
    let status_port = status_port.to_string();
    let written = WRITTEN.into_iter().zip([&*status_port, WRITTEN_PATH, "true"]);
    // The agent's page is plain.
    for (key, value) in written.chain(is_secure.then_some((key::PROMETHEUS_SCHEME, "http"))) {
        draft.set(&["metadata".into(), "annotations".into(), key.into()], value.into());
    }
    Ok(())
}

fn remove(draft: &mut Draft, keys: &[String]) {
    for key in keys {
        draft.remove(&["metadata".into(), "annotations".into()], key);
    }
}

/// Returns errors for the annotations with ports that cannot be scraped, if the pod's metrics are
/// to be merged.
pub fn problems(annotations: &Map<String, Value>, mesh: &MeshConfig) -> Vec<AnnotationError> {
    let status_port = mesh.default_config.status_port();
    let metrics = Metrics::wanted(annotations, mesh);
    let metrics = metrics.filter(|metrics| !metrics.is_merged(status_port));
    metrics.map_or_else(Vec::new, |metrics| metrics.problems(status_port))
}

/// Location of the application's metrics according to the annotations.
struct Metrics<'a> {
    scrape: &'a str,
    path: &'a str,
    port: Option<(&'a str, &'a str)>,
    /// True if the application's port expects TLS.
    is_secure: bool,
    targets: Vec<(String, String)>,
    given_targets: (&'a str, &'a str),
}

impl<'a> Metrics<'a> {
    /// Parses the annotations. `None` if the metrics are not to be merged.
    fn wanted(annotations: &'a Map<String, Value>, mesh: &MeshConfig) -> Option<Self> {
        let setting = |name: &str| find_setting(annotations, name);
        let text = |name: &str| setting(name).map_or("", |(_, value)| value);
        // A value that is not a boolean has no effect.
        let scraped = setting(SCRAPE).is_none_or(|(_, value)| switch(value) != Some(false));
        let enabled = annotations.get(key::MERGE_METRICS).and_then(Value::as_str).and_then(switch);
        if !scraped || !enabled.unwrap_or(mesh.enable_prometheus_merge) {
            return None;
        }
        let given_targets = setting(TARGETS).unwrap_or_default();
        let targets = parse_targets(given_targets.1).unwrap_or_default();
        let (scrape, path, port) = (text(SCRAPE), text(PATH), setting(PORT));
        let is_secure = text(SCHEME).eq_ignore_ascii_case("https");
        Some(Self { scrape, path, port, is_secure, targets, given_targets })
    }

    /// True if the annotations already point to the agent.
    fn is_merged(&self, status_port: u16) -> bool {
        self.port.is_some_and(|(_, port)| port == status_port.to_string())
    }

    /// True if a previous injection passed these metrics to the agent. Also true for a pod without
    /// a proxy.
    fn are_configured(&self, pod: &Value) -> bool {
        let Some((list, index)) = find_proxy(pod) else { return true };
        let config = find_env(pod, list, index, SCRAPE_CONFIG)
            .and_then(|place| pod["spec"][list][index]["env"][place]["value"].as_str());
        let configured: Value = config.and_then(short::parse).unwrap_or_default();
        if !self.targets.is_empty() {
            return configured["targets"] == self.targets();
        }
        // A template has set the application's port again, beside the path of the agent.
        let port = self.port.map(|(_, port)| port);
        self.path == WRITTEN_PATH && configured["port"].as_str() == port
    }

    fn targets(&self) -> Value {
        let targets = self.targets.iter();
        targets.map(|(port, path)| json!({"port": port, "path": path})).collect()
    }

    fn problems(&self, status_port: u16) -> Vec<AnnotationError> {
        let error = |key: &str, value: &str, problem: String| {
            let (key, value) = (key.to_owned().into(), value.to_owned());
            AnnotationError { key, value, problem }
        };
        if self.targets.is_empty() {
            let wrong = |(key, port)| Some(error(key, port, problem_of(port, status_port)?));
            // As in Istio, an empty port is absent.
            let port = self.port.filter(|(_, port)| !port.is_empty());
            return port.and_then(wrong).into_iter().collect();
        }
        let ports = self.targets.iter().map(|(port, _)| &**port);
        let problems = ports.filter_map(|port| {
            Some(format!("holds port {port}, which {}", problem_of(port, status_port)?))
        });
        let (key, given) = self.given_targets;
        let of_targets = |problem| error(key, given, problem);
        problems.map(of_targets).collect()
    }

    /// Returns Istio's `PrometheusScrapeConfiguration` as JSON in the order of its fields, and
    /// `scheme`, which is of this project; `None` if all fields of Istio are empty.
    fn config(&self) -> Option<String> {
        let own = (self.port.map_or("", |(_, port)| port), self.path);
        let first = self.targets.first().map(|(port, path)| (&**port, &**path));
        let (port, path) = first.unwrap_or(own);
        if self.scrape.is_empty() && path.is_empty() && port.is_empty() {
            return None;
        }
        let [scrape, path, port] =
            [self.scrape, path, port].map(|text| Value::from(text).to_string());
        let mut config = format!("{{\"scrape\":{scrape},\"path\":{path},\"port\":{port}");
        if self.is_secure {
            config.push_str(",\"scheme\":\"https\"");
        }
        if !self.targets.is_empty() {
            config.push_str(",\"targets\":");
            config.push_str(&self.targets().to_string());
        }
        Some(config + "}")
    }
}

/// Writes the port of the merged metrics over TLS, if the proxy is configured for it.
pub fn secure_port(draft: &mut Draft) {
    let pod = draft.value();
    let annotations = pod["metadata"]["annotations"].as_object();
    let given = annotations.into_iter().flatten().any(|(key, _)| is_label(key, SECURE_PORT));
    let Some((list, index)) = find_proxy(pod).filter(|_| !given) else {
        return;
    };
    let env = pod["spec"][list][index]["env"].as_array().into_iter().flatten();
    let port = env
        .filter(|variable| variable["name"] == SECURE_METRICS_PORT)
        .find_map(|variable| variable["value"].as_str());
    if let Some(port) = port.filter(|port| !["", "0"].contains(port)).map(str::to_owned) {
        let path = ["metadata".into(), "annotations".into(), key::SECURE_PORT.into()];
        draft.set(&path, port.into());
    }
}

/// Returns the reason why a port cannot be scraped, as the rest of a sentence.
fn problem_of(port: &str, status_port: u16) -> Option<String> {
    let Some(port) = port.parse::<u16>().ok().filter(|port| *port > 0) else {
        return Some("is not a port from 1 to 65535".to_owned());
    };
    let owner = match proxy_ports::owner(port) {
        Some(owner) => owner,
        None if port == status_port => "the agent",
        None => return None,
    };
    Some(format!("is a port of the proxy ({owner}); use a port of the application"))
}

/// The path at which the agent serves all metrics.
pub(crate) const WRITTEN_PATH: &str = "/stats/prometheus";

const SECURE_PORT: &str = "prometheus_istio_io_secure_port";

/// The annotations that lead Prometheus to the agent: port, path and switch.
pub(crate) const WRITTEN: [&str; 3] =
    ["prometheus.io/port", "prometheus.io/path", "prometheus.io/scrape"];

/// The variable with the port of the merged metrics over TLS.
pub(crate) const SECURE_METRICS_PORT: &str = "ENVOY_SECURE_MERGED_METRICS_PORT";
