//! Istio's validation rules for `ProxyConfig` beyond the types of its fields.

use std::net::IpAddr;

use documents::excerpt;
use serde_json::{Map, Value};

use crate::proxy_config::ProxyConfig;

/// Returns the fields with which no proxy could start: each field, its value and the allowed values
/// (Istio's `ValidateMeshConfigProxyConfig`).
pub fn problems(config: &ProxyConfig) -> Vec<String> {
    let mut rules = Rules { config, problems: Vec::new() };
    rules.variables();
    for (field, allowed) in [
        ("configPath", "a path"),
        ("binaryPath", "a path"),
        ("serviceCluster", "the name of a cluster"),
    ] {
        rules.demand(field, allowed, |value| {
            value.as_str().is_some_and(|text| !text.is_empty() && !text.contains(char::is_control))
        });
    }
    let whole = |text: &str| !text.contains('.') && text != "0s";
    rules.demand("drainDuration", "whole seconds, at least 1s", |value| {
        value.as_str().is_some_and(whole)
    });
    for field in ["proxyAdminPort", "statusPort"] {
        rules.demand(field, "a port from 1 to 65535", |value| {
            value.as_i64().is_some_and(|port| (1..=65535).contains(&port))
        });
    }
    rules.demand("controlPlaneAuthPolicy", "NONE or MUTUAL_TLS", |value| {
        ["NONE", "MUTUAL_TLS"].iter().any(|policy| value == policy)
    });
    rules.addresses();
    rules.tracing();
    rules.private_key_provider();
    rules.connection_settings();
    rules.image();
    rules.problems
}

/// A configuration and the problems found so far.
struct Rules<'a> {
    config: &'a ProxyConfig,
    problems: Vec<String>,
}

