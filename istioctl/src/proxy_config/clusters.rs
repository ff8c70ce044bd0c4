//! Clusters.

use clap::Args;
use serde_json::Value;

use super::Part;
use super::dump::{Entry, objects, rule, text};

#[derive(Debug, Args)]
pub(super) struct Clusters {
    /// Only clusters of this host, or hosts that contain the text [default: all]
    #[arg(long, value_name = "HOST", default_value = "", hide_default_value = true)]
    fqdn: String,
    /// Only clusters of this service port [default: all]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Only clusters of this subset [default: all]
    #[arg(long, value_name = "NAME")]
    subset: Option<String>,
    /// Only clusters of this direction [default: all]
    #[arg(long, value_name = "DIRECTION", value_parser = ["inbound", "outbound"])]
    direction: Option<String>,
}

/// Name of a cluster in Istio's form `DIRECTION|PORT|SUBSET|HOST`.
///
/// A name of another form is a host.
#[derive(Debug, PartialEq, Eq)]
struct ClusterName<'a> {
    direction: &'a str,
    port: &'a str,
    subset: &'a str,
    host: &'a str,
}

impl Part for Clusters {
    const COLUMNS: &'static [&'static str] =
        &["SERVICE FQDN", "PORT", "SUBSET", "DIRECTION", "TYPE", "DESTINATION RULE"];

    fn entries(&self, dump: &Value) -> Vec<Entry> {
        let lists = ["dynamic_active_clusters", "static_clusters", "dynamic_warming_clusters"];
        let clusters = lists.into_iter().flat_map(|list| objects(dump, list, "/cluster"));
        let mut entries: Vec<_> = clusters.filter_map(|cluster| self.entry(cluster)).collect();
        entries.sort_by(|one, other| one.rows.cmp(&other.rows));
        entries
    }
}

impl Clusters {
    fn entry(&self, cluster: &Value) -> Option<Entry> {
        let name = ClusterName::parse(text(cluster, "/name"));
        let has = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        let is_selected = name.host.contains(&self.fqdn)
            && self.port.is_none_or(|port| name.port.parse() == Ok(port))
            && has(&self.subset, name.subset)
            && has(&self.direction, name.direction);
        // Envoy leaves a field with its default out: STATIC is 0.
        let kind = match text(cluster, "/type") {
            "" => text(cluster, "/cluster_type/name"),
            kind => kind,
        };
        let kind = if kind.is_empty() { "STATIC" } else { kind };
        let rule = rule(cluster);
        let ClusterName { direction, port, subset, host } = name;
        let row = [host, port, subset, direction, kind, &rule].map(str::to_owned).to_vec();
        is_selected.then(|| Entry { rows: vec![row], object: cluster.clone() })
    }
}

impl<'a> ClusterName<'a> {
    fn parse(name: &'a str) -> Self {
        let mut parts = name.splitn(4, '|');
        match [parts.next(), parts.next(), parts.next(), parts.next()] {
            [Some(direction), Some(port), Some(subset), Some(host)] => {
                Self { direction, port, subset, host }
            }
            _ => Self { direction: "", port: "", subset: "", host: name },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_name_is_divided_if_it_has_istios_form() {
        let parts = |name| {
            let ClusterName { direction, port, subset, host } = ClusterName::parse(name);
            [direction, port, subset, host]
        };
        assert_eq!(parts("outbound|80|v1|web.shop"), ["outbound", "80", "v1", "web.shop"]);
        assert_eq!(parts("inbound|8080||"), ["inbound", "8080", "", ""]);
        assert_eq!(parts("BlackHoleCluster"), ["", "", "", "BlackHoleCluster"]);
        assert_eq!(parts("a|b"), ["", "", "", "a|b"]);
    }
}
