//! The proxy and the mesh, as far as generated configuration depends on them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use mesh::mesh_config::{InboundTrafficPolicy, MeshConfig};
use mesh::spiffe::TrustDomain;
use pilot_registry::labels::Labels;
use pilot_registry::locality::Locality;
use serde_json::Value;
use thiserror::Error;

use crate::access_log::AccessLog;

/// Proxy that configuration is generated for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProxyView {
    /// Role.
    pub kind: ProxyKind,
    /// Name of the pod.
    pub pod: Arc<str>,
    /// Namespace of the pod.
    pub namespace: Arc<str>,
    /// Name of the service account; empty if the node does not say it.
    pub service_account: Arc<str>,
    /// Labels of the pod.
    pub labels: Labels,
    /// Addresses, the primary one first; at least one.
    pub addresses: Vec<IpAddr>,
    /// Capture of connections.
    pub interception: Interception,
    /// Domain of Kubernetes' Services, `cluster.local`.
    pub domain: Arc<str>,
    /// Place of the proxy.
    pub locality: Locality,
    /// Name of the Kubernetes node; empty if unknown.
    pub node: Arc<str>,
    /// Ports of Envoy and the agent besides the fixed ones, for readiness and metrics.
    pub own_ports: BTreeSet<u16>,
    /// True if the proxy can bind no port below 1024.
    pub unprivileged: bool,
    /// True if the agent takes a resource per host as names for DNS. Istio's takes a whole table.
    pub takes_names_by_host: bool,
    /// True if Envoy's inspector for HTTP tells at once what begins with no method of HTTP. As other
    /// agents start Envoy, it waits for the end of the line, if the first bytes are text.
    pub inspects_by_method: bool,
}

/// Role of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyKind {
    /// Beside an application, whose connections it captures.
    Sidecar,
    /// On its own, such as a gateway.
    Router,
}

/// Capture of a pod's connections, `INTERCEPTION_MODE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interception {
    /// Inbound and outbound connections are redirected.
    Redirect,
    /// Inbound connections keep the client's address.
    Tproxy,
    /// No connection is captured: the application addresses the proxy's ports.
    None,
}

/// Address families of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Families {
    /// IPv4 alone.
    V4,
    /// IPv6 alone.
    V6,
    /// Both, IPv4 first.
    V4First,
    /// Both, IPv6 first.
    V6First,
}

/// Settings of the mesh.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MeshView {
    /// Namespace whose configuration applies to the whole mesh.
    pub root_namespace: Arc<str>,
    /// Trust domain of identities.
    pub trust_domain: Arc<str>,
    /// Further trust domains whose identities are accepted.
    pub trust_domain_aliases: Vec<Arc<str>>,
    /// Traffic to hosts that the mesh does not know.
    pub outbound_policy: OutboundPolicy,
    /// True if applications listen on 127.0.0.1 (`inboundTrafficPolicy: LOCALHOST`).
    pub inbound_to_localhost: bool,
    /// Port of the listener for captured outbound connections.
    pub outbound_port: u16,
    /// Port of the listener for captured inbound connections.
    pub inbound_port: u16,
    /// True if clients use mutual TLS with endpoints that take it.
    pub auto_mtls: bool,
    /// Lowest version of TLS between proxies.
    pub min_tls_version: TlsVersion,
    /// Access log.
    pub access_log: Option<Arc<AccessLog>>,
    /// Time to wait for the first bytes of a client where the protocol is detected; without limit
    /// if zero.
    pub detection_timeout: Duration,
    /// Name of the Kubernetes cluster.
    pub cluster_id: Arc<str>,
}

/// Traffic to hosts that the mesh does not know: `outboundTrafficPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutboundPolicy {
    /// Passes through.
    AllowAny,
    /// Ends at the proxy.
    RegistryOnly,
}

/// Version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlsVersion {
    /// TLS 1.2.
    V1_2,
    /// TLS 1.3.
    V1_3,
}

impl ProxyKind {
    /// Name in the node's id.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sidecar => "sidecar",
            Self::Router => "router",
        }
    }
}

