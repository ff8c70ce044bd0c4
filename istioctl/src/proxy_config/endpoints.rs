//! Endpoints, by Envoy's `/clusters?format=json` (`envoy.admin.v3.Clusters`), which knows the health
//! besides.

use clap::Args;
use serde_json::Value;

use super::dump::{Entry, address, text};
use super::{ENDPOINTS, Part};

#[derive(Debug, Args)]
pub(super) struct Endpoints {
    /// Only endpoints with this address [default: all]
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// Only endpoints with this port [default: all]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Only endpoints of this cluster [default: all]
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Only endpoints with this health [default: all]
    #[arg(long, value_name = "STATUS", ignore_case = true, value_parser = ["healthy", "unhealthy", "draining"])]
    status: Option<String>,
}

impl Part for Endpoints {
    const PATH: &'static str = ENDPOINTS;
    const COLUMNS: &'static [&'static str] = &["ENDPOINT", "STATUS", "OUTLIER CHECK", "CLUSTER"];

    fn entries(&self, dump: &Value) -> Vec<Entry> {
        let clusters = dump["cluster_statuses"].as_array().into_iter().flatten();
        let clusters = clusters.filter(|cluster| {
            self.cluster.as_ref().is_none_or(|name| cluster["name"] == name.as_str())
        });
        let hosts = clusters.flat_map(|cluster| {
            let hosts = cluster["host_statuses"].as_array().into_iter().flatten();
            hosts.filter_map(|host| self.entry(text(cluster, "/name"), host))
        });
        let mut entries: Vec<_> = hosts.collect();
        entries.sort_by(|one, other| one.rows.cmp(&other.rows));
        entries
    }
}

impl Endpoints {
    fn entry(&self, cluster: &str, host: &Value) -> Option<Entry> {
        let (address, port) = address(&host["address"]);
        let health = &host["health_status"];
        let status = match text(health, "/eds_health_status") {
            "" => "HEALTHY",
            status => status,
        };
        let is_selected = self.address.as_ref().is_none_or(|wanted| *wanted == address)
            && self.port.is_none_or(|wanted| port == Some(wanted.into()))
            && self.status.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(status));
        let is_ejected = health["failed_outlier_check"] == true;
        let shown = match port {
            Some(port) if address.contains(':') => format!("[{address}]:{port}"),
            Some(port) => format!("{address}:{port}"),
            None => address,
        };
        let outlier = if is_ejected { "FAILED" } else { "OK" };
        let row = [&shown, status, outlier, cluster].map(str::to_owned).to_vec();
        let mut object = host.clone();
        object["cluster_name"] = cluster.into();
        is_selected.then_some(Entry { rows: vec![row], object })
    }
}
