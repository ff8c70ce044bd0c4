//! Ports of a pod's containers, and of the Services that select it.

use istio_init::types::protocol::Protocol;
use serde_json::Value;

use injector::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS, PROXY};

/// Port of a container.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct ContainerPort {
    pub(super) number: u16,
    pub(super) name: String,
    pub(super) container: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub(super) transport: String,
}

/// Service that selects a pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct SelectingService {
    pub(super) name: String,
    pub(super) ports: Vec<SelectedPort>,
}

/// Port of a Service, with the port of the pod that it leads to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct SelectedPort {
    pub(super) name: String,
    pub(super) number: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub(super) transport: String,
    /// `appProtocol`, or the protocol that the name begins with; empty without both.
    pub(super) protocol: String,
    /// `None` if no container has a port of that name.
    pub(super) target: Option<u16>,
}

impl ContainerPort {
    /// Returns the declared ports of all containers, those of the proxy included.
    pub(super) fn of_pod(pod: &Value) -> Vec<Self> {
        let mut ports = Vec::new();
        for list in [INIT_CONTAINERS, CONTAINERS] {
            for container in pod["spec"][list].as_array().into_iter().flatten() {
                for port in container["ports"].as_array().into_iter().flatten() {
                    let Some(number) = number(&port["containerPort"]) else { continue };
                    ports.push(Self {
                        number,
                        name: text(&port["name"]),
                        container: text(&container["name"]),
                        transport: transport(port),
                    });
                }
            }
        }
        ports
    }

    /// True if the port is the proxy's.
    pub(super) fn is_of_proxy(&self) -> bool {
        self.container == PROXY
    }
}

impl SelectingService {
    /// Returns the Services of the pod's namespace that select it.
    pub(super) fn of_pod<'a>(
        services: impl Iterator<Item = &'a Value>,
        labels: &Value,
        ports: &[ContainerPort],
    ) -> Vec<Self> {
        let selects = |service: &&Value| {
            let selector = service["spec"]["selector"].as_object();
            selector.is_some_and(|selector| {
                !selector.is_empty() && selector.iter().all(|(key, value)| labels[key] == *value)
            })
        };
        let mut selecting: Vec<Self> =
            services.filter(selects).map(|service| Self::new(service, ports)).collect();
        selecting.sort_by(|one, other| one.name.cmp(&other.name));
        selecting
    }

    fn new(service: &Value, containers: &[ContainerPort]) -> Self {
        let ports = service["spec"]["ports"].as_array().into_iter().flatten();
        let ports = ports.filter_map(|port| SelectedPort::new(port, containers)).collect();
        Self { name: text(&service["metadata"]["name"]), ports }
    }
}

impl SelectedPort {
    fn new(port: &Value, containers: &[ContainerPort]) -> Option<Self> {
        let name = text(&port["name"]);
        let number_of_port = number(&port["port"])?;
        let transport = transport(port);
        let target = match &port["targetPort"] {
            Value::Null => Some(number_of_port),
            Value::String(name) => {
                let named = |one: &&ContainerPort| one.name == *name && one.transport == transport;
                containers.iter().find(named).map(|one| one.number)
            }
            target => number(target),
        };
        let prefix = name.split('-').next().filter(|prefix| PROTOCOLS.contains(prefix));
        let protocol = port["appProtocol"].as_str().or(prefix).unwrap_or_default().to_owned();
        Some(Self { name, number: number_of_port, transport, protocol, target })
    }
}

/// Returns the transport protocol of a port, which is TCP without one.
fn transport(port: &Value) -> String {
    port["protocol"].as_str().unwrap_or("TCP").to_owned()
}

/// Returns the protocol of packets that the capture can decide about; `None` for SCTP.
pub(super) fn captured_protocol(transport: &str) -> Option<Protocol> {
    match transport {
        "TCP" => Some(Protocol::Tcp),
        "UDP" => Some(Protocol::Udp),
        _ => None,
    }
}

fn number(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|number| u16::try_from(number).ok())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Protocols that names of ports begin with.
const PROTOCOLS: [&str; 9] =
    ["grpc", "http", "http2", "https", "mongo", "mysql", "redis", "tcp", "tls"];