impl ProxyView {
    /// Families of the proxy's addresses.
    pub fn families(&self) -> Families {
        let first_is_v6 = self.addresses.first().is_some_and(IpAddr::is_ipv6);
        let both = self.addresses.iter().any(|address| address.is_ipv6() != first_is_v6);
        match (first_is_v6, both) {
            (false, false) => Families::V4,
            (true, false) => Families::V6,
            (false, true) => Families::V4First,
            (true, true) => Families::V6First,
        }
    }

    /// True if the pod's connections are redirected to the proxy.
    pub fn captures(&self) -> bool {
        self.kind == ProxyKind::Sidecar && self.interception != Interception::None
    }

    /// True if the port belongs to Envoy or to the agent, on all of the pod's addresses.
    pub fn reserves(&self, mesh: &MeshView, port: u16) -> bool {
        OWN_PORTS.contains(&port)
            || self.own_ports.contains(&port)
            || [mesh.outbound_port, mesh.inbound_port].contains(&port)
    }
}

impl Families {
    /// True if the proxy has addresses of the family.
    pub fn has(self, address: IpAddr) -> bool {
        match self {
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
            Self::V4First | Self::V6First => true,
        }
    }

    /// Addresses that stand for all of the proxy's, the primary family first.
    pub fn unspecified(self) -> Vec<IpAddr> {
        self.pick(Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED)
    }

    /// Loopback addresses, the primary family first.
    pub fn loopback(self) -> Vec<IpAddr> {
        self.pick(Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST)
    }

    /// Source addresses that exempt connections to the application from capture.
    pub fn inbound_source(self) -> Vec<IpAddr> {
        self.pick(Ipv4Addr::new(127, 0, 0, 6), Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 6))
    }

    fn pick(self, v4: Ipv4Addr, v6: Ipv6Addr) -> Vec<IpAddr> {
        match self {
            Self::V4 => vec![v4.into()],
            Self::V6 => vec![v6.into()],
            Self::V4First => vec![v4.into(), v6.into()],
            Self::V6First => vec![v6.into(), v4.into()],
        }
    }
}

/// Setting of the mesh without a meaning. A default in its place could open the mesh.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{key}: {problem}")]
pub struct InvalidSetting {
    /// Path of the setting.
    pub key: String,
    /// The problem, with the accepted values.
    pub problem: String,
}

impl MeshView {
    /// Reads the settings from a parsed `MeshConfig`.
    pub fn new(mesh: &MeshConfig) -> Result<Self, InvalidSetting> {
        let (outbound_port, inbound_port) =
            (mesh.proxy_listen_port, mesh.proxy_inbound_listen_port);
        if outbound_port == inbound_port {
            let problem = format!("{outbound_port} is the inbound port too");
            return Err(InvalidSetting::new(&["proxyListenPort"], problem));
        }
        let policies = [
            ("REGISTRY_ONLY", OutboundPolicy::RegistryOnly),
            ("ALLOW_ANY", OutboundPolicy::AllowAny),
        ];
        let versions = [
            ("TLS_AUTO", TlsVersion::V1_2),
            ("TLSV1_2", TlsVersion::V1_2),
            ("TLSV1_3", TlsVersion::V1_3),
        ];
        let policy = choice(mesh, &["outboundTrafficPolicy", "mode"], &policies)?;
        let min_tls_version = choice(mesh, &["meshMTLS", "minProtocolVersion"], &versions)?;
        Ok(Self {
            root_namespace: mesh.root_namespace.as_str().into(),
            trust_domain: match mesh.trust_domain.as_str() {
                "" => DEFAULT_TRUST_DOMAIN.into(),
                text => trust_domain(text, "trustDomain")?,
            },
            trust_domain_aliases: trust_domain_aliases(mesh)?,
            outbound_policy: policy.unwrap_or(OutboundPolicy::AllowAny),
            inbound_to_localhost: mesh.inbound_traffic_policy == InboundTrafficPolicy::Localhost,
            outbound_port,
            inbound_port,
            auto_mtls: switch(mesh, "enableAutoMtls")?.unwrap_or(true),
            min_tls_version: min_tls_version.unwrap_or(TlsVersion::V1_2),
            access_log: AccessLog::new(mesh).map(Arc::new),
            detection_timeout: duration(mesh, "protocolDetectionTimeout")?.unwrap_or_default(),
            cluster_id: DEFAULT_CLUSTER_ID.into(),
        })
    }

