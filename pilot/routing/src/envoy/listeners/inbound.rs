//! Listener of captured inbound connections.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::TrafficDirection;
use envoy_types::pb::envoy::config::listener::v3::{
    FilterChain, FilterChainMatch, Listener, ListenerFilter,
};
use pilot_registry::protocol::{Protocol, ProtocolClass};
use pilot_xds::session::Reference;

use super::super::access_log::logs_of_rejections;
use super::super::context::{Context, Origin};
use super::super::filters::{Direction, HttpOptions, Routes, connection_manager, tcp_proxy};
use super::super::message::{duration, number, switch};
use super::super::routes::inbound_routes;
use super::super::tls::{MESH_HTTP, MESH_TCP, PLAIN_HTTP, ServerTls, server_socket};
use super::super::{names, to_cluster};
use super::inspectors::{self, InspectedPorts};
use super::{chain, listener, to_port};
use crate::access_log::AccessLog;
use crate::peer_authentication::MtlsMode;
use crate::view::Interception;

/// Inputs of the inbound listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InboundInputs {
    addresses: Vec<IpAddr>,
    port: u16,
    is_transparent: bool,
    tls: ServerTls,
    /// Mode of ports without an entry.
    mode: MtlsMode,
    ports: BTreeMap<u16, InboundPort>,
    access_log: Option<Arc<AccessLog>>,
    detection_timeout: Duration,
    /// True if the inspector for HTTP tells at once what is no method of HTTP.
    inspects_by_method: bool,
    /// Policy that is not enforced: no connection is taken.
    closed_by: Option<Origin>,
}

/// Port of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct InboundPort {
    class: ProtocolClass,
    is_grpc_web: bool,
    mode: MtlsMode,
    /// Port of the oldest service that leads here; `None` if none does.
    service_port: Option<u16>,
}

impl InboundInputs {
    /// Returns `None` if no connections of the proxy are captured.
    pub(super) fn new(context: &Context<'_>) -> Option<Self> {
        let proxy = context.proxy;
        if !proxy.captures() {
            return None;
        }
        let modes = &context.modes;
        let with_mode = modes.ports.keys().filter(|port| !proxy.reserves(context.mesh, **port));
        let unserved = with_mode.map(|port| (*port, InboundPort::unserved(modes.at(*port))));
        let served = context.inbound_ports().map(|target| {
            let port = InboundPort {
                class: target.service_port.protocol.class(),
                is_grpc_web: target.service_port.protocol == Protocol::GrpcWeb,
                mode: modes.at(target.port),
                service_port: Some(target.service_port.number),
            };
            (target.port, port)
        });
        Some(Self {
            addresses: proxy.families().unspecified(),
            port: context.mesh.inbound_port,
            is_transparent: proxy.interception == Interception::Tproxy,
            tls: ServerTls::new(context.mesh),
            mode: modes.mode,
            ports: unserved.chain(served).collect(),
            access_log: context.mesh.access_log.clone(),
            detection_timeout: context.mesh.detection_timeout,
            inspects_by_method: proxy.inspects_by_method,
            closed_by: context.closed_by().cloned(),
        })
    }

    pub(super) fn references(&self) -> Vec<Reference> {
        if self.closed_by.is_some() {
            return vec![to_cluster(names::BLACK_HOLE)];
        }
        let served = self.ports.iter().filter(|(_, port)| port.service_port.is_some());
        let served = served.map(|(number, _)| names::inbound(*number));
        let fixed = [names::BLACK_HOLE, names::INBOUND_PASSTHROUGH].map(str::to_owned);
        served.chain(fixed).map(to_cluster).collect()
    }

    pub(super) fn build(&self) -> Listener {
        let name = names::VIRTUAL_INBOUND;
        let built =
            listener(name.to_owned(), &self.addresses, self.port, TrafficDirection::Inbound);
        let (filter_chains, inspectors) = match &self.closed_by {
            Some(policy) => (vec![self.refusal(policy)], Vec::new()),
            None => (self.chains(), self.inspectors().collect()),
        };
        let source = self.is_transparent.then(inspectors::original_source);
        let filters = [inspectors::original_destination()].into_iter().chain(source);
        Listener {
            filter_chains,
            listener_filters: filters.chain(inspectors).collect(),
            listener_filters_timeout: duration(self.detection_timeout),
            continue_on_listener_filters_timeout: true,
            access_log: logs_of_rejections(self.access_log.as_deref()),
            transparent: self.is_transparent.then(|| switch(true)).flatten(),
            ..built
        }
    }

