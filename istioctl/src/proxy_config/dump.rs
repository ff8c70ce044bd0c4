//! Envoy's `/config_dump` (`envoy.admin.v3.ConfigDump`): its sections and their entries.

use clap::Args;
use serde_json::Value;

use super::Part;

/// An object, and its rows in a table.
pub(super) struct Entry {
    pub(super) rows: Vec<Vec<String>>,
    pub(super) object: Value,
}

/// The whole dump.
#[derive(Debug, Args)]
pub(super) struct Whole {}

impl Part for Whole {
    const COLUMNS: &'static [&'static str] = &[];

    fn entries(&self, dump: &Value) -> Vec<Entry> {
        let sections = dump["configs"].as_array().into_iter().flatten();
        sections.map(|section| Entry { rows: Vec::new(), object: section.clone() }).collect()
    }
}

/// Objects of a section, for example `dynamic_active_clusters` of `ClustersConfigDump`; `field` is
/// the path to the object within an entry of the list.
pub(super) fn objects<'a>(
    dump: &'a Value,
    list: &str,
    field: &'static str,
) -> impl Iterator<Item = &'a Value> {
    let sections = dump["configs"].as_array().into_iter().flatten();
    let entries = sections.filter_map(move |section| section[list].as_array()).flatten();
    entries.filter_map(move |entry| entry.pointer(field))
}

/// Text of a field; empty if it is absent.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Texts of a list.
pub(super) fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// `NAME.NAMESPACE` of the object whose path `/apis/…/namespaces/NAMESPACE/KIND/NAME` stands in the
/// metadata; empty without one.
pub(super) fn rule(object: &Value) -> String {
    let mut parts = text(object, "/metadata/filter_metadata/istio/config").rsplit('/');
    match [parts.next(), parts.next(), parts.next()] {
        [Some(name), Some(_), Some(namespace)] => format!("{name}.{namespace}"),
        _ => String::new(),
    }
}

/// Address and port of an `envoy.config.core.v3.Address`; the path of a pipe has no port.
pub(super) fn address(address: &Value) -> (String, Option<u64>) {
    let socket = &address["socket_address"];
    match address.pointer("/pipe/path").and_then(Value::as_str) {
        Some(path) => (format!("unix://{path}"), None),
        None => (text(socket, "/address").to_owned(), socket["port_value"].as_u64()),
    }
}
