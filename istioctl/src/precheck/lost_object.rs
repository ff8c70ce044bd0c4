//! Object that loses its effect in a mesh of our control plane.

use mesh::istio_kinds::{AUTHORIZATION_POLICY, Access, GATEWAY_API, ISTIO_KINDS, IstioKind};
use pilot_routing::authorization_policy::AuthorizationPolicy;
use serde_json::{Value, json};

/// Object that loses its effect. The order is that of reports: what opens workloads is first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LostObject {
    pub(super) access: Access,
    /// Place of the kind in the table.
    kind: usize,
    /// False for a policy that allows nothing.
    allows: bool,
    pub(super) namespace: String,
    pub(super) name: String,
    /// State of the mesh without it.
    lost: &'static str,
}

impl LostObject {
    /// Returns `None` for an object that keeps its effect, or that has none on a mesh of Istio.
    pub(super) fn new(object: &Value) -> Option<Self> {
        let kind = ISTIO_KINDS.iter().position(|kind| kind.is_kind_of(object))?;
        let of = &ISTIO_KINDS[kind];
        if of.read_by.is_some() || (of.group == GATEWAY_API && !is_of_the_mesh(object)) {
            return None;
        }
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let spec = &object["spec"];
        let rules = spec["rules"].as_array().map_or(0, Vec::len);
        let allows_nothing = matches!(spec["action"].as_str(), None | Some("ALLOW")) && rules == 0;
        let is_harmless =
            *of == AUTHORIZATION_POLICY && AuthorizationPolicy::from_object(object).is_none();
        Some(Self {
            access: if is_harmless { Access::Stays } else { of.access },
            kind,
            allows: !(*of == AUTHORIZATION_POLICY && allows_nothing),
            namespace: text("namespace"),
            name: text("name"),
            lost: if is_harmless { "it restricts no caller of a sidecar" } else { of.without },
        })
    }

    pub(super) fn kind(&self) -> &'static IstioKind {
        &ISTIO_KINDS[self.kind]
    }

    /// Cells of a table: kind, name, effect.
    pub(super) fn cells(&self) -> [String; 3] {
        let kind = self.kind();
        let group = if kind.group == GATEWAY_API { " (Gateway API)" } else { "" };
        let name = format!("{}/{}", self.namespace, self.name);
        [format!("{}{group}", kind.kind), name, self.lost.to_owned()]
    }

    pub(super) fn json(&self) -> Value {
        let kind = self.kind();
        json!({
            "group": kind.group,
            "kind": kind.kind,
            "namespace": self.namespace,
            "name": self.name,
            "withoutIt": self.lost,
            "restrictsAccess": self.access == Access::Opens,
        })
    }
}

/// True for an object of the Gateway API that Istio serves: a gateway of Istio's classes, or a route
/// of a Service. Routes of a gateway lose what their gateway loses.
fn is_of_the_mesh(object: &Value) -> bool {
    let spec = &object["spec"];
    let class = spec["gatewayClassName"].as_str().unwrap_or_default();
    let mut parents = spec["parentRefs"].as_array().into_iter().flatten();
    class.starts_with("istio") || parents.any(|parent| parent["kind"] == "Service")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_come_before_other_objects() {
        let security = "security.istio.io/v1";
        let networking = "networking.istio.io/v1";
        let routes = format!("{GATEWAY_API}/v1");
        let objects = [
            (networking, "VirtualService", "web", json!({})),
            (security, "PeerAuthentication", "strict", json!({})),
            (security, "AuthorizationPolicy", "audit", json!({"action": "AUDIT"})),
            (security, "AuthorizationPolicy", "deny", json!({"action": "DENY", "rules": [{}]})),
            (security, "AuthorizationPolicy", "nothing", json!({})),
            (security, "RequestAuthentication", "tokens", json!({})),
            ("networking.istio.io/v1alpha3", "EnvoyFilter", "patch", json!({})),
            ("networking.istio.io/v1beta1", "ProxyConfig", "concurrency", json!({})),
            ("v1", "Service", "web", json!({})),
            (&routes, "HTTPRoute", "mesh", json!({"parentRefs": [{"kind": "Service"}]})),
            (&routes, "HTTPRoute", "edge", json!({"parentRefs": [{"kind": "Gateway"}]})),
            (&routes, "Gateway", "waypoint", json!({"gatewayClassName": "istio-waypoint"})),
            (&routes, "Gateway", "other", json!({"gatewayClassName": "nginx"})),
        ];
        let objects = objects.iter().map(|(version, kind, name, spec)| {
            json!({"apiVersion": version, "kind": kind,
                "metadata": {"name": name, "namespace": "shop"}, "spec": spec})
        });
        let mut lost: Vec<_> = objects.filter_map(|object| LostObject::new(&object)).collect();
        lost.sort();
        let shown: Vec<_> = lost.iter().map(|it| it.cells()[..2].join(" ")).collect();
        insta::assert_debug_snapshot!(shown, @r#"
        [
            "AuthorizationPolicy shop/nothing",
            "AuthorizationPolicy shop/deny",
            "RequestAuthentication shop/tokens",
            "EnvoyFilter shop/patch",
            "AuthorizationPolicy shop/audit",
            "VirtualService shop/web",
            "Gateway (Gateway API) shop/waypoint",
            "HTTPRoute (Gateway API) shop/mesh",
        ]
        "#);
    }
}
