//! Annotations that say where Prometheus finds an application's metrics.

use serde_json::{Map, Value};

/// The port that a pod's annotations tell Prometheus, in any spelling of the key.
pub fn port(annotations: &Map<String, Value>) -> Option<&str> {
    find_setting(annotations, PORT).map(|(_, value)| value)
}

/// True if an annotation sets a scrape port or path, in any spelling.
pub fn is_scrape_setting(key: &str) -> bool {
    SETTINGS.iter().any(|name| is_label(key, name))
}

pub(crate) fn find_setting<'a>(
    annotations: &'a Map<String, Value>,
    name: &str,
) -> Option<(&'a str, &'a str)> {
    annotations
        .iter()
        .find(|(key, _)| is_label(key, name))
        .and_then(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

/// True if Prometheus turns a key into this label: all but letters, digits and `_` become `_`.
pub(crate) fn is_label(key: &str, name: &str) -> bool {
    let label = key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    label.eq(name.chars())
}

/// True if the list of scrape targets is valid.
pub fn are_targets(text: &str) -> bool {
    parse_targets(text).is_some()
}

/// Parses `port:path` separated by commas; the path may be left out. Returns `None` if a part has
/// no port, because Istio ignores the list then. The caller validates the ports.
pub(crate) fn parse_targets(text: &str) -> Option<Vec<(String, String)>> {
    let targets = text.split(',').map(str::trim).filter(|target| !target.is_empty());
    targets
        .map(|target| {
            let (port, path) = target.split_once(':').unwrap_or((target, ""));
            let (port, path) = (port.trim(), path.trim());
            let path = if path.is_empty() { "/metrics" } else { path };
            (!port.is_empty()).then(|| (port.to_owned(), path.to_owned()))
        })
        .collect()
}

pub(crate) const SCRAPE: &str = "prometheus_io_scrape";
pub(crate) const PATH: &str = "prometheus_io_path";
pub(crate) const PORT: &str = "prometheus_io_port";
pub(crate) const SCHEME: &str = "prometheus_io_scheme";
pub(crate) const TARGETS: &str = "prometheus_istio_io_scrape_targets";
pub(crate) const SETTINGS: [&str; 4] = [SCRAPE, PATH, PORT, TARGETS];
