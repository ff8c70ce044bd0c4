//! Listeners: a row per filter chain.

use clap::Args;
use serde_json::Value;

use super::Part;
use super::dump::{Entry, address, objects, text, texts};

#[derive(Debug, Args)]
pub(super) struct Listeners {
    /// Only listeners with this address [default: all]
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// Only listeners with this port [default: all]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Only listeners with a filter of this kind [default: all]
    #[arg(long = "type", value_name = "TYPE", ignore_case = true, value_parser = ["HTTP", "TCP"])]
    kind: Option<String>,
}

impl Part for Listeners {
    const COLUMNS: &'static [&'static str] = &["ADDRESSES", "PORT", "MATCH", "DESTINATION"];

    fn entries(&self, dump: &Value) -> Vec<Entry> {
        let dynamic = objects(dump, "dynamic_listeners", "/active_state/listener");
        let all = dynamic.chain(objects(dump, "static_listeners", "/listener"));
        let mut listeners: Vec<_> = all.filter(|listener| self.is_selected(listener)).collect();
        listeners.sort_by_key(|listener| (addresses(listener).1, text(listener, "/name")));
        listeners.into_iter().map(entry).collect()
    }
}

impl Listeners {
    fn is_selected(&self, listener: &Value) -> bool {
        let (addresses, port) = addresses(listener);
        let has_kind = |wanted: &String| {
            let is_http = wanted.eq_ignore_ascii_case("HTTP");
            chains(listener).any(|chain| manager(chain).is_some() == is_http)
        };
        self.address.as_ref().is_none_or(|wanted| addresses.contains(wanted))
            && self.port.is_none_or(|wanted| port == Some(wanted.into()))
            && self.kind.as_ref().is_none_or(has_kind)
    }
}

/// Row of each filter chain.
fn entry(listener: &Value) -> Entry {
    let (addresses, port) = addresses(listener);
    let port = port.map(|port| port.to_string()).unwrap_or_default();
    let row = |chain| vec![addresses.join(","), port.clone(), conditions(chain), target(chain)];
    Entry { rows: chains(listener).map(row).collect(), object: listener.clone() }
}

fn addresses(listener: &Value) -> (Vec<String>, Option<u64>) {
    let (first, port) = address(&listener["address"]);
    let more = listener["additional_addresses"].as_array().into_iter().flatten();
    let more = more.map(|more| address(&more["address"]).0);
    ([first].into_iter().chain(more).collect(), port)
}

/// Filter chains, the default one last.
fn chains(listener: &Value) -> impl Iterator<Item = &Value> {
    let chains = listener["filter_chains"].as_array().into_iter().flatten();
    chains.chain(listener.get("default_filter_chain"))
}

/// Conditions of a chain, in the words of `envoy.config.listener.v3.FilterChainMatch`.
fn conditions(chain: &Value) -> String {
    let found = &chain["filter_chain_match"];
    let mut words = Vec::new();
    if let Some(port) = found["destination_port"].as_u64() {
        words.push(format!("Port: {port}"));
    }
    let ranges = found["prefix_ranges"].as_array().into_iter().flatten();
    let ranges: Vec<_> = ranges
        .map(|range| format!("{}/{}", text(range, "/address_prefix"), range["prefix_len"]))
        .collect();
    let lists = [
        ("Addr", ranges),
        ("SNI", texts(&found["server_names"]).into_iter().map(str::to_owned).collect()),
        ("App", texts(&found["application_protocols"]).into_iter().map(str::to_owned).collect()),
    ];
    let transport = text(found, "/transport_protocol");
    if !transport.is_empty() {
        words.push(format!("Trans: {transport}"));
    }
    let lists = lists.into_iter().filter(|(_, values)| !values.is_empty());
    words.extend(lists.map(|(name, values)| format!("{name}: {}", values.join(","))));
    if words.is_empty() { "ALL".to_owned() } else { words.join("; ") }
}

/// Target of a chain: a route table, a cluster, or neither.
fn target(chain: &Value) -> String {
    if let Some(manager) = manager(chain) {
        return match text(manager, "/rds/route_config_name") {
            "" => format!("Inline Route: {}", inline_clusters(manager).join(",")),
            name => format!("Route: {name}"),
        };
    }
    let filters = chain["filters"].as_array().into_iter().flatten();
    let clusters = filters.flat_map(|filter| {
        let weighted = filter.pointer("/typed_config/weighted_clusters/clusters");
        let weighted = weighted.and_then(Value::as_array).into_iter().flatten();
        let names = weighted.map(|cluster| text(cluster, "/name"));
        names.chain([text(filter, "/typed_config/cluster")])
    });
    let clusters: Vec<_> = clusters.filter(|name| !name.is_empty()).collect();
    if clusters.is_empty() {
        "Non-HTTP/Non-TCP".to_owned()
    } else {
        format!("Cluster: {}", clusters.join(","))
    }
}

fn manager(chain: &Value) -> Option<&Value> {
    let mut filters = chain["filters"].as_array().into_iter().flatten();
    filters.find_map(|filter| {
        let config = filter.get("typed_config")?;
        text(config, "/@type").ends_with(".HttpConnectionManager").then_some(config)
    })
}

fn inline_clusters(manager: &Value) -> Vec<&str> {
    let hosts = manager.pointer("/route_config/virtual_hosts").and_then(Value::as_array);
    let routes = hosts.into_iter().flatten().filter_map(|host| host["routes"].as_array()).flatten();
    let mut clusters: Vec<_> = routes.map(|route| text(route, "/route/cluster")).collect();
    clusters.dedup();
    clusters.retain(|name| !name.is_empty());
    clusters
}