    /// The only chain of a workload that takes no connection. Its name is the reason.
    fn refusal(&self, policy: &Origin) -> FilterChain {
        let log = self.access_log.as_deref();
        let black_hole = tcp_proxy(names::BLACK_HOLE, names::BLACK_HOLE, false, log);
        chain(&format!("closed by {policy}"), vec![black_hole])
    }

    fn chains(&self) -> Vec<FilterChain> {
        let black_hole = tcp_proxy(names::BLACK_HOLE, names::BLACK_HOLE, false, None);
        // A connection to the listener's own port would come back for ever.
        let guard = FilterChain {
            filter_chain_match: Some(to_port(self.port)),
            ..chain("virtualInbound-blackhole", vec![black_hole])
        };
        let others = InboundPort::unserved(self.mode);
        let ports = self.ports.iter().map(|(number, port)| (Some(*number), *port));
        let chains = ports.chain([(None, others)]).flat_map(|(number, port)| {
            let rules = rules(port.class, port.mode);
            rules.into_iter().map(move |rule| self.chain(number, port, &rule))
        });
        [guard].into_iter().chain(chains).collect()
    }

    /// Inspectors. Envoy wants the one for HTTP after the one for TLS.
    fn inspectors(&self) -> impl Iterator<Item = ListenerFilter> {
        let [tls, http] =
            if self.inspects_by_method { self.all_inspected() } else { self.needed() };
        let tls = tls.filter(inspectors::tls_inspector());
        tls.into_iter().chain(http.filter(inspectors::http_inspector()))
    }

    /// All ports, also those that need no inspection, if it does no harm: Envoy replaces a listener
    /// whose inspectors change, with the connections of all ports. It does harm where the server
    /// speaks first, on a declared port without mutual TLS. With it, one waits for the client in any
    /// case.
    fn all_inspected(&self) -> [InspectedPorts; 2] {
        let skipped = self
            .ports
            .iter()
            .filter(|(_, port)| port.class == ProtocolClass::Tcp && port.mode == MtlsMode::Disable);
        let skipped = skipped.map(|(port, _)| *port).collect();
        let ports = InspectedPorts { others: true, inspected: BTreeSet::new(), skipped };
        [ports.clone(), ports]
    }

    /// The ports where some chain needs the inspector for TLS, and that for HTTP.
    fn needed(&self) -> [InspectedPorts; 2] {
        let inspected = |needs: fn(&Rule) -> bool| {
            let needed = |class, mode| rules(class, mode).iter().any(needs);
            let (inspected, skipped) =
                self.ports.iter().partition::<Vec<_>, _>(|(_, port)| needed(port.class, port.mode));
            let numbers =
                |ports: Vec<(&u16, _)>| ports.into_iter().map(|(port, _)| *port).collect();
            InspectedPorts {
                others: needed(ProtocolClass::Detected, self.mode),
                inspected: numbers(inspected),
                skipped: numbers(skipped),
            }
        };
        let tls = inspected(|rule| rule.transport != Transport::Any);
        [tls, inspected(|rule| rule.protocols.contains(&PLAIN_HTTP[0]))]
    }

