//! `AuthorizationPolicy`: not enforced, but never lost either. The workloads that one selects take no
//! connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use mesh::istio_kinds::GATEWAY_API;
use pilot_registry::labels::Labels;
use pilot_registry::snapshot::Snapshot;
use serde_json::Value;

/// Policy that restricts the callers of workloads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AuthorizationPolicy {
    /// Namespace of the object.
    pub namespace: Arc<str>,
    /// Name of the object.
    pub name: Arc<str>,
    /// Workloads of the policy.
    pub selection: Selection,
}

/// Workloads of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Selection {
    /// Workloads with these labels, in the namespace or, from the root namespace, in the mesh. No
    /// labels select all.
    Labels(Labels),
    /// Workloads behind these Services of the namespace.
    Services(Vec<Arc<str>>),
}

/// Policies of the mesh that restrict callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizationPolicies {
    /// Policies by namespace, in the order of their names.
    namespaces: BTreeMap<Arc<str>, BTreeMap<Arc<str>, AuthorizationPolicy>>,
}

impl AuthorizationPolicy {
    /// Reads an object; `None` if it restricts no caller of a sidecar, such as one that denies by no
    /// rule, or allows all by a rule without conditions. Other rules are not read: each one
    /// restricts. A part that cannot be read selects more, never less.
    pub fn from_object(object: &Value) -> Option<Self> {
        let text = |key: &str| object["metadata"][key].as_str().filter(|it| !it.is_empty());
        let is_dry_run = object["metadata"]["annotations"][DRY_RUN] == "true";
        let rules = &object["spec"]["rules"];
        let has_no_rule = rules.is_null() || rules.as_array().is_some_and(Vec::is_empty);
        let allows_all = || {
            let mut rules = rules.as_array().into_iter().flatten();
            rules.any(|rule| rule.as_object().is_some_and(serde_json::Map::is_empty))
        };
        let action = match &object["spec"]["action"] {
            Value::Null => Some("ALLOW"),
            action => action.as_str(),
        };
        let is_open = match action {
            Some("ALLOW") => allows_all(),
            Some("AUDIT") => true,
            Some("DENY") => has_no_rule,
            _ => false,
        };
        if is_dry_run || is_open {
            return None;
        }
        Some(Self {
            namespace: text("namespace").unwrap_or("default").into(),
            name: text("name").unwrap_or_default().into(),
            selection: Selection::from_spec(&object["spec"])?,
        })
    }

    fn selects(&self, snapshot: &Snapshot, namespace: &str, labels: &Labels) -> bool {
        match &self.selection {
            Selection::Labels(selector) => selector.select(labels),
            Selection::Services(names) => {
                let services = snapshot.services().filter(|service| {
                    service.namespace == self.namespace && names.contains(&service.name)
                });
                // The endpoints of a Service without a selector may be any pods.
                let mut selectors = services.map(|service| &service.selector);
                *self.namespace == *namespace && selectors.any(|selector| selector.select(labels))
            }
        }
    }
}

impl Selection {
    fn all() -> Self {
        Self::Labels(Labels::default())
    }

    /// Returns `None` if only gateways or hosts outside of the mesh are selected.
    fn from_spec(spec: &Value) -> Option<Self> {
        let references = match (&spec["targetRefs"], &spec["targetRef"]) {
            (Value::Array(all), _) => all.as_slice(),
            (Value::Null, Value::Null) => &[],
            (Value::Null, one) => std::slice::from_ref(one),
            _ => return Some(Self::all()),
        };
        if references.is_empty() || !spec["selector"].is_null() {
            return Some(Self::from_selector(&spec["selector"]));
        }
        let mut services = Vec::new();
        for reference in references {
            let text = |key: &str| reference[key].as_str().unwrap_or_default();
            match (text("group"), text("kind")) {
                ("" | "core", "Service") => services.push(text("name").into()),
                (GATEWAY_API, "Gateway" | "GatewayClass")
                | ("networking.istio.io", "ServiceEntry") => {}
                _ => return Some(Self::all()),
            }
        }
        (!services.is_empty()).then_some(Self::Services(services))
    }

    fn from_selector(selector: &Value) -> Self {
        let labels = selector["matchLabels"].as_object().into_iter().flatten();
        let labels: Option<Labels> =
            labels.map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect();
        labels.map_or_else(Self::all, Self::Labels)
    }
}

impl AuthorizationPolicies {
    /// Sorts policies by namespace and name.
    pub fn new(policies: impl IntoIterator<Item = AuthorizationPolicy>) -> Self {
        let mut all = Self::default();
        for policy in policies {
            let namespace = all.namespaces.entry(policy.namespace.clone()).or_default();
            namespace.insert(policy.name.clone(), policy);
        }
        all
    }

    /// The policy by which a workload takes no connection: the first of the root namespace, else of
    /// its own.
    pub fn closing(
        &self,
        root_namespace: &str,
        snapshot: &Snapshot,
        namespace: &str,
        labels: &Labels,
    ) -> Option<&AuthorizationPolicy> {
        let names = [root_namespace, namespace];
        let policies = names.iter().filter_map(|name| self.namespaces.get(*name));
        let mut policies = policies.flat_map(BTreeMap::values);
        policies.find(|policy| policy.selects(snapshot, namespace, labels))
    }
}

