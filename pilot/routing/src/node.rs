//! View of a proxy, parsed from the node that it presents.

use std::collections::BTreeSet;
use std::net::IpAddr;

use pilot_registry::labels::Labels;
use pilot_registry::locality::Locality;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::view::{Interception, ProxyKind, ProxyView};

/// A node that no configuration can be generated for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidNode {
    /// The id has another form.
    #[error("invalid node id {0:?}: expected TYPE~ADDRESS~POD.NAMESPACE~DOMAIN")]
    Id(String),
    /// The role is unknown.
    #[error("unsupported proxy type {0:?}: expected sidecar or router")]
    Kind(String),
    /// No address of the proxy is known.
    #[error("invalid address {0:?} of the proxy: expected IP addresses")]
    Address(String),
    /// A field of the metadata has an unknown value.
    #[error("invalid metadata {0} = {1:?}: expected {2}")]
    Metadata(&'static str, String, &'static str),
}

impl ProxyView {
    /// Parses a node: its id, its locality and its metadata. Metadata overrides parts of the id.
    pub fn from_node(
        id: &str,
        locality: Locality,
        metadata: &Map<String, Value>,
    ) -> Result<Self, InvalidNode> {
        let parts: Vec<_> = id.split('~').collect();
        let [kind, address, name, dns_domain] = parts[..] else {
            return Err(InvalidNode::Id(id.to_owned()));
        };
        let (pod, namespace) =
            name.rsplit_once('.').ok_or_else(|| InvalidNode::Id(id.to_owned()))?;
        let text =
            |key: &str| metadata.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let namespace = text("NAMESPACE").unwrap_or(namespace);
        let port = |key: &str| {
            let value = metadata.get(key)?;
            let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
            number.and_then(|number| u16::try_from(number).ok())
        };
        let own_ports: BTreeSet<_> =
            ["ENVOY_STATUS_PORT", "ENVOY_PROMETHEUS_PORT"].into_iter().filter_map(port).collect();
        Ok(Self {
            kind: match kind {
                "sidecar" => ProxyKind::Sidecar,
                "router" => ProxyKind::Router,
                other => return Err(InvalidNode::Kind(other.to_owned())),
            },
            pod: text("NAME").unwrap_or(pod).into(),
            namespace: namespace.into(),
            service_account: text("SERVICE_ACCOUNT").unwrap_or_default().into(),
            labels: labels(metadata),
            addresses: addresses(text("INSTANCE_IPS").unwrap_or(address))?,
            interception: interception(metadata)?,
            domain: service_domain(dns_domain, namespace).into(),
            locality,
            node: text("NODE_NAME").unwrap_or_default().into(),
            own_ports,
            unprivileged: text("UNPRIVILEGED_POD") == Some("true"),
            takes_names_by_host: text("NAMES_BY_HOST") == Some("true"),
            inspects_by_method: text("HTTP_BY_METHOD") == Some("true"),
        })
    }
}

fn labels(metadata: &Map<String, Value>) -> Labels {
    let labels = metadata.get("LABELS").and_then(Value::as_object).into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}

fn addresses(text: &str) -> Result<Vec<IpAddr>, InvalidNode> {
    let parsed: Result<Vec<_>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    parsed.map_err(|_| InvalidNode::Address(text.to_owned()))
}

/// Returns the mode of capture: the injector's variable, else the pod's annotation.
fn interception(metadata: &Map<String, Value>) -> Result<Interception, InvalidNode> {
    let annotation = || metadata.get("ANNOTATIONS")?.get("sidecar.istio.io/interceptionMode");
    let mode = metadata.get("INTERCEPTION_MODE").or_else(annotation).and_then(Value::as_str);
    match mode {
        None | Some("" | "REDIRECT") => Ok(Interception::Redirect),
        Some("TPROXY") => Ok(Interception::Tproxy),
        Some("NONE") => Ok(Interception::None),
        Some(other) => {
            let expected = "REDIRECT, TPROXY or NONE";
            Err(InvalidNode::Metadata("INTERCEPTION_MODE", other.to_owned(), expected))
        }
    }
}

/// Returns the domain of Services: `NAMESPACE.svc.DOMAIN` without its first two labels.
fn service_domain<'a>(dns_domain: &'a str, namespace: &str) -> &'a str {
    let domain = dns_domain
        .strip_prefix(namespace)
        .and_then(|rest| rest.strip_prefix('.'))
        .unwrap_or(dns_domain);
    let domain = domain.strip_prefix("svc.").unwrap_or(domain);
    if domain.is_empty() { DEFAULT_DOMAIN } else { domain }
}

const DEFAULT_DOMAIN: &str = "cluster.local";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::view::Families;

    fn parse(id: &str, metadata: Value) -> Result<ProxyView, InvalidNode> {
        let Value::Object(metadata) = metadata else { panic!("an object") };
        ProxyView::from_node(id, Locality::default(), &metadata)
    }

    const ID: &str = "sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local";

    #[test]
    fn node_of_the_agent_is_parsed() {
        let view = parse(
            ID,
            json!({
                "NAME": "web-1", "NAMESPACE": "shop", "SERVICE_ACCOUNT": "web",
                "INSTANCE_IPS": "10.0.0.1,fd00::1", "LABELS": {"app": "web"},
                "INTERCEPTION_MODE": "TPROXY", "NODE_NAME": "n1",
                "ENVOY_STATUS_PORT": 16021, "ENVOY_PROMETHEUS_PORT": "16090",
                "NAMES_BY_HOST": "true", "HTTP_BY_METHOD": "true",
            }),
        );
        let view = view.unwrap();
        assert_eq!(
            (&*view.pod, &*view.namespace, &*view.service_account),
            ("web-1", "shop", "web")
        );
        assert_eq!((view.families(), view.interception), (Families::V4First, Interception::Tproxy));
        assert_eq!((&*view.domain, &*view.node), ("cluster.local", "n1"));
        assert_eq!(view.labels.get("app").map(|text| &**text), Some("web"));
        assert_eq!(view.own_ports, [16021, 16090].into());
        assert!(view.takes_names_by_host && view.inspects_by_method);
    }

    #[test]
    fn id_alone_suffices() {
        let view = parse("router~::1~gw-1.edge~edge.svc.example.org", json!({})).unwrap();
        assert_eq!((view.kind, view.families()), (ProxyKind::Router, Families::V6));
        assert!(!view.takes_names_by_host && !view.inspects_by_method);
        assert_eq!((&*view.pod, &*view.namespace, &*view.domain), ("gw-1", "edge", "example.org"));
    }

    #[test]
    fn interception_falls_back_to_the_annotation() {
        let metadata = json!({"ANNOTATIONS": {"sidecar.istio.io/interceptionMode": "NONE"}});
        assert_eq!(parse(ID, metadata).unwrap().interception, Interception::None);
    }

    #[test]
    fn invalid_nodes_are_rejected() {
        for (id, metadata, expected) in [
            ("sidecar~10.0.0.1~web-1", json!({}), "invalid node id"),
            ("sidecar~10.0.0.1~web~d", json!({}), "invalid node id"),
            ("ingress~10.0.0.1~a.b~d", json!({}), "unsupported proxy type \"ingress\""),
            ("sidecar~here~a.b~d", json!({}), "invalid address \"here\""),
            (ID, json!({"INSTANCE_IPS": "10.0.0.1,x"}), "invalid address \"10.0.0.1,x\""),
            (ID, json!({"INTERCEPTION_MODE": "MAYBE"}), "invalid metadata INTERCEPTION_MODE"),
        ] {
            let error = parse(id, metadata).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
