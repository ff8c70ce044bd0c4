//! Node of a proxy, decoded from its encoded metadata.

use std::collections::BTreeMap;

use pilot_registry::locality::Locality;
use pilot_routing::node::InvalidNode;
use pilot_routing::view::ProxyView;
use pilot_xds::messages::Node;
use prost::{DecodeError, Message, Oneof};
use serde_json::Value;
use thiserror::Error;

/// A node that no configuration can be generated for.
#[derive(Debug, Error)]
pub enum NodeError {
    /// Metadata or locality cannot be decoded.
    #[error("the node of {0:?} cannot be decoded: {1}")]
    Undecodable(String, DecodeError),
    /// A value is invalid.
    #[error(transparent)]
    Invalid(#[from] InvalidNode),
}

/// Reads the view of a proxy from its node.
pub fn proxy_view(node: &Node) -> Result<ProxyView, NodeError> {
    let undecodable = |error| NodeError::Undecodable(node.id.clone(), error);
    let metadata = Struct::decode(node.metadata.clone()).map_err(undecodable)?;
    let locality = EncodedLocality::decode(node.locality.clone()).map_err(undecodable)?;
    let locality = Locality {
        region: locality.region.into(),
        zone: locality.zone.into(),
        subzone: locality.subzone.into(),
    };
    let Value::Object(metadata) = metadata.into_json() else {
        return Ok(ProxyView::from_node(&node.id, locality, &serde_json::Map::new())?);
    };
    Ok(ProxyView::from_node(&node.id, locality, &metadata)?)
}

/// `envoy.config.core.v3.Locality`.
#[derive(Clone, PartialEq, Message)]
struct EncodedLocality {
    #[prost(string, tag = "1")]
    region: String,
    #[prost(string, tag = "2")]
    zone: String,
    #[prost(string, tag = "3")]
    subzone: String,
}

/// `google.protobuf.Struct`.
#[derive(Clone, PartialEq, Message)]
struct Struct {
    #[prost(btree_map = "string, message", tag = "1")]
    fields: BTreeMap<String, EncodedValue>,
}

/// `google.protobuf.Value`.
#[derive(Clone, PartialEq, Message)]
struct EncodedValue {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5, 6")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Kind {
    #[prost(int32, tag = "1")]
    Null(i32),
    #[prost(double, tag = "2")]
    Number(f64),
    #[prost(string, tag = "3")]
    String(String),
    #[prost(bool, tag = "4")]
    Bool(bool),
    #[prost(message, tag = "5")]
    Struct(Struct),
    #[prost(message, tag = "6")]
    List(List),
}

/// `google.protobuf.ListValue`.
#[derive(Clone, PartialEq, Message)]
struct List {
    #[prost(message, repeated, tag = "1")]
    values: Vec<EncodedValue>,
}

impl Struct {
    fn into_json(self) -> Value {
        Value::Object(
            self.fields.into_iter().map(|(key, value)| (key, value.into_json())).collect(),
        )
    }
}

impl EncodedValue {
    fn into_json(self) -> Value {
        match self.kind {
            None | Some(Kind::Null(_)) => Value::Null,
            Some(Kind::Number(number)) => whole(number).map_or_else(|| number.into(), Value::from),
            Some(Kind::String(text)) => text.into(),
            Some(Kind::Bool(truth)) => truth.into(),
            Some(Kind::Struct(fields)) => fields.into_json(),
            Some(Kind::List(list)) => {
                list.values.into_iter().map(Self::into_json).collect::<Vec<_>>().into()
            }
        }
    }
}

/// Reads a number that stands for an integer, such as a port.
fn whole(number: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "checked by the way back")]
    let integer = number as i64;
    #[expect(clippy::cast_precision_loss, reason = "a large number stays a float")]
    let same = (integer as f64).to_bits() == number.to_bits();
    same.then_some(integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(kind: Kind) -> EncodedValue {
        EncodedValue { kind: Some(kind) }
    }

    #[test]
    fn view_is_read_from_encoded_metadata() {
        let labels =
            Struct { fields: [("app".to_owned(), value(Kind::String("web".to_owned())))].into() };
        let metadata = Struct {
            fields: BTreeMap::from([
                ("NAMESPACE".to_owned(), value(Kind::String("shop".to_owned()))),
                ("LABELS".to_owned(), value(Kind::Struct(labels))),
                ("ENVOY_STATUS_PORT".to_owned(), value(Kind::Number(16021.0))),
            ]),
        };
        let locality = EncodedLocality { zone: "z".to_owned(), ..EncodedLocality::default() };
        let node = Node {
            id: "sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local".to_owned(),
            metadata: metadata.encode_to_vec().into(),
            locality: locality.encode_to_vec().into(),
            ..Node::default()
        };
        let view = proxy_view(&node).unwrap();
        assert_eq!(view.labels.get("app").map(|label| &**label), Some("web"));
        assert_eq!((&*view.locality.zone, view.own_ports), ("z", [16021].into()));
        let node = Node { metadata: vec![0xff].into(), ..node };
        assert!(proxy_view(&node).unwrap_err().to_string().contains("cannot be decoded"));
    }
}
