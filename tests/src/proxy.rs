//! Statistics of a pod's Envoy.

use std::net::IpAddr;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::http;
use crate::namespace::address_of;

/// Numbers of connections with data that one Envoy has accepted, from its statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// Connections on the virtual inbound listener.
    pub inbound: u64,
    /// Connections on the virtual outbound listener.
    pub outbound: u64,
}

/// Gets the statistics of a pod's Envoy from the port that is never captured. Istio's selection of
/// statistics has no totals of connections, so the listeners of the tests count by an access filter.
pub fn connections(pod: &Value) -> Result<Connections> {
    let address: IpAddr = address_of(pod)?;
    let page = http::get((address, STATISTICS_PORT).into(), "/stats/prometheus")?.expect_ok()?;
    let count = |direction: &str| {
        count_in(&page, direction).with_context(|| format!("Envoy has no count of {direction}"))
    };
    Ok(Connections { inbound: count("inbound")?, outbound: count("outbound")? })
}

fn count_in(page: &str, direction: &str) -> Option<u64> {
    let series = format!("envoy_{direction}_rbac_allowed{{}} ");
    page.lines().find_map(|line| line.strip_prefix(&series))?.trim().parse().ok()
}

const STATISTICS_PORT: u16 = 15090;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_is_found_by_direction() {
        let page = "# TYPE envoy_inbound_rbac_allowed counter\n\
            envoy_inbound_rbac_allowed{} 2\n\
            envoy_outbound_rbac_allowed{} 13\n";
        assert_eq!(count_in(page, "outbound"), Some(13));
        assert_eq!(count_in(page, "sideways"), None);
    }
}
