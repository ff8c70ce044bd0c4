//! Node of a sidecar, as Envoy encodes it.

use std::collections::BTreeMap;

use bytes::Bytes;
use pilot_xds::messages::Node;
use prost::Message;

use crate::fixture::{NAMESPACE, SERVICE_ACCOUNT};

/// Returns the encoded node of a workload.
pub(crate) fn encoded() -> Bytes {
    let metadata = [
        ("CLUSTER_ID", "Kubernetes"),
        ("DNS_CAPTURE", "true"),
        ("ISTIO_VERSION", "1.31.0"),
        ("NAMESPACE", NAMESPACE),
        ("SERVICE_ACCOUNT", SERVICE_ACCOUNT),
    ];
    let fields = metadata
        .into_iter()
        .map(|(key, value)| (key.to_owned(), Value { string_value: Some(value.to_owned()) }));
    let metadata = Struct { fields: fields.collect() };
    let node = Node {
        id: format!("sidecar~192.0.2.7~web-1.{NAMESPACE}~{NAMESPACE}.svc.cluster.local"),
        cluster: format!("web.{NAMESPACE}"),
        metadata: metadata.encode_to_vec().into(),
        locality: Bytes::new(),
    };
    node.encode_to_vec().into()
}

/// `google.protobuf.Struct`.
#[derive(Clone, PartialEq, Eq, Message)]
struct Struct {
    #[prost(btree_map = "string, message", tag = "1")]
    fields: BTreeMap<String, Value>,
}

/// `google.protobuf.Value` with text.
#[derive(Clone, PartialEq, Eq, Message)]
struct Value {
    #[prost(string, optional, tag = "3")]
    string_value: Option<String>,
}