    fn chain(&self, number: Option<u16>, port: InboundPort, rule: &Rule) -> FilterChain {
        let log = self.access_log.as_deref();
        let served = number.filter(|_| port.service_port.is_some());
        let cluster = served.map_or(names::INBOUND_PASSTHROUGH.to_owned(), names::inbound);
        let name = match (served, rule.is_http) {
            (Some(number), _) => format!("{}_{number}", self.addresses[0]),
            (None, true) => "virtualInbound-catchall-http".to_owned(),
            (None, false) => "virtualInbound".to_owned(),
        };
        let filter = if rule.is_http {
            let prefix = served.map_or(cluster.clone(), |_| format!("inbound_{name}"));
            let host = port.service_port.unwrap_or_default();
            let routes = inbound_routes(&cluster, format!("inbound|http|{host}"));
            let routes = Routes::Inline(Box::new(routes));
            let direction = Direction::Inbound;
            let options = HttpOptions { direction, alpn: None, grpc_web: port.is_grpc_web };
            connection_manager(&prefix, options, routes, log)
        } else {
            tcp_proxy(&cluster, &cluster, false, log)
        };
        let transport_protocol = match rule.transport {
            Transport::Any => "",
            Transport::Raw => "raw_buffer",
            Transport::Mutual | Transport::Foreign => "tls",
        };
        let mutual = rule.transport == Transport::Mutual;
        FilterChain {
            filter_chain_match: Some(FilterChainMatch {
                destination_port: number.and_then(|port| self::number(port.into())),
                transport_protocol: transport_protocol.to_owned(),
                application_protocols: rule.protocols.iter().map(ToString::to_string).collect(),
                ..FilterChainMatch::default()
            }),
            transport_socket: mutual.then(|| server_socket(&self.tls, rule.is_http)),
            transport_socket_connect_timeout: mutual.then(|| duration(HANDSHAKE)).flatten(),
            ..chain(&name, vec![filter])
        }
    }
}

impl InboundPort {
    fn unserved(mode: MtlsMode) -> Self {
        Self { class: ProtocolClass::Detected, is_grpc_web: false, mode, service_port: None }
    }
}

/// Filter chain of an inbound port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    transport: Transport,
    /// Application protocols that the client names, or the inspector finds; empty for any.
    protocols: Vec<&'static str>,
    is_http: bool,
}

/// Transport of a connection that a chain takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    /// Any, without inspection.
    Any,
    /// Plaintext.
    Raw,
    /// Mutual TLS of the mesh, which ends here.
    Mutual,
    /// TLS of the application, which passes through.
    Foreign,
}

/// Chains of a port by protocol and mode. Those of the mesh's clients are the same in `PERMISSIVE`
/// and `STRICT`, so that their connections outlast a change between them.
fn rules(class: ProtocolClass, mode: MtlsMode) -> Vec<Rule> {
    use ProtocolClass::{Detected, Http, Tcp, Udp};
    use Transport::{Any, Foreign, Mutual, Raw};

    let rule = |transport, protocols: &[&'static str], is_http| Rule {
        transport,
        protocols: protocols.to_vec(),
        is_http,
    };
    let mesh = [&MESH_TCP[..], &MESH_HTTP[..]].concat();
    match (mode, class) {
        (_, Udp) => Vec::new(),
        (MtlsMode::Permissive, Http) => vec![rule(Mutual, &mesh, true), rule(Raw, &[], true)],
        (MtlsMode::Permissive, Tcp) => {
            vec![rule(Mutual, &mesh, false), rule(Foreign, &[], false), rule(Raw, &[], false)]
        }
        (MtlsMode::Permissive, Detected) => vec![
            rule(Mutual, &MESH_HTTP, true),
            rule(Raw, &PLAIN_HTTP, true),
            rule(Mutual, &MESH_TCP, false),
            rule(Raw, &[], false),
            rule(Foreign, &[], false),
        ],
        (MtlsMode::Strict, Http) => vec![rule(Mutual, &mesh, true), rule(Mutual, &[], true)],
        (MtlsMode::Strict, Tcp) => vec![rule(Mutual, &mesh, false), rule(Mutual, &[], false)],
        (MtlsMode::Strict, Detected) => vec![
            rule(Mutual, &MESH_HTTP, true),
            rule(Mutual, &MESH_TCP, false),
            rule(Mutual, &[], false),
        ],
        (MtlsMode::Disable, Http) => vec![rule(Any, &[], true)],
        (MtlsMode::Disable, Tcp) => vec![rule(Any, &[], false)],
        // TLS of the application may name `http/1.1` too.
        (MtlsMode::Disable, Detected) => {
            vec![rule(Raw, &PLAIN_HTTP, true), rule(Raw, &[], false), rule(Foreign, &[], false)]
        }
    }
}

/// Time for a client's handshake.
const HANDSHAKE: Duration = Duration::from_secs(15);