impl<'a> Rules<'a> {
    fn at(&self, path: &str) -> Option<&'a Value> {
        self.config.value_at(path)
    }

    fn text(&self, path: &str) -> &'a str {
        self.config.text_at(path)
    }

    fn demand(&mut self, path: &str, allowed: &str, good: impl Fn(&Value) -> bool) {
        if let Some(value) = self.at(path).filter(|value| !good(value)) {
            self.problems.push(format!("{path}: {value} is not {allowed}"));
        }
    }

    fn demand_text(&mut self, path: &str, allowed: &str, good: impl Fn(&str) -> bool) {
        let text = self.text(path);
        if !good(text) {
            self.problems.push(format!("{path}: {:?} is not {allowed}", excerpt::shorten(text)));
        }
    }

    /// Requires variable names that Kubernetes accepts. Istio leaves this check to Kubernetes.
    fn variables(&mut self) {
        let names = self.at("proxyMetadata").and_then(Value::as_object);
        let wrong = names.into_iter().flat_map(Map::keys).filter(|name| !is_variable(name));
        let wrong = wrong
            .map(|name| format!("proxyMetadata: {:?} is not {VARIABLE}", excerpt::shorten(name)));
        self.problems.extend(wrong);
    }

    fn addresses(&mut self) {
        self.demand_text("discoveryAddress", ADDRESS, is_address);
        for path in [
            "statsdUdpAddress",
            "envoyMetricsServiceAddress",
            "envoyMetricsService.address",
            "envoyAccessLogService.address",
        ] {
            self.demand_text(path, ADDRESS, |address| address.is_empty() || is_address(address));
        }
    }

    fn tracing(&mut self) {
        if self.at("tracing.lightstep").is_some() {
            self.demand_text("tracing.lightstep.address", ADDRESS, is_address);
            self.demand_text("tracing.lightstep.accessToken", "a token", |text| !text.is_empty());
        }
        for (tracer, path) in [
            ("tracing.zipkin", "tracing.zipkin.address"),
            ("tracing.datadog", "tracing.datadog.address"),
        ] {
            if self.at(tracer).is_some() {
                // The agent replaces `$(HOST_IP)` by the node's address.
                let with_host = |text: &str| text.replacen("$(HOST_IP)", "127.0.0.1", 1);
                self.demand_text(path, ADDRESS, |text| is_address(&with_host(text)));
            }
        }
        self.tls("tracing.tlsSettings");
    }

    fn tls(&mut self, path: &str) {
        let Some(settings) = self.at(path) else { return };
        let mode = settings["mode"].as_str().unwrap_or("DISABLE");
        if !["SIMPLE", "MUTUAL"].contains(&mode) {
            return;
        }
        let has = |field: &&&str| settings.get(field).is_some();
        let credential = settings.get("credentialName").is_some();
        let excluded = |by: &str, fields: &[&str]| {
            let given: Vec<_> = fields.iter().filter(has).copied().collect();
            let given = given.join(", ");
            (!given.is_empty()).then(|| format!("{path}: {by} excludes {given}"))
        };
        if settings["insecureSkipVerify"] == true {
            let verifying: &[&str] = match mode {
                "SIMPLE" => &["caCertificates", "credentialName", "subjectAltNames"],
                _ => &["caCertificates", "subjectAltNames"],
            };
            self.problems.extend(excluded("insecureSkipVerify", verifying));
        }
        if credential {
            let files = ["clientCertificate", "caCertificates", "privateKey", "caCrl"];
            self.problems.extend(excluded("credentialName", &files));
        } else if mode == "MUTUAL" {
            for field in ["clientCertificate", "privateKey"] {
                self.demand_text(&format!("{path}.{field}"), "a file", |text| !text.is_empty());
            }
        }
    }

    fn private_key_provider(&mut self) {
        let Some(provider) = self.at("privateKeyProvider") else { return };
        let Some(name) = ["cryptomb", "qat"].into_iter().find(|name| provider.get(name).is_some())
        else {
            self.demand("privateKeyProvider", "cryptomb or qat", |_| false);
            return;
        };
        let path = format!("privateKeyProvider.{name}.pollDelay");
        self.demand_text(&path, "a duration above 0s", |text| !["", "0s"].contains(&text));
    }

    /// Limits of connections. Negative durations are rejected elsewhere.
    fn connection_settings(&mut self) {
        for (field, least) in [
            ("listenerPerConnectionBufferLimitBytes", 0),
            ("clusterPerConnectionBufferLimitBytes", 0),
            ("httpMaxConcurrentStreams", 1),
            ("http2InitialStreamWindowSize", 65535),
            ("http2InitialConnectionWindowSize", 65535),
            ("listenerConnectionLimit", 1),
            ("globalDownstreamConnectionLimit", 1),
        ] {
            let (path, allowed) =
                (format!("connectionSettings.{field}"), format!("{least} or more"));
            self.demand(&path, &allowed, |value| value.as_i64().is_some_and(|n| n >= least));
        }
    }

    /// End of the image's tag. Istio leaves its validation to the container runtime.
    fn image(&mut self) {
        self.demand_text("image.imageType", IMAGE_TYPE, is_image_type);
    }
}

/// True if Kubernetes accepts the name for an environment variable.
pub fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
}

/// True if the text is a host name or IP address with a port.
/// True if the text is `HOST:PORT`, without a scheme.
pub fn is_address(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = bracketed.unwrap_or(host);
    let separated = bracketed.is_some() || !host.contains(':');
    let port = port.parse().is_ok_and(|port: i64| (1..=65535).contains(&port));
    separated && port && (is_domain(host) || is_ip(host))
}

/// True if the text is an IP address. An IPv6 address may have a zone.
fn is_ip(host: &str) -> bool {
    match host.split_once('%') {
        Some((host, zone)) => host.contains(':') && !zone.is_empty() && is_ip(host),
        None => host.parse::<IpAddr>().is_ok(),
    }
}

/// True if the text is a DNS name, relative or absolute, whose last label is not a number.
fn is_domain(host: &str) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or_default();
    host.len() <= 255 && last.parse::<i64>().is_err() && name.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let ends = !label.starts_with('-') && !label.ends_with('-');
    (1..=63).contains(&label.len()) && ends && label.bytes().all(inner)
}

const ADDRESS: &str = "host:port (a DNS name or an IP address, and a port from 1 to 65535)";
const VARIABLE: &str = "the name of an environment variable (ASCII, without =)";