    /// Trust domains whose identities are accepted, the mesh's own first.
    pub fn trust_domains(&self) -> impl Iterator<Item = &Arc<str>> {
        [&self.trust_domain].into_iter().chain(&self.trust_domain_aliases)
    }

    /// SPIFFE identities of a service account in all trust domains.
    pub fn identities(
        &self,
        namespace: &str,
        service_account: &str,
    ) -> impl Iterator<Item = String> {
        self.trust_domains()
            .map(move |domain| format!("spiffe://{domain}/ns/{namespace}/sa/{service_account}"))
    }
}

impl InvalidSetting {
    fn new(path: &[&str], problem: impl Into<String>) -> Self {
        Self { key: path.join("."), problem: problem.into() }
    }
}

/// Reads a value of an enumeration by its name or, as protobuf's JSON may have it, its number.
fn choice<T: Copy>(
    mesh: &MeshConfig,
    path: &[&str],
    choices: &[(&str, T)],
) -> Result<Option<T>, InvalidSetting> {
    let value = value(mesh, path)?;
    if value.is_null() {
        return Ok(None);
    }
    let numbered = choices.iter().zip(0..);
    let mut found = numbered.filter(|((name, _), number)| {
        value.as_str() == Some(*name) || value.as_u64() == Some(*number)
    });
    let found = found.next().map(|((_, choice), _)| *choice);
    found.map(Some).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        InvalidSetting::new(path, format!("{value} is not one of {}", names.join(", ")))
    })
}

fn value<'a>(mesh: &'a MeshConfig, path: &[&str]) -> Result<&'a Value, InvalidSetting> {
    mesh.value(path).map_err(|problem| InvalidSetting::new(&path[..1], problem))
}

fn switch(mesh: &MeshConfig, key: &str) -> Result<Option<bool>, InvalidSetting> {
    match value(mesh, &[key])? {
        Value::Null => Ok(None),
        Value::Bool(on) => Ok(Some(*on)),
        other => Err(InvalidSetting::new(&[key], format!("{other} is not true or false"))),
    }
}

fn duration(mesh: &MeshConfig, key: &str) -> Result<Option<Duration>, InvalidSetting> {
    let (value, duration) = (value(mesh, &[key])?, mesh.duration(key));
    if duration.is_none() && !value.is_null() {
        let problem = format!("{value} is not a duration such as 5s, or 0s for no limit");
        return Err(InvalidSetting::new(&[key], problem));
    }
    Ok(duration)
}

fn trust_domain_aliases(mesh: &MeshConfig) -> Result<Vec<Arc<str>>, InvalidSetting> {
    const KEY: &str = "trustDomainAliases";
    let aliases = match value(mesh, &[KEY])? {
        Value::Null => &[][..],
        Value::Array(aliases) => aliases,
        _ => return Err(InvalidSetting::new(&[KEY], "expected a list of trust domains")),
    };
    let parse = |alias: &Value| match alias.as_str() {
        Some(alias) => trust_domain(alias, KEY),
        None => Err(InvalidSetting::new(&[KEY], format!("{alias} is not a trust domain"))),
    };
    aliases.iter().map(parse).collect()
}

fn trust_domain(text: &str, key: &str) -> Result<Arc<str>, InvalidSetting> {
    let parsed = TrustDomain::parse(text);
    let parsed = parsed.map_err(|error| InvalidSetting::new(&[key], error.to_string()))?;
    Ok(parsed.as_str().into())
}

