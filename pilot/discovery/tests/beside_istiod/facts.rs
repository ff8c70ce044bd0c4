//! Decisive fields of resources as lines of text.

use std::collections::BTreeSet;

use anyhow::Result;
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, DiscoveryType, LbPolicy,
};
use envoy_types::pb::envoy::config::core::v3::{
    Address, HealthStatus, TransportSocket, address, socket_address, transport_socket,
};
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, LbEndpoint};
use envoy_types::pb::envoy::config::listener::v3::{Filter, FilterChain, Listener, filter};
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::{Route, RouteConfiguration};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CommonTlsContext, DownstreamTlsContext, UpstreamTlsContext,
};
use envoy_types::pb::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::http_protocol_options::UpstreamProtocolOptions;
use envoy_types::pb::envoy::r#type::matcher::v3::StringMatcher;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::google::protobuf::{Any, BoolValue};
use pilot_xds::name_table::NameTable;
use pilot_xds::type_urls::{CLUSTER, ENDPOINT, LISTENER, NAME_TABLE, ROUTE};
use prost::Message as _;

use crate::client::Resources;

/// Facts of all resources.
pub(crate) fn facts(resources: &Resources) -> Result<BTreeSet<String>> {
    let mut lines = BTreeSet::new();
    for (type_url, named) in resources {
        for (name, body) in named {
            let body = body.clone();
            match *type_url {
                CLUSTER => lines.extend(cluster(&Cluster::decode(body)?)?),
                ENDPOINT => lines.extend(endpoints(name, &ClusterLoadAssignment::decode(body)?)),
                LISTENER => lines.extend(listener(&Listener::decode(body)?)?),
                ROUTE => lines.extend(routes(&RouteConfiguration::decode(body)?)),
                NAME_TABLE => lines.extend(names(name, NameTable::decode(body)?)),
                _ => {}
            }
        }
    }
    Ok(lines)
}

fn cluster(cluster: &Cluster) -> Result<Vec<String>> {
    let name = &cluster.name;
    let kind = match &cluster.cluster_discovery_type {
        Some(ClusterDiscoveryType::ClusterType(custom)) => custom.name.clone(),
        Some(ClusterDiscoveryType::Type(number)) => {
            format!("{:?}", DiscoveryType::try_from(*number)?)
        }
        None => format!("{:?}", DiscoveryType::Static),
    };
    let policy = LbPolicy::try_from(cluster.lb_policy)?;
    let mut lines = vec![format!("cluster {name}: {kind} {policy:?}")];
    for options in cluster.typed_extension_protocol_options.values() {
        let options: HttpProtocolOptions = decode(options)?;
        let version = match options.upstream_protocol_options {
            Some(UpstreamProtocolOptions::ExplicitHttpConfig(_)) => "HTTP/2",
            Some(UpstreamProtocolOptions::UseDownstreamProtocolConfig(_)) => "the client's HTTP",
            _ => "another HTTP",
        };
        lines.push(format!("cluster {name}: {version}"));
    }
    for found in &cluster.transport_socket_matches {
        let socket = found.transport_socket.as_ref();
        let socket = socket.map(client_socket).transpose()?.unwrap_or_default();
        lines.push(format!("cluster {name}: {} {socket}", found.name));
    }
    if let Some(socket) = &cluster.transport_socket {
        lines.push(format!("cluster {name}: {}", client_socket(socket)?));
    }
    if let Some(bind) = &cluster.upstream_bind_config {
        let first = bind.source_address.as_ref().map(|it| it.address.clone());
        let more = bind.extra_source_addresses.iter();
        let more = more.filter_map(|it| it.address.as_ref().map(|it| it.address.clone()));
        let sources: Vec<_> = first.into_iter().chain(more).collect();
        lines.push(format!("cluster {name}: from {}", sources.join(" ")));
    }
    for group in cluster.load_assignment.iter().flat_map(|it| &it.endpoints) {
        let to = group.lb_endpoints.iter().map(|it| format!("cluster {name}: to {}", place(it)));
        lines.extend(to);
    }
    Ok(lines)
}

/// TLS of a client: name and identities that it expects.
fn client_socket(socket: &TransportSocket) -> Result<String> {
    let Some(transport_socket::ConfigType::TypedConfig(config)) = &socket.config_type else {
        return Ok("nothing".to_owned());
    };
    if !config.type_url.ends_with("UpstreamTlsContext") {
        return Ok("plaintext".to_owned());
    }
    let context: UpstreamTlsContext = decode(config)?;
    let expected = context.common_tls_context.as_ref().map(identities).unwrap_or_default();
    Ok(format!("TLS to {} of {}", context.sni, expected.join(" ")))
}

