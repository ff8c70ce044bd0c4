//! Names of resources. They are Istio's: dashboards and tools depend on them.

use pilot_registry::hostname::Hostname;

/// Cluster of captured connections whose destination the mesh does not know.
pub const PASSTHROUGH: &str = "PassthroughCluster";
/// Cluster without endpoints.
pub const BLACK_HOLE: &str = "BlackHoleCluster";
/// Cluster of captured inbound connections to ports that no service leads to.
pub const INBOUND_PASSTHROUGH: &str = "InboundPassthroughCluster";
/// Listener for captured outbound connections.
pub const VIRTUAL_OUTBOUND: &str = "virtualOutbound";
/// Listener for captured inbound connections.
pub const VIRTUAL_INBOUND: &str = "virtualInbound";
/// The agent's SDS cluster of the bootstrap.
pub const SDS_CLUSTER: &str = "sds-grpc";
/// SDS name of the proxy's own certificate.
pub const OWN_CERTIFICATE: &str = "default";
/// SDS name of the mesh's root certificates.
pub const ROOTS: &str = "ROOTCA";

/// Name of the cluster of a service port.
pub fn outbound(port: u16, hostname: &Hostname) -> String {
    format!("outbound|{port}||{hostname}")
}

/// Service port of a cluster's name.
pub fn parse_outbound(name: &str) -> Option<(u16, Hostname)> {
    let mut parts = name.strip_prefix("outbound|")?.splitn(3, '|');
    let (port, subset, hostname) = (parts.next()?, parts.next()?, parts.next()?);
    if !subset.is_empty() {
        return None;
    }
    let found = (port.parse().ok()?, Hostname::parse(hostname).ok()?);
    // Other spellings of the name are no names of this resource.
    (outbound(found.0, &found.1) == name).then_some(found)
}

/// Name of the cluster of an application's port.
pub fn inbound(port: u16) -> String {
    format!("inbound|{port}||")
}

/// Port of an inbound cluster's name.
pub fn parse_inbound(name: &str) -> Option<u16> {
    let port = name.strip_prefix("inbound|")?.strip_suffix("||")?.parse().ok()?;
    (inbound(port) == name).then_some(port)
}

/// Name of a service port in TLS handshakes (SNI) between proxies.
pub fn server_name(port: u16, hostname: &Hostname) -> String {
    format!("outbound_.{port}_._.{hostname}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_names_are_parsed_as_they_are_written() {
        let host = Hostname::parse("web.shop.svc.cluster.local").unwrap();
        let name = outbound(80, &host);
        assert_eq!(name, "outbound|80||web.shop.svc.cluster.local");
        assert_eq!(parse_outbound(&name), Some((80, host.clone())));
        assert_eq!(parse_inbound(&inbound(8080)), Some(8080));
        assert_eq!(server_name(80, &host), "outbound_.80_._.web.shop.svc.cluster.local");
        for other in ["outbound|080||a", "outbound|80|v1|a", "outbound|80||A", "outbound|80||", "x"]
        {
            assert_eq!(parse_outbound(other), None, "{other}");
        }
        for other in ["inbound|+80||", "inbound|80|", "inbound|80||a"] {
            assert_eq!(parse_inbound(other), None, "{other}");
        }
    }
}
