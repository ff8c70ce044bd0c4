//! Servers that Envoy sends data to: tracer, access log service, metrics service.

use std::time::Duration;

use mesh::proxy_config::ProxyConfig;

use super::bootstrap_options::{Address, ClientTls, Keepalive, RemoteService, TlsIdentity, Tracer};
use super::error::ConfigError;

/// Returns the tracer of `tracing`, or of the older field `zipkinAddress`.
pub(super) fn tracer(config: &ProxyConfig, host_ip: &str) -> Result<Option<Tracer>, ConfigError> {
    for (tracer, reason) in [
        (
            "lightstep",
            "Envoy has no Lightstep tracer; hint: use an OpenTelemetry extension provider",
        ),
        (
            "stackdriver",
            "Envoy has no Stackdriver tracer; hint: use an OpenTelemetry extension provider",
        ),
        (
            "openCensusAgent",
            "Envoy has no OpenCensus tracer; hint: use an OpenTelemetry extension provider",
        ),
    ] {
        let field = format!("tracing.{tracer}");
        if config.value_at(&field).is_some() {
            return Err(ConfigError::field(field, reason));
        }
    }
    let with_host = |text: &str| text.replacen("$(HOST_IP)", &bracketed(host_ip), 1);
    let service = |field: &str| {
        let address = address(field, &with_host(config.text_at(field)))?;
        let tls = tls(config, "tracing.tlsSettings")?;
        Ok(RemoteService { address, tls, keepalive: None })
    };
    if config.value_at("tracing.datadog").is_some() {
        return service("tracing.datadog.address").map(Tracer::Datadog).map(Some);
    }
    if config.value_at("tracing.zipkin").is_some() {
        return service("tracing.zipkin.address").map(Tracer::Zipkin).map(Some);
    }
    match config.text_at("zipkinAddress") {
        "" => Ok(None),
        _ => service("zipkinAddress").map(Tracer::Zipkin).map(Some),
    }
}

/// Returns the server of a field of the message type `RemoteService`; `None` without an address.
pub(super) fn remote_service(
    config: &ProxyConfig,
    field: &str,
) -> Result<Option<RemoteService>, ConfigError> {
    let path = format!("{field}.address");
    let text = config.text_at(&path);
    if text.is_empty() {
        return Ok(None);
    }
    let keepalive = config.message_at(&format!("{field}.tcpKeepalive")).map(|_| Keepalive {
        probes: number(config, &format!("{field}.tcpKeepalive.probes")),
        time: seconds(config, &format!("{field}.tcpKeepalive.time")),
        interval: seconds(config, &format!("{field}.tcpKeepalive.interval")),
    });
    Ok(Some(RemoteService {
        address: address(&path, text)?,
        tls: tls(config, &format!("{field}.tlsSettings"))?,
        keepalive,
    }))
}

/// Parses `HOST:PORT`.
pub(super) fn address(field: &str, text: &str) -> Result<Address, ConfigError> {
    let parse = || {
        let (host, port) = text.rsplit_once(':')?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().ok().filter(|port| *port != 0)?;
        (!bare.is_empty()).then(|| Address { host: bare.to_owned(), port })
    };
    parse().ok_or_else(|| ConfigError::field(field, format!("{text:?} is not HOST:PORT")))
}

fn tls(config: &ProxyConfig, path: &str) -> Result<Option<ClientTls>, ConfigError> {
    if config.message_at(path).is_none() {
        return Ok(None);
    }
    let text = |name: &str| config.text_at(&format!("{path}.{name}")).to_owned();
    let identity = match text("mode").as_str() {
        "SIMPLE" => TlsIdentity::None,
        "MUTUAL" => {
            TlsIdentity::Files { certificate: text("clientCertificate"), key: text("privateKey") }
        }
        "ISTIO_MUTUAL" => TlsIdentity::Workload,
        _ => return Ok(None),
    };
    if !text("credentialName").is_empty() {
        let problem = "credentials of the control plane are not available in the bootstrap; hint: \
                       mount files and name them in clientCertificate, privateKey and \
                       caCertificates";
        return Err(ConfigError::field(format!("{path}.credentialName"), problem));
    }
    let optional = |name: &str| Some(text(name)).filter(|text| !text.is_empty());
    let names = config.texts_at(&format!("{path}.subjectAltNames"));
    Ok(Some(ClientTls {
        identity,
        ca_certificates: optional("caCertificates"),
        ca_crl: optional("caCrl"),
        subject_alt_names: names.into_iter().map(str::to_owned).collect(),
        sni: text("sni"),
        insecure: config.switch_at(&format!("{path}.insecureSkipVerify")).unwrap_or_default(),
    }))
}

