//! Route tables: a row per virtual host and match.

use clap::Args;
use serde_json::Value;

use super::Part;
use super::dump::{Entry, objects, rule, text, texts};

#[derive(Debug, Args)]
pub(super) struct Routes {
    /// Only the route table of this name [default: all]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

impl Part for Routes {
    const COLUMNS: &'static [&'static str] =
        &["NAME", "VHOST NAME", "DOMAINS", "MATCH", "CLUSTER", "VIRTUAL SERVICE"];

    fn entries(&self, dump: &Value) -> Vec<Entry> {
        let lists = ["dynamic_route_configs", "static_route_configs"];
        let all = lists.into_iter().flat_map(|list| objects(dump, list, "/route_config"));
        let mut tables: Vec<_> = all
            .filter(|table| self.name.as_deref().is_none_or(|name| text(table, "/name") == name))
            .collect();
        tables.sort_by_key(|table| {
            let name = text(table, "/name");
            (name.parse::<u16>().ok(), name)
        });
        tables.into_iter().map(entry).collect()
    }
}

/// Row of each route.
fn entry(table: &Value) -> Entry {
    let hosts = table["virtual_hosts"].as_array().into_iter().flatten();
    let rows = hosts.flat_map(|host| {
        let routes = host["routes"].as_array().into_iter().flatten();
        routes.map(|route| {
            let [name, host_name] = [table, host].map(|named| text(named, "/name").to_owned());
            let found = path(&route["match"]);
            vec![name, host_name, domains(host), found, target(route), rule(route)]
        })
    });
    Entry { rows: rows.collect(), object: table.clone() }
}

/// The first two domains, and the number of the others.
fn domains(host: &Value) -> String {
    match texts(&host["domains"]).as_slice() {
        [first, second, more @ ..] if !more.is_empty() => {
            format!("{first}, {second} + {} more", more.len())
        }
        domains => domains.join(", "),
    }
}

fn path(found: &Value) -> String {
    let path = ["/path", "/prefix", "/path_separated_prefix", "/safe_regex/regex"]
        .map(|pointer| (pointer, text(found, pointer)));
    let path = path.into_iter().find(|(_, value)| !value.is_empty());
    let path = path.map_or("/*".to_owned(), |(pointer, value)| match pointer {
        "/prefix" => format!("{value}*"),
        "/path_separated_prefix" => format!("{value}/*"),
        "/safe_regex/regex" => format!("regex {value}"),
        _ => value.to_owned(),
    });
    let has_more = found["headers"].is_array() || found["query_parameters"].is_array();
    if has_more { format!("{path} with conditions") } else { path }
}

fn target(route: &Value) -> String {
    let weighted = route.pointer("/route/weighted_clusters/clusters").and_then(Value::as_array);
    if let Some(weighted) = weighted {
        let shown = weighted.iter().map(|cluster| {
            let weight = cluster["weight"].as_u64().unwrap_or_default();
            format!("{} ({weight})", text(cluster, "/name"))
        });
        return shown.collect::<Vec<_>>().join(", ");
    }
    match text(route, "/route/cluster") {
        "" => ["redirect", "direct_response"]
            .into_iter()
            .find(|kind| route.get(*kind).is_some())
            .unwrap_or_default()
            .to_owned(),
        cluster => cluster.to_owned(),
    }
}
