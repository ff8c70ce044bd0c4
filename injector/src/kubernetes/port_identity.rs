//! Identity of a container port.

use serde::Deserialize;
use serde_json::Value;

use crate::json::short;

/// All fields of a `ContainerPort`, with the protocol that the API server writes if none is set.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PortIdentity {
    name: Value,
    container_port: Value,
    protocol: Value,
    host_port: Value,
    #[serde(rename = "hostIP")]
    host_ip: Value,
}

impl PortIdentity {
    /// Returns the identity of one entry of a container's `ports`.
    pub(crate) fn from_port(port: &Value) -> Self {
        Self {
            name: port["name"].clone(),
            container_port: port["containerPort"].clone(),
            protocol: port["protocol"].clone(),
            host_port: port["hostPort"].clone(),
            host_ip: port["hostIP"].clone(),
        }
        .with_default_protocol()
    }

    /// Parses the ports in the proxy's `ISTIO_META_POD_PORTS`. `None` if the text is not a list of
    /// ports, or longer than injection writes.
    pub(crate) fn parse_list(text: &str) -> Option<Vec<Self>> {
        let ports: Vec<Self> = short::parse(text)?;
        Some(ports.into_iter().map(Self::with_default_protocol).collect())
    }

    fn with_default_protocol(self) -> Self {
        if self.protocol.is_string() { self } else { Self { protocol: "TCP".into(), ..self } }
    }
}
