//! Ports of the pod's listeners, which must differ.

use super::annotations::STATUS_PORT;
use super::error::ConfigError;
use super::inputs::Inputs;
use super::options::{Config, Role};
use crate::environment::variables::{DNS_PROXY_ADDR, ENVOY_PROMETHEUS_PORT, ENVOY_STATUS_PORT};

/// Fails if two listeners have the same port.
pub(super) fn check(
    inputs: &Inputs,
    config: &Config,
    capture_ports: [u16; 2],
) -> Result<(), ConfigError> {
    let listeners = listeners(inputs, config, capture_ports);
    for (index, (port, second)) in listeners.iter().enumerate() {
        if let Some((port, first)) = listeners[..index].iter().find(|(other, _)| other == port) {
            return Err(ConfigError::Ports { first, second, port: *port });
        }
    }
    Ok(())
}

/// Returns the ports with the name of their setting, as the user typed it.
fn listeners(
    inputs: &Inputs,
    config: &Config,
    [outbound, inbound]: [u16; 2],
) -> Vec<(u16, &'static str)> {
    let mut listeners = vec![(15004, "the debug interface of the control plane")];
    if let Some(envoy) = &config.envoy {
        if config.role == Role::Sidecar {
            listeners.push((outbound, "the listener of captured outbound connections"));
            listeners.push((inbound, "the listener of captured inbound connections"));
        }
        let by_flag = inputs.arguments.classic.proxy_admin_port == Some(envoy.admin_port);
        let admin = if by_flag { "--proxyAdminPort" } else { "proxyAdminPort" };
        listeners.push((envoy.admin_port, admin));
        listeners.push((envoy.readiness_port, ENVOY_STATUS_PORT.name));
        listeners.push((envoy.prometheus_port, ENVOY_PROMETHEUS_PORT.name));
    }
    if let Some(status) = &config.status {
        let annotated = inputs.files.annotations.contains_key(STATUS_PORT);
        let setting =
            if annotated { "annotation status.sidecar.istio.io/port" } else { "statusPort" };
        listeners.push((status.port, setting));
    }
    // The listeners of both families have one port.
    if let Some(address) = config.dns.as_ref().and_then(|dns| dns.listen.first()) {
        listeners.push((address.port(), DNS_PROXY_ADDR.name));
    }
    listeners
}
