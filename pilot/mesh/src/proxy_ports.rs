//! Ports of the proxy in a pod, which an application's metrics cannot have.

/// Returns what uses a fixed port of the proxy; `None` for any other port.
pub fn owner(port: u16) -> Option<&'static str> {
    PORTS.iter().find(|(fixed, _)| *fixed == port).map(|(_, owner)| *owner)
}

const PORTS: [(u16, &str); 9] = [
    (15000, "Envoy's administration"),
    (15001, "outbound capture"),
    (15004, "debugging of the control plane"),
    (15006, "inbound capture"),
    (15008, "HBONE"),
    (15020, "merged metrics"),
    (15021, "health checks"),
    (15053, "DNS capture"),
    (15090, "Envoy's own metrics"),
];
