//! Clusters of the application.

use std::net::IpAddr;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{DiscoveryType, LbPolicy};
use envoy_types::pb::envoy::config::core::v3::{BindConfig, ExtraSourceAddress};
use pilot_registry::protocol::{Protocol, ProtocolClass};

use super::super::context::Context;
use super::super::message::{address, duration, socket_address};
use super::super::names;
use super::{assignment, cluster, downstream_options, original_destination};
use crate::view::Interception;

/// Inputs of a cluster of the application.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InboundCluster {
    /// Port of the application; `None` for ports that no service leads to.
    port: Option<u16>,
    protocol: Protocol,
    /// Fixed address of the application instead of the one that the client used.
    destination: Option<IpAddr>,
    /// Source addresses of connections; empty if they have the client's.
    sources: Vec<IpAddr>,
}

impl InboundCluster {
    /// Returns `None` for other names than those of the proxy's inbound clusters.
    pub(super) fn new(context: &Context<'_>, name: &str) -> Option<Self> {
        if !context.proxy.captures() {
            return None;
        }
        if name == names::INBOUND_PASSTHROUGH {
            let (port, destination) = (None, None);
            let (protocol, sources) = (Protocol::Undeclared, inbound_sources(context));
            return Some(Self { port, protocol, destination, sources });
        }
        let port = names::parse_inbound(name)?;
        let target = context.inbound_ports().find(|target| target.port == port)?;
        let loopback = context.proxy.families().loopback();
        let local = context.mesh.inbound_to_localhost.then(|| loopback[0]);
        Some(Self {
            port: Some(port),
            protocol: target.service_port.protocol,
            destination: local,
            sources: if local.is_some() { Vec::new() } else { inbound_sources(context) },
        })
    }

    pub(super) fn build(&self) -> Cluster {
        let name = self.port.map_or(names::INBOUND_PASSTHROUGH.to_owned(), names::inbound);
        let cluster = match self.destination.zip(self.port) {
            Some((destination, port)) => Cluster {
                load_assignment: Some(assignment(&name, address(&destination, port))),
                ..cluster(&name, DiscoveryType::Static, LbPolicy::RoundRobin)
            },
            // Destinations are few and must not be forgotten while connections are open.
            None => {
                Cluster { cleanup_interval: duration(UNLIMITED), ..original_destination(&name) }
            }
        };
        // The client chose the protocol by what this port declares.
        let options = match self.protocol.class() {
            ProtocolClass::Http | ProtocolClass::Detected => downstream_options(IDLE),
            ProtocolClass::Tcp | ProtocolClass::Udp => [].into(),
        };
        Cluster {
            upstream_bind_config: bind(&self.sources),
            typed_extension_protocol_options: options,
            ..cluster
        }
    }
}

/// Source addresses of connections to the application. Under TPROXY they have the client's.
fn inbound_sources(context: &Context<'_>) -> Vec<IpAddr> {
    match context.proxy.interception {
        Interception::Tproxy => Vec::new(),
        Interception::Redirect | Interception::None => context.proxy.families().inbound_source(),
    }
}

fn bind(sources: &[IpAddr]) -> Option<BindConfig> {
    let (first, others) = sources.split_first()?;
    let extra = others.iter().map(|source| ExtraSourceAddress {
        address: Some(socket_address(source, 0)),
        ..ExtraSourceAddress::default()
    });
    Some(BindConfig {
        source_address: Some(socket_address(first, 0)),
        extra_source_addresses: extra.collect(),
        ..BindConfig::default()
    })
}

/// Time after which an idle connection to the application is closed. Applications close them after
/// some seconds themselves: a request that meets the end fails, and only safe ones are repeated.
const IDLE: Duration = Duration::from_secs(1);
/// Longest interval that Envoy accepts: 10 years, in effect none.
const UNLIMITED: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