/// Annotation of policies that are tried out: nothing is refused by them.
const DRY_RUN: &str = "istio.io/dry-run";

#[cfg(test)]
mod tests {
    use pilot_registry::event::{Event, Update};
    use pilot_registry::index::Index;
    use pilot_registry::manifest::{Manifest as _, ObjectDefaults, ServiceManifest};
    use serde_json::json;

    use super::*;

    fn policy(namespace: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": "security.istio.io/v1", "kind": "AuthorizationPolicy",
            "metadata": {"name": "deny", "namespace": namespace}, "spec": spec,
        })
    }

    /// Namespace and application of the workloads that a policy closes.
    fn closed(object: &Value) -> Vec<&'static str> {
        let service = |name: &str, spec: Value| {
            let object = json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec});
            let manifest: ServiceManifest = serde_json::from_value(object).unwrap();
            manifest.convert(&ObjectDefaults::default()).unwrap().unwrap()
        };
        let services = vec![
            service("web", json!({"selector": {"app": "web"}, "ports": [{"port": 80}]})),
            service("any", json!({"ports": [{"port": 80}]})),
        ];
        let services = Update::Replace(services);
        let snapshot = Index::from_events([Event::Services(services)]).snapshot();
        let policies = AuthorizationPolicies::new(AuthorizationPolicy::from_object(object));
        let workloads = [("shop", "web"), ("shop", "api"), ("bank", "web")];
        let closed = workloads.iter().filter(|(namespace, app)| {
            let labels = [("app", *app)].into_iter().collect();
            policies.closing("istio-system", &snapshot, namespace, &labels).is_some()
        });
        let names = ["shop/web", "shop/api", "bank/web"];
        closed.map(|it| names[workloads.iter().position(|other| other == it).unwrap()]).collect()
    }

    #[test]
    fn policies_close_the_workloads_that_they_select() {
        let web = json!({"matchLabels": {"app": "web"}});
        let of_service = |name: &str| json!({"kind": "Service", "group": "", "name": name});
        let of_gateway = json!({"kind": "Gateway", "group": GATEWAY_API, "name": "web"});
        let of_host = json!({"kind": "ServiceEntry", "group": "networking.istio.io", "name": "x"});
        let [shop, both] = [&["shop/web", "shop/api"][..], &["shop/web", "bank/web"]];
        for (namespace, spec, expected) in [
            ("shop", json!(null), shop),
            ("shop", json!({}), shop),
            ("shop", json!({"selector": web}), &["shop/web"]),
            ("shop", json!({"action": "DENY", "selector": web, "rules": [{}]}), &["shop/web"]),
            ("shop", json!({"action": "CUSTOM", "provider": {"name": "a"}}), shop),
            ("shop", json!({"action": "AUDIT"}), &[]),
            ("shop", json!({"action": "DENY"}), &[]),
            ("shop", json!({"rules": [{}]}), &[]),
            ("shop", json!({"action": "ALLOW", "rules": [{"to": []}, {}]}), &[]),
            ("shop", json!({"action": "ALLOW", "rules": [{"to": []}]}), shop),
            ("shop", json!({"action": "CUSTOM", "rules": [{}]}), shop),
            ("other", json!({}), &[]),
            ("istio-system", json!({"selector": web}), both),
            ("istio-system", json!({}), &["shop/web", "shop/api", "bank/web"]),
            ("shop", json!({"targetRefs": []}), shop),
            ("shop", json!({"targetRefs": [of_service("web")]}), &["shop/web"]),
            ("shop", json!({"targetRef": of_service("web")}), &["shop/web"]),
            ("shop", json!({"targetRefs": [of_service("any")]}), shop),
            ("shop", json!({"targetRefs": [of_service("gone")]}), &[]),
            ("istio-system", json!({"targetRefs": [of_service("web")]}), &[]),
            ("shop", json!({"targetRefs": [of_gateway, of_host]}), &[]),
            ("shop", json!({"targetRefs": [of_gateway, of_service("web")]}), &["shop/web"]),
            ("shop", json!({"targetRefs": [{"kind": "Unknown"}]}), shop),
        ] {
            assert_eq!(closed(&policy(namespace, &spec)), expected, "{namespace} {spec}");
        }
    }

    #[test]
    fn unreadable_parts_select_more() {
        for spec in [
            json!("text"),
            json!({"selector": 1}),
            json!({"selector": {"matchLabels": {"app": 1}}}),
            json!({"targetRefs": "web"}),
            json!({"targetRefs": [1]}),
            json!({"action": 2}),
            json!({"action": "DENY", "rules": "none"}),
            json!({"rules": [1]}),
        ] {
            assert_eq!(closed(&policy("shop", &spec)), ["shop/web", "shop/api"], "{spec}");
        }
    }

    #[test]
    fn dry_run_restricts_no_caller() {
        let mut object = policy("shop", &json!({}));
        object["metadata"]["annotations"] = json!({DRY_RUN: "true"});
        assert_eq!(closed(&object), [""; 0]);
        object["metadata"]["annotations"] = json!({DRY_RUN: "false"});
        assert_eq!(closed(&object), ["shop/web", "shop/api"]);
    }
}