/// True if the text can end the tag of an image.
pub fn is_image_type(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// Description of the texts that [`is_image_type`] accepts.
pub const IMAGE_TYPE: &str = "the end of an image's tag such as debug or distroless";

#[cfg(test)]
mod tests {
    use documents::yaml;

    use super::*;

    fn problems_of(layer: &str) -> String {
        let mut config = ProxyConfig::default();
        config.apply(&yaml::parse(layer).unwrap()).unwrap();
        problems(&config).join("\n")
    }

    #[test]
    fn each_field_rejected_by_istio_is_named() {
        let layers = [
            "configPath: ''",
            "binaryPath: ''",
            "serviceCluster: ''",
            "drainDuration: 0s",
            "drainDuration: 1.5s",
            "discoveryAddress: ''",
            "discoveryAddress: nowhere",
            "discoveryAddress: 'a_b:1'",
            "statsdUdpAddress: 'host:port'",
            "envoyMetricsServiceAddress: 'host:0'",
            "envoyMetricsService: {address: 'host:70000'}",
            "envoyAccessLogService: {address: '10.0.0.256:80'}",
            "proxyAdminPort: 0",
            "statusPort: 0",
            "statusPort: -1",
            "controlPlaneAuthPolicy: INHERIT",
            "tracing: {zipkin: {}}",
            "tracing: {zipkin: {address: ''}}",
            "tracing: {datadog: {address: '$(HOST_IP)'}}",
            "tracing: {lightstep: {address: 'a:1'}}",
            "tracing: {lightstep: {}}",
            "tracing: {tlsSettings: {mode: MUTUAL, clientCertificate: /c}}",
            "tracing: {tlsSettings: {mode: SIMPLE, credentialName: c, caCertificates: /ca}}",
            "tracing: {tlsSettings: {mode: SIMPLE, insecureSkipVerify: true, subjectAltNames: [a]}}",
            "privateKeyProvider: {}",
            "privateKeyProvider: {cryptomb: {}}",
            "privateKeyProvider: {qat: {pollDelay: 0s}}",
            "connectionSettings: {listenerPerConnectionBufferLimitBytes: -1}",
            "connectionSettings: {clusterPerConnectionBufferLimitBytes: '-1'}",
            "connectionSettings: {httpMaxConcurrentStreams: 0}",
            "connectionSettings: {http2InitialStreamWindowSize: 65534}",
            "connectionSettings: {http2InitialConnectionWindowSize: 1e3}",
            "connectionSettings: {listenerConnectionLimit: -0.0}",
            "connectionSettings: {globalDownstreamConnectionLimit: 0}",
            "image: {imageType: 'a b'}",
            "proxyMetadata: {'A=B': c}",
            "statusPort: 0\nserviceCluster: ''",
        ];
        let problems: Vec<_> = layers.map(problems_of).into();
        insta::assert_snapshot!(problems.join("\n"), @r#"
        configPath: "" is not a path
        binaryPath: "" is not a path
        serviceCluster: "" is not the name of a cluster
        drainDuration: "0s" is not whole seconds, at least 1s
        drainDuration: "1.500s" is not whole seconds, at least 1s
        discoveryAddress: "" is not host:port (a DNS name or an IP address, and a port from 1 to 65535)
        discoveryAddress: "nowhere" is not host:port (a DNS name or an IP address, and a port from 1 to 65535)
        discoveryAddress: "a_b:1" is not host:port (a DNS name or an IP address, and a port from 1 to 65535)
        statsdUdpAddress: "host:port" is not host:port (a DNS name or an IP address, and a port from 1 to 65535)
        envoyMetricsServiceAddress: "host:0" is not host:port (a DNS name or an IP address, and a port from 1 to 65535)
        envoyMetricsService.address: "host:70000" is not host:port (a DNS name or an IP address, and a port from 1 to 65535)
        envoyAccessLogService.address: "10.0.0.256:80" is not host:port (a DNS name or an IP address, and a port from 1 to 65535)
        proxyAdminPort: 0 is not a port from 1 to 65535
        statusPort: 0 is not a port from 1 to 65535
        statusPort: -1 is not a port from 1 to 65535
        controlPlaneAuthPolicy: "INHERIT" is not NONE or MUTUAL_TLS
        tracing.zipkin.address: "" is not host:port (a DNS name or an IP address, and a port from 1 to 65535)
        tracing.zipkin.address: "" is not host:port (a DNS name or an IP address, and a port from 1 to 65535)
        tracing.datadog.address: "$(HOST_IP)" is not host:port (a DNS name or an IP address, and a port from 1 to 65535)
        tracing.lightstep.accessToken: "" is not a token
        tracing.lightstep.address: "" is not host:port (a DNS name or an IP address, and a port from 1 to 65535)
        tracing.lightstep.accessToken: "" is not a token
        tracing.tlsSettings.privateKey: "" is not a file
        tracing.tlsSettings: credentialName excludes caCertificates
        tracing.tlsSettings: insecureSkipVerify excludes subjectAltNames
        privateKeyProvider: {} is not cryptomb or qat
        privateKeyProvider.cryptomb.pollDelay: "" is not a duration above 0s
        privateKeyProvider.qat.pollDelay: "0s" is not a duration above 0s
        connectionSettings.listenerPerConnectionBufferLimitBytes: -1 is not 0 or more
        connectionSettings.clusterPerConnectionBufferLimitBytes: -1 is not 0 or more
        connectionSettings.httpMaxConcurrentStreams: 0 is not 1 or more
        connectionSettings.http2InitialStreamWindowSize: 65534 is not 65535 or more
        connectionSettings.http2InitialConnectionWindowSize: 1000 is not 65535 or more
        connectionSettings.listenerConnectionLimit: 0 is not 1 or more
        connectionSettings.globalDownstreamConnectionLimit: 0 is not 1 or more
        image.imageType: "a b" is not the end of an image's tag such as debug or distroless
        proxyMetadata: "A=B" is not the name of an environment variable (ASCII, without =)
        serviceCluster: "" is not the name of a cluster
        statusPort: 0 is not a port from 1 to 65535
        "#);
    }

    #[test]
    fn values_accepted_by_istio_are_valid() {
        for layer in [
            "{}",
            "configPath: null",
            "concurrency: 0",
            "concurrency: '-0'",
            "statNameLength: 0",
            "terminationDrainDuration: 0s",
            "terminationDrainDuration: 1500ms",
            "meshId: ''",
            "statsdUdpAddress: ''",
            "zipkinAddress: nowhere",
            "envoyMetricsService: {}",
            "envoyAccessLogService: {address: ''}",
            "interceptionMode: REDIRECT",
            "controlPlaneAuthPolicy: NONE",
            "tracingServiceName: APP_LABEL_AND_NAMESPACE",
            "tracing: {}",
            "tracing: {stackdriver: {}}",
            "tracing: {zipkin: {address: '$(HOST_IP):9411'}}",
            "tracing: {tlsSettings: {}}",
            "tracing: {tlsSettings: {mode: ISTIO_MUTUAL}}",
            "tracing: {tlsSettings: {mode: SIMPLE, caCertificates: /ca}}",
            "tracing: {tlsSettings: {mode: MUTUAL, credentialName: c, insecureSkipVerify: true}}",
            "privateKeyProvider: {cryptomb: {pollDelay: 10ms}}",
            "concurrency: -1",
            "connectionSettings: {}",
            "connectionSettings: {httpMaxConcurrentStreams: null, httpIdleTimeout: 0s}",
            "connectionSettings: {listenerPerConnectionBufferLimitBytes: 0, listenerConnectionLimit: 1}",
            "connectionSettings: {http2InitialStreamWindowSize: 65535}",
            "image: {imageType: ''}",
            "readinessProbe: {periodSeconds: -1, httpGet: {port: 4294967295}}",
            "discoveryAddress: 'Istiod.istio-system.svc.:15012'",
            "discoveryAddress: '[fe80::1%eth0]:15012'",
            "discoveryAddress: '10.0.0.1:015012'",
        ] {
            assert_eq!(problems_of(layer), "", "{layer}");
        }
    }
}
