//! What Istio demands of a `ProxyConfig` beyond the types of its fields.

use serde_json::{Map, Value};

use super::excerpt;
use super::proxy_config::ProxyConfig;

/// The first field that no proxy could be started with: its name, its value and what is allowed
/// (Istio's `ValidateMeshConfigProxyConfig`).
pub(super) fn problem(config: &ProxyConfig) -> Option<String> {
    let fields = config.fields();
    let at = |path: &str| {
        let mut keys = path.split('.');
        let first = fields.get(keys.next()?)?;
        keys.try_fold(first, |value, key| value.get(key))
    };
    let wrong = |path: &str, allowed: &str| {
        Some(format!("{path}: {} is not {allowed}", at(path).unwrap_or(&Value::Null)))
    };
    let names = at("proxyMetadata").and_then(Value::as_object);
    if let Some(name) = names.into_iter().flat_map(Map::keys).find(|name| !is_variable(name)) {
        return Some(format!("proxyMetadata: {:?} is not {VARIABLE}", excerpt::of(name)));
    }
    let whole = |text: &str| !text.contains('.') && text != "0s";
    if at("drainDuration").and_then(Value::as_str).is_some_and(|text| !whole(text)) {
        return wrong("drainDuration", "whole seconds, at least 1s");
    }
    for path in ["proxyAdminPort", "statusPort"] {
        let number = at(path).and_then(Value::as_i64);
        if number.is_some_and(|number| !(0..=65535).contains(&number)) {
            return wrong(path, "a port");
        }
    }
    for path in ADDRESSES {
        let given = at(path).and_then(Value::as_str).filter(|address| !address.is_empty());
        if given.is_some_and(|address| !is_address(address)) {
            return wrong(path, "host:port");
        }
    }
    None
}

/// Whether Kubernetes takes this for the name of an environment variable.
pub(super) fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
}

/// A host, whatever it is called (`$(HOST_IP)` is one too), and a port.
fn is_address(address: &str) -> bool {
    address.rsplit_once(':').is_some_and(|(host, port)| {
        let host = !host.is_empty() && !host.contains(char::is_whitespace);
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        host && digits && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

const VARIABLE: &str = "the name of an environment variable (ASCII, without =)";

const ADDRESSES: [&str; 7] = [
    "discoveryAddress",
    "statsdUdpAddress",
    "envoyAccessLogService.address",
    "envoyMetricsService.address",
    "tracing.datadog.address",
    "tracing.lightstep.address",
    "tracing.zipkin.address",
];
