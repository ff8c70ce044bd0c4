//! Flags of `proxy` in Istio's versions of 2017.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use mesh::proxy_config_rules::is_address;

/// Flags of 2017. Most are fields of `ProxyConfig` today, which take precedence.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Older flags, of ProxyConfig")]
pub struct ClassicArgs {
    /// Address of the pod, unless `INSTANCE_IP` is set
    /// [default: the addresses of the network interfaces]
    #[arg(long, value_name = "ADDRESS", value_parser = ip_address)]
    pub ip: Option<String>,
    /// `POD.NAMESPACE`, required unless `POD_NAME` and `POD_NAMESPACE` are set [default: none]
    #[arg(long, value_name = "POD.NAMESPACE", value_parser = pod_id)]
    pub id: Option<String>,
    /// `serviceCluster` of `ProxyConfig`; istio-proxy stands for the name of the app
    /// [default: that of --meshConfig, else istio-proxy]
    #[arg(long = "serviceCluster", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub service_cluster: Option<String>,
    /// `configPath` of `ProxyConfig` [default: that of --meshConfig, else ./etc/istio/proxy]
    #[arg(long = "configPath", value_name = "FOLDER", value_parser = NonEmptyStringValueParser::new())]
    pub config_path: Option<String>,
    /// `binaryPath` of `ProxyConfig`
    /// [default: that of --meshConfig, else /usr/local/bin/envoy]
    #[arg(long = "binaryPath", value_name = "FILE", value_parser = NonEmptyStringValueParser::new())]
    pub binary_path: Option<String>,
    /// Zone of the proxy, unless the label `istio-locality` names one
    /// [default: that of --meshConfig, else none]
    #[arg(long = "availabilityZone", value_name = "ZONE")]
    pub availability_zone: Option<String>,
    /// `drainDuration` of `ProxyConfig` [default: that of --meshConfig, else 45s]
    #[arg(long = "drainDuration", value_name = "DURATION", value_parser = go_duration::positive)]
    pub drain_duration: Option<Duration>,
    /// Life of the old Envoy after a hot restart, longer than the drain duration
    /// [default: the drain duration and 5s]
    #[arg(long = "parentShutdownDuration", value_name = "DURATION", value_parser = go_duration::positive)]
    pub parent_shutdown_duration: Option<Duration>,
    /// `discoveryAddress` of `ProxyConfig`
    /// [default: that of --meshConfig, else istiod.istio-system.svc:15012]
    #[arg(long = "discoveryAddress", value_name = "HOST:PORT", value_parser = address)]
    pub discovery_address: Option<String>,
    /// `zipkinAddress` of `ProxyConfig` [default: that of --meshConfig, else none]
    #[arg(long = "zipkinAddress", value_name = "HOST:PORT", value_parser = address_or_none)]
    pub zipkin_address: Option<String>,
    /// Connect timeout of the static clusters [default: 1s]
    #[arg(long = "connectTimeout", value_name = "DURATION", value_parser = go_duration::positive)]
    pub connect_timeout: Option<Duration>,
    /// `statsdUdpAddress` of `ProxyConfig` [default: that of --meshConfig, else none]
    #[arg(long = "statsdUdpAddress", value_name = "IP:PORT", value_parser = udp_address_or_none)]
    pub statsd_udp_address: Option<String>,
    /// `proxyAdminPort` of `ProxyConfig` [default: that of --meshConfig, else 15000]
    #[arg(long = "proxyAdminPort", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub proxy_admin_port: Option<u16>,
    /// `controlPlaneAuthPolicy` of `ProxyConfig`: NONE or `MUTUAL_TLS`
    /// [default: that of --meshConfig, else `MUTUAL_TLS`]
    #[arg(long = "controlPlaneAuthPolicy", value_name = "POLICY")]
    pub control_plane_auth_policy: Option<String>,
}

fn address(text: &str) -> Result<String, String> {
    // The agent replaces `$(HOST_IP)` by the node's address.
    if is_address(&text.replacen("$(HOST_IP)", "127.0.0.1", 1)) {
        return Ok(text.to_owned());
    }
    Err("expected HOST:PORT without a scheme, and a port from 1 to 65535".to_owned())
}

fn ip_address(text: &str) -> Result<String, String> {
    match text.parse::<IpAddr>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("expected an IP address".to_owned()),
    }
}

fn pod_id(text: &str) -> Result<String, String> {
    match text.rsplit_once('.') {
        Some((pod, namespace)) if !pod.is_empty() && !namespace.is_empty() => Ok(text.to_owned()),
        _ => Err("expected POD.NAMESPACE".to_owned()),
    }
}

/// Envoy resolves no names for UDP.
fn udp_address_or_none(text: &str) -> Result<String, String> {
    let parsed = text.parse::<SocketAddr>();
    if text.is_empty() || parsed.is_ok_and(|address| address.port() != 0) {
        return Ok(text.to_owned());
    }
    Err("expected IP:PORT, since Envoy resolves no names for UDP".to_owned())
}

fn address_or_none(text: &str) -> Result<String, String> {
    if text.is_empty() { Ok(String::new()) } else { address(text) }
}
