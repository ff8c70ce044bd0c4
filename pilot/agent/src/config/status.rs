//! Settings of the status port and of the DNS proxy.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use mesh::proxy_config::ProxyConfig;
use serde_json::{Map, Value};

use super::annotations::{SCRAPE_TARGETS, STATUS_PORT};
use super::error::ConfigError;
use super::inputs::Files;
use super::metadata;
use super::options::{DnsOptions, StatusOptions};
use crate::environment::Environment;
use crate::environment::variables::{
    DISABLE_ENVOY, DNS_FORWARD_PARALLEL, DNS_FORWARD_TIMEOUT, DNS_PROXY_ADDR,
    ISTIO_KUBE_APP_PROBERS, ISTIO_PROMETHEUS_ANNOTATIONS, METRICS_LOCALHOST_ACCESS_ONLY,
    REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION,
};
use crate::resolv_conf::{PORT as DNS_PORT, ResolvConf};

/// Resolves the status port; `None` if it is 0.
pub(super) fn status(
    environment: &Environment,
    files: &Files,
    config: &ProxyConfig,
) -> Result<Option<StatusOptions>, ConfigError> {
    let port = match files.annotations.get(STATUS_PORT) {
        None => config.status_port(),
        Some(text) => text.trim().parse().map_err(|_| {
            ConfigError::annotation(STATUS_PORT, text, "expected a port (1–65535), or 0 for none")
        })?,
    };
    let text = |variable| environment.get(variable).map(str::to_owned);
    let options = StatusOptions {
        port,
        app_probers: text(ISTIO_KUBE_APP_PROBERS),
        prometheus_annotations: text(ISTIO_PROMETHEUS_ANNOTATIONS),
        scrape_targets: files.annotations.get(SCRAPE_TARGETS).cloned(),
        probe_localhost: environment.switch(REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION)?,
        metrics_on_loopback_only: environment.switch(METRICS_LOCALHOST_ACCESS_ONLY)?,
    };
    Ok((port != 0).then_some(options))
}

/// Resolves the DNS proxy; `None` unless `ISTIO_META_DNS_CAPTURE` is set.
pub(super) fn dns(
    environment: &Environment,
    files: &Files,
    metadata: &Map<String, Value>,
) -> Result<Option<DnsOptions>, ConfigError> {
    let forward_timeout = environment.duration(DNS_FORWARD_TIMEOUT)?;
    if forward_timeout.is_zero() {
        let wrong = environment.wrong(DNS_FORWARD_TIMEOUT, "a duration above 0s, such as 5s");
        return Err(wrong.into());
    }
    // Invalid values are told without capture too.
    let listen = listen_addresses(environment, files)?;
    let options = DnsOptions {
        resolv_conf: super::RESOLV_CONF.into(),
        forward_parallel: environment.switch(DNS_FORWARD_PARALLEL)?,
        forward_timeout,
        forwards_before_table: environment.switch(DISABLE_ENVOY)?
            || listen.iter().any(|address| address.port() == DNS_PORT),
        listen,
    };
    Ok(metadata::switch(metadata, "DNS_CAPTURE")?.then_some(options))
}

/// Returns the addresses of `DNS_PROXY_ADDR`. `localhost` stands for the loopback address of each
/// family that the resolver's servers have.
fn listen_addresses(
    environment: &Environment,
    files: &Files,
) -> Result<Vec<SocketAddr>, ConfigError> {
    let wrong = || environment.wrong(DNS_PROXY_ADDR, "HOST:PORT with localhost or an IP address");
    let text = environment.text(DNS_PROXY_ADDR);
    if let Ok(address) = text.parse::<SocketAddr>() {
        return if address.port() == 0 { Err(wrong().into()) } else { Ok(vec![address]) };
    }
    let port = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let port = port.filter(|port| *port != 0).ok_or_else(wrong)?;
    let servers = ResolvConf::parse(&files.resolv_conf).servers;
    let servers: Vec<IpAddr> = servers.into_iter().map(|server| server.address).collect();
    let mut listen: Vec<SocketAddr> = Vec::new();
    if servers.is_empty() || servers.iter().any(IpAddr::is_ipv4) {
        listen.push((Ipv4Addr::LOCALHOST, port).into());
    }
    if servers.iter().any(IpAddr::is_ipv6) {
        listen.push((Ipv6Addr::LOCALHOST, port).into());
    }
    Ok(listen)
}