/// Ports of Envoy and the agent that no setting moves: admin, outbound, inbound, debug, status,
/// readiness, DNS and metrics.
const OWN_PORTS: [u16; 8] = [15000, 15001, 15004, 15006, 15020, 15021, 15053, 15090];
const DEFAULT_CLUSTER_ID: &str = "Kubernetes";
const DEFAULT_TRUST_DOMAIN: &str = "cluster.local";

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<MeshView, InvalidSetting> {
        MeshView::new(&MeshConfig::parse(text).unwrap())
    }

    #[test]
    fn invalid_settings_have_no_default() {
        for (text, expected) in [
            (
                "outboundTrafficPolicy: {mode: REGISTRY}",
                "outboundTrafficPolicy.mode: \"REGISTRY\" is not one of REGISTRY_ONLY, ALLOW_ANY",
            ),
            (
                "meshMTLS: {minProtocolVersion: TLSV1_1}",
                "meshMTLS.minProtocolVersion: \"TLSV1_1\" is not one of TLS_AUTO, TLSV1_2, TLSV1_3",
            ),
            ("enableAutoMtls: \"false\"", "enableAutoMtls: \"false\" is not true or false"),
            ("proxyListenPort: 15006", "proxyListenPort: 15006 is the inbound port too"),
            (
                "protocolDetectionTimeout: -1s",
                "protocolDetectionTimeout: \"-1s\" is not a duration such as 5s, or 0s for no limit",
            ),
            ("trustDomain: A", "trustDomain: invalid trust domain \"A\""),
            ("trustDomainAliases: [a, \"\"]", "trustDomainAliases: invalid trust domain \"\""),
            (
                "outboundTrafficPolicy: REGISTRY_ONLY",
                "outboundTrafficPolicy: \"REGISTRY_ONLY\" is not a mapping with mode",
            ),
            ("meshMTLS: TLSV1_3", "meshMTLS: \"TLSV1_3\" is not a mapping with minProtocolVersion"),
            ("trustDomainAliases: [1]", "trustDomainAliases: 1 is not a trust domain"),
            ("trustDomainAliases: a", "trustDomainAliases: expected a list of trust domains"),
        ] {
            let error = settings(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn settings_have_both_spellings_and_numbers_of_protobuf() {
        let policy = |text| settings(text).unwrap().outbound_policy;
        assert_eq!(policy("outbound_traffic_policy: {mode: 0}"), OutboundPolicy::RegistryOnly);
        assert_eq!(policy("outboundTrafficPolicy: {mode: 1}"), OutboundPolicy::AllowAny);
        assert_eq!(policy("outboundTrafficPolicy: {}"), OutboundPolicy::AllowAny);
        let version = settings("meshMTLS: {min_protocol_version: 2}").unwrap().min_tls_version;
        assert_eq!(version, TlsVersion::V1_3);
    }

    #[test]
    fn mesh_view_has_defaults_and_settings_of_the_document() {
        let view = settings("").unwrap();
        assert_eq!(view.outbound_policy, OutboundPolicy::AllowAny);
        assert_eq!((view.outbound_port, view.inbound_port), (15001, 15006));
        assert!(view.auto_mtls && !view.inbound_to_localhost);
        let text = "trustDomain: a\ntrustDomainAliases: [b, c]\n\
                    outboundTrafficPolicy: {mode: REGISTRY_ONLY}\nenableAutoMtls: false\n\
                    inboundTrafficPolicy: {mode: LOCALHOST}\n\
                    meshMTLS: {minProtocolVersion: TLSV1_3}\n";
        let view = settings(text).unwrap();
        let identities = view.identities("shop", "web");
        let expected = ["a", "b", "c"].map(|domain| format!("spiffe://{domain}/ns/shop/sa/web"));
        assert_eq!(identities.collect::<Vec<_>>(), expected);
        assert_eq!(view.outbound_policy, OutboundPolicy::RegistryOnly);
        assert_eq!(view.min_tls_version, TlsVersion::V1_3);
        assert!(!view.auto_mtls && view.inbound_to_localhost);
    }

    #[test]
    fn families_follow_the_order_of_addresses() {
        let unspecified = |families: Families| -> Vec<String> {
            families.unspecified().iter().map(ToString::to_string).collect()
        };
        assert_eq!(unspecified(Families::V4), ["0.0.0.0"]);
        assert_eq!(unspecified(Families::V6), ["::"]);
        assert_eq!(unspecified(Families::V4First), ["0.0.0.0", "::"]);
        assert_eq!(unspecified(Families::V6First), ["::", "0.0.0.0"]);
    }
}