fn identities(context: &CommonTlsContext) -> Vec<String> {
    let text = |matcher: &StringMatcher| match &matcher.match_pattern {
        Some(MatchPattern::Exact(text)) => text.clone(),
        Some(MatchPattern::Prefix(text)) => format!("{text}*"),
        other => format!("{other:?}"),
    };
    let Some(ValidationContextType::CombinedValidationContext(combined)) =
        &context.validation_context_type
    else {
        return Vec::new();
    };
    let validation = combined.default_validation_context.as_ref();
    #[expect(deprecated, reason = "istiod uses this field")]
    let untyped = validation.into_iter().flat_map(|it| &it.match_subject_alt_names);
    let typed = validation.into_iter().flat_map(|it| &it.match_typed_subject_alt_names);
    untyped.chain(typed.filter_map(|it| it.matcher.as_ref())).map(text).collect()
}

fn endpoints(name: &str, assignment: &ClusterLoadAssignment) -> Vec<String> {
    let mut lines = vec![format!("endpoints {name}")];
    for group in &assignment.endpoints {
        let locality = group.locality.clone().unwrap_or_default();
        for endpoint in &group.lb_endpoints {
            let metadata = endpoint.metadata.as_ref().map(|it| &it.filter_metadata);
            let mutual = metadata.is_some_and(|it| it.contains_key("envoy.transport_socket_match"));
            // Envoy sends them no requests. Whether istiod sends them depends on the order of events.
            if endpoint.health_status() == HealthStatus::Unhealthy {
                continue;
            }
            lines.push(format!(
                "endpoints {name}: {} {}/{} {}{}",
                group.priority,
                locality.region,
                locality.zone,
                place(endpoint),
                if mutual { " mutual TLS" } else { "" },
            ));
        }
    }
    lines
}

fn place(endpoint: &LbEndpoint) -> String {
    match &endpoint.host_identifier {
        Some(HostIdentifier::Endpoint(endpoint)) => socket(endpoint.address.as_ref()),
        other => format!("{other:?}"),
    }
}

fn socket(address: Option<&Address>) -> String {
    match address.and_then(|it| it.address.as_ref()) {
        Some(address::Address::SocketAddress(it)) => {
            let port = match it.port_specifier {
                Some(socket_address::PortSpecifier::PortValue(port)) => port,
                _ => 0,
            };
            format!("{}:{port}", it.address)
        }
        other => format!("{other:?}"),
    }
}

fn listener(listener: &Listener) -> Result<Vec<String>> {
    let name = &listener.name;
    let is_on = |value: Option<BoolValue>| value.map(|it| it.value);
    let mut addresses = vec![socket(listener.address.as_ref())];
    addresses.extend(listener.additional_addresses.iter().map(|it| socket(it.address.as_ref())));
    let mut lines = vec![
        format!("listener {name}: at {}", addresses.join(" ")),
        format!("listener {name}: bound {}", is_on(listener.bind_to_port).unwrap_or(true)),
    ];
    for (field, value) in
        [("use_original_dst", listener.use_original_dst), ("transparent", listener.transparent)]
    {
        if is_on(value) == Some(true) {
            lines.push(format!("listener {name}: {field}"));
        }
    }
    let filters: Vec<_> = listener.listener_filters.iter().map(|it| it.name.as_str()).collect();
    lines.extend(filters.iter().map(|filter| format!("listener {name}: {filter}")));
    let inspects_tls = filters.iter().any(|it| it.ends_with("tls_inspector"));
    for chain in &listener.filter_chains {
        let rule = chain.filter_chain_match.clone().unwrap_or_default();
        let port = rule.destination_port.map(|port| format!("{} ", port.value)).unwrap_or_default();
        let transport = match rule.transport_protocol.as_str() {
            "raw_buffer" => "plaintext",
            "" if !inspects_tls => "plaintext",
            "" => "anything",
            other => other,
        };
        let any = [String::new()];
        let found = &rule.application_protocols;
        for protocol in if found.is_empty() { &any[..] } else { found } {
            let target = target(chain)?;
            lines.push(format!("listener {name}: {port}{transport} {protocol} -> {target}"));
        }
    }
    if let Some(chain) = &listener.default_filter_chain {
        lines.push(format!("listener {name}: else -> {}", target(chain)?));
    }
    if !listener.access_log.is_empty() {
        lines.push(format!("listener {name}: logs rejections"));
    }
    Ok(lines)
}