fn number(config: &ProxyConfig, path: &str) -> Option<u32> {
    config.number_at(path).and_then(|number| u32::try_from(number).ok())
}

fn seconds(config: &ProxyConfig, path: &str) -> Option<u32> {
    let whole = |duration: Duration| u32::try_from(duration.as_secs()).ok();
    config.duration_at(path).and_then(whole)
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn config(layer: &Value) -> ProxyConfig {
        let mut config = ProxyConfig::default();
        config.overlay(layer).unwrap();
        config
    }

    #[test]
    fn tracers_are_resolved() {
        let plain = |host: &str, port| {
            let address = Address { host: host.to_owned(), port };
            RemoteService { address, tls: None, keepalive: None }
        };
        for (layer, expected) in [
            (json!({}), None),
            (json!({"zipkinAddress": "z:9411"}), Some(Tracer::Zipkin(plain("z", 9411)))),
            (
                json!({"tracing": {"zipkin": {"address": "[::1]:1"}}}),
                Some(Tracer::Zipkin(plain("::1", 1))),
            ),
            (
                json!({"tracing": {"datadog": {"address": "$(HOST_IP):8126"}}}),
                Some(Tracer::Datadog(plain("fd00::9", 8126))),
            ),
        ] {
            assert_eq!(tracer(&config(&layer), "fd00::9"), Ok(expected), "{layer}");
        }
    }

    #[test]
    fn tracers_that_envoy_lacks_are_rejected() {
        for (name, value) in [
            ("lightstep", json!({"address": "l:1", "accessToken": "t"})),
            ("stackdriver", json!({})),
            ("openCensusAgent", json!({"address": "o:1"})),
        ] {
            let error =
                tracer(&config(&json!({"tracing": {name: value}})), "").unwrap_err().to_string();
            assert!(error.starts_with(&format!("ProxyConfig field tracing.{name}: ")), "{error}");
        }
    }

    #[test]
    fn remote_service_has_tls_and_keepalive() {
        let layer = json!({"envoyMetricsService": {
            "address": "metrics.monitoring:15000",
            "tlsSettings": {"mode": "MUTUAL", "clientCertificate": "/c", "privateKey": "/k",
                "caCertificates": "/ca", "subjectAltNames": ["a"], "sni": "s"},
            "tcpKeepalive": {"probes": 3, "time": "10s"},
        }});
        let service = remote_service(&config(&layer), "envoyMetricsService").unwrap().unwrap();
        let tls = service.tls.unwrap();
        assert_eq!(tls.identity, TlsIdentity::Files { certificate: "/c".into(), key: "/k".into() });
        assert_eq!((tls.ca_certificates.as_deref(), &*tls.sni), (Some("/ca"), "s"));
        let keepalive = Keepalive { probes: Some(3), time: Some(10), interval: None };
        assert_eq!(service.keepalive, Some(keepalive));
        assert_eq!(remote_service(&config(&json!({})), "envoyMetricsService"), Ok(None));
    }

    #[test]
    fn credential_of_the_control_plane_is_rejected() {
        let layer = json!({"tracing": {
            "zipkin": {"address": "z:1"}, "tlsSettings": {"mode": "SIMPLE", "credentialName": "c"},
        }});
        let error = tracer(&config(&layer), "").unwrap_err().to_string();
        assert!(error.contains("tracing.tlsSettings.credentialName"), "{error}");
    }
}
