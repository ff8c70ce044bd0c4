//! Istio's kinds of objects, and the effect that each has in this mesh.

use serde_json::Value;

/// Kind of objects that configure Istio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IstioKind {
    /// API group.
    pub group: &'static str,
    /// `kind` of the objects.
    pub kind: &'static str,
    /// Name of the objects in paths of the API and in roles.
    pub plural: &'static str,
    /// Versions of the API, the preferred one first.
    pub versions: &'static [&'static str],
    /// Part of the mesh that reads the objects; `None` if none does.
    pub read_by: Option<&'static str>,
    /// State of the mesh without the objects.
    pub without: &'static str,
    /// Effect of a lost object on the access to workloads.
    pub access: Access,
}

/// Effect of a lost object on the access to workloads. The order is that of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// A rule about callers is gone.
    Opens,
    /// The access stays as it is.
    Stays,
}

impl IstioKind {
    /// True if the control plane watches the objects for what it does not do with them. Those of the
    /// Gateway API may belong to another controller.
    pub fn is_unread_by_discovery(&self) -> bool {
        self.read_by.is_none() && self.group.ends_with(".istio.io")
    }

    /// True for an object of the kind, in any version.
    pub fn is_kind_of(&self, object: &Value) -> bool {
        let text = |key: &str| object[key].as_str().unwrap_or_default();
        let group = text("apiVersion").split_once('/').map(|(group, _)| group);
        group == Some(self.group) && text("kind") == self.kind
    }
}

/// Policies about callers, which are not enforced: workloads that one selects take no connection.
pub const AUTHORIZATION_POLICY: IstioKind = IstioKind {
    group: SECURITY,
    kind: "AuthorizationPolicy",
    plural: "authorizationpolicies",
    versions: STABLE,
    read_by: None,
    without: "not enforced; the workloads that it selects take no connection",
    access: Access::Opens,
};

/// Policies of mutual TLS.
pub const PEER_AUTHENTICATION: IstioKind = IstioKind {
    group: SECURITY,
    kind: "PeerAuthentication",
    plural: "peerauthentications",
    versions: STABLE,
    read_by: Some("pilot-discovery"),
    without: "mutual TLS and plaintext on all ports",
    access: Access::Opens,
};

/// All kinds; those first whose loss opens workloads.
pub const ISTIO_KINDS: [IstioKind; 19] = [
    AUTHORIZATION_POLICY,
    unread(
        SECURITY,
        "RequestAuthentication",
        "requestauthentications",
        STABLE,
        Access::Opens,
        "tokens of requests are not checked",
    ),
    PEER_AUTHENTICATION,
    unread(
        NETWORKING,
        "VirtualService",
        "virtualservices",
        ROUTING,
        Access::Stays,
        "requests are routed by Service alone",
    ),
    unread(
        NETWORKING,
        "DestinationRule",
        "destinationrules",
        ROUTING,
        Access::Stays,
        "no subsets, limits of connections, outlier detection or TLS settings",
    ),
    unread(NETWORKING, "Gateway", "gateways", ROUTING, Access::Stays, "gateways listen on no port"),
    unread(
        NETWORKING,
        "ServiceEntry",
        "serviceentries",
        ROUTING,
        Access::Stays,
        "its hosts are unknown: passed through, or rejected with REGISTRY_ONLY",
    ),
    unread(
        NETWORKING,
        "Sidecar",
        "sidecars",
        ROUTING,
        Access::Stays,
        "proxies know all Services; listeners and modes of its own are absent",
    ),
    unread(
        NETWORKING,
        "WorkloadEntry",
        "workloadentries",
        ROUTING,
        Access::Stays,
        "its machine is no endpoint",
    ),
    unread(
        NETWORKING,
        "WorkloadGroup",
        "workloadgroups",
        ROUTING,
        Access::Stays,
        "its machines cannot join",
    ),
    unread(
        NETWORKING,
        "EnvoyFilter",
        "envoyfilters",
        &["v1alpha3"],
        Access::Opens,
        "its patches are absent, filters that reject requests among them",
    ),
    IstioKind {
        group: NETWORKING,
        kind: "ProxyConfig",
        plural: "proxyconfigs",
        versions: &["v1beta1"],
        read_by: Some("sidecar-injector, kube-inject"),
        without: "the mesh's defaults",
        access: Access::Stays,
    },
    unread(
        "telemetry.istio.io",
        "Telemetry",
        "telemetries",
        &["v1", "v1alpha1"],
        Access::Stays,
        "access logs by the settings of the mesh alone; no tracing, no changed metrics",
    ),
    unread(
        "extensions.istio.io",
        "WasmPlugin",
        "wasmplugins",
        &["v1alpha1"],
        Access::Opens,
        "its filter is absent, also one that rejects requests",
    ),
    unread(
        GATEWAY_API,
        "Gateway",
        "gateways",
        &["v1", "v1beta1"],
        Access::Stays,
        "no gateway and no waypoint is deployed for it",
    ),
    unread(GATEWAY_API, "HTTPRoute", "httproutes", &["v1", "v1beta1"], Access::Stays, BY_SERVICE),
    unread(GATEWAY_API, "GRPCRoute", "grpcroutes", &["v1", "v1alpha2"], Access::Stays, BY_SERVICE),
    unread(GATEWAY_API, "TCPRoute", "tcproutes", &["v1alpha2"], Access::Stays, BY_SERVICE),
    unread(GATEWAY_API, "TLSRoute", "tlsroutes", &["v1", "v1alpha2"], Access::Stays, BY_SERVICE),
];

const fn unread(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    versions: &'static [&'static str],
    access: Access,
    without: &'static str,
) -> IstioKind {
    IstioKind { group, kind, plural, versions, read_by: None, without, access }
}

const SECURITY: &str = "security.istio.io";
const NETWORKING: &str = "networking.istio.io";
/// API group of the Gateway API.
pub const GATEWAY_API: &str = "gateway.networking.k8s.io";
const STABLE: &[&str] = &["v1", "v1beta1"];
const ROUTING: &[&str] = &["v1", "v1beta1", "v1alpha3"];
const BY_SERVICE: &str = "requests are routed by Service alone";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_of_discovery_covers_each_unread_kind() {
        let role = include_str!("../../../manifests/mesh/rbac.yaml");
        for kind in ISTIO_KINDS.iter().filter(|kind| kind.is_unread_by_discovery()) {
            let mut rules = role.split("- apiGroups: ");
            let is_covered = rules.any(|rule| {
                rule.starts_with(&format!("[{}]\n", kind.group)) && rule.contains(kind.plural)
            });
            assert!(is_covered, "{} of {}", kind.plural, kind.group);
        }
    }
}