/// Destination of a chain, and the end of TLS.
fn target(chain: &FilterChain) -> Result<String> {
    let target = match chain.filters.iter().rev().find_map(typed) {
        Some(config) if config.type_url.ends_with("TcpProxy") => {
            let proxy: TcpProxy = decode(config)?;
            let log = if proxy.access_log.is_empty() { "" } else { " logged" };
            match proxy.cluster_specifier {
                Some(tcp_proxy::ClusterSpecifier::Cluster(cluster)) => format!("{cluster}{log}"),
                other => format!("{other:?}"),
            }
        }
        Some(config) => http_target(&decode(config)?),
        None => "nothing".to_owned(),
    };
    let Some(socket) = &chain.transport_socket else { return Ok(target) };
    let Some(transport_socket::ConfigType::TypedConfig(config)) = &socket.config_type else {
        return Ok(target);
    };
    let context: DownstreamTlsContext = decode(config)?;
    let required = context.require_client_certificate.is_some_and(|it| it.value);
    let clients = context.common_tls_context.as_ref().map(identities).unwrap_or_default();
    Ok(format!("{target} by TLS, certificate {required}, of {}", clients.join(" ")))
}

fn http_target(manager: &HttpConnectionManager) -> String {
    let log = if manager.access_log.is_empty() { "" } else { " logged" };
    let web = manager.http_filters.iter().any(|it| it.name == "envoy.filters.http.grpc_web");
    let web = if web { " gRPC-Web" } else { "" };
    let routes = match &manager.route_specifier {
        Some(RouteSpecifier::Rds(rds)) => format!("routes {}", rds.route_config_name),
        Some(RouteSpecifier::RouteConfig(routes)) => self::routes(routes).join(", "),
        other => format!("{other:?}"),
    };
    format!("HTTP{web}{log} {routes}")
}

/// Names of the route configurations that a listener refers to.
pub(crate) fn routes_of(listener: &Listener) -> Vec<String> {
    let chains = listener.filter_chains.iter().chain(&listener.default_filter_chain);
    let configs = chains.flat_map(|chain| &chain.filters).filter_map(typed);
    let managers = configs.filter(|it| it.type_url.ends_with("HttpConnectionManager"));
    let names = managers.filter_map(|config| {
        match decode::<HttpConnectionManager>(config).ok()?.route_specifier? {
            RouteSpecifier::Rds(rds) => Some(rds.route_config_name),
            _ => None,
        }
    });
    names.collect()
}

fn routes(routes: &RouteConfiguration) -> Vec<String> {
    let hosts = routes.virtual_hosts.iter();
    let lines = hosts.flat_map(|host| {
        let actions: Vec<_> = host.routes.iter().map(action).collect();
        let actions = actions.join(", ");
        let domains = host.domains.iter();
        domains.map(move |domain| format!("route {}: {domain} -> {actions}", routes.name))
    });
    let repeated = routes.virtual_hosts.iter().flat_map(|host| &host.routes);
    let repeated: BTreeSet<_> = repeated.filter_map(retries).map(|it| it.1).collect();
    let repeated = repeated.iter().map(|what| format!("route {}: repeats {what}", routes.name));
    lines.chain(repeated).collect()
}

fn action(route: &Route) -> String {
    let action = match &route.action {
        Some(Action::Route(action)) => action,
        Some(Action::DirectResponse(response)) => return response.status.to_string(),
        other => return format!("{other:?}"),
    };
    let cluster = match &action.cluster_specifier {
        Some(ClusterSpecifier::Cluster(cluster)) => cluster.clone(),
        other => format!("{other:?}"),
    };
    retries(route).map_or(cluster.clone(), |(count, _)| format!("{cluster}, {count} retries"))
}

/// Number of retries, and their conditions.
fn retries(route: &Route) -> Option<(u32, String)> {
    let Some(Action::Route(action)) = &route.action else { return None };
    let policy = action.retry_policy.as_ref()?;
    let count = policy.num_retries.map_or(1, |it| it.value);
    let statuses = policy.retriable_status_codes.iter().map(|status| format!(" {status}"));
    Some((count, policy.retry_on.clone() + &statuses.collect::<String>()))
}

fn names(name: &str, table: NameTable) -> Vec<String> {
    let single = table.name_info.map(|info| (name.to_owned(), info));
    let entries = table.table.into_iter().chain(single);
    let lines = entries.map(|(name, info)| {
        let mut ips = info.ips;
        ips.sort();
        format!("name {name}: {}", ips.join(" "))
    });
    lines.collect()
}

fn typed(filter: &Filter) -> Option<&Any> {
    match &filter.config_type {
        Some(filter::ConfigType::TypedConfig(config)) if !filter.name.starts_with("istio.") => {
            Some(config)
        }
        _ => None,
    }
}

fn decode<M: prost::Message + Default>(any: &Any) -> Result<M> {
    Ok(M::decode(any.value.as_slice())?)
}
