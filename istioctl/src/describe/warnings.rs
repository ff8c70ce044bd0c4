//! Warnings about a pod whose traffic does not go as its author may expect.

use istio_init::args::flags::Flag;
use istio_init::explain::Fate;
use istio_init::plan::Origin;
use istio_init::types::direction::Direction;
use serde_json::Value;

use super::answer::Answer;
use super::capture::Capture;
use super::ports::{ContainerPort, SelectingService, captured_protocol};

/// Returns the warnings, in the words of a list.
pub(super) fn warnings(
    pod: &Value,
    capture: Option<&Capture>,
    ports: &[ContainerPort],
    services: &[SelectingService],
    answers: &[Answer],
) -> Vec<String> {
    let mut warnings = Vec::new();
    for port in ports.iter().filter(|port| !port.is_of_proxy()) {
        let ContainerPort { number, container, transport, .. } = port;
        if captured_protocol(transport).is_none() {
            warnings.extend(capture.map(|_| {
                format!(
                    "container {container}: port {number} has protocol {transport}, which is not \
                     captured: its connections bypass the sidecar"
                )
            }));
            continue;
        }
        if let Some((_, owner)) = SIDECAR_PORTS.iter().find(|(reserved, _)| reserved == number) {
            warnings.push(format!(
                "container {container}: port {number} is the sidecar's ({owner}); choose another"
            ));
        }
        if capture.is_some() && is_excluded(answers, *number) {
            warnings.push(format!(
                "container {container}: port {number} is declared, but its inbound connections \
                 bypass the sidecar"
            ));
        }
    }
    for service in services {
        for port in service.ports.iter().filter(|port| port.target.is_none()) {
            warnings.push(format!(
                "Service {}: port {} leads to a port that no container names",
                service.name, port.number
            ));
        }
    }
    warnings.extend(capture.into_iter().flat_map(|capture| of_containers(pod, capture)));
    warnings
}

/// Warnings about the users and privileges of the application's containers.
fn of_containers(pod: &Value, capture: &Capture) -> Vec<String> {
    let mut warnings = Vec::new();
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    for container in containers.filter(|one| one["name"] != "istio-proxy") {
        let name = container["name"].as_str().unwrap_or_default();
        let (own, shared) = (&container["securityContext"], &pod["spec"]["securityContext"]);
        for (field, what) in [("runAsUser", "user"), ("runAsGroup", "group")] {
            let id = own[field].as_u64().or_else(|| shared[field].as_u64());
            let Some(id) = id.map(|id| id.to_string()) else { continue };
            let is_proxy = match what {
                "user" => capture.config.proxy_uids.iter().any(|uid| uid.to_string() == id),
                _ => capture.config.proxy_gids.iter().any(|gid| gid.to_string() == id),
            };
            if is_proxy {
                warnings.push(format!(
                    "container {name} runs as {what} {id}, which is the sidecar's, so its outbound \
                     traffic bypasses the sidecar"
                ));
            }
        }
        let added = own["capabilities"]["add"].as_array().into_iter().flatten();
        let mut added = added.filter_map(Value::as_str);
        let is_admin = added.any(|one| matches!(one, "NET_ADMIN" | "CAP_NET_ADMIN" | "ALL"));
        if own["privileged"] == true || is_admin {
            warnings.push(format!(
                "container {name}: may change the rules of the pod (privileged, or NET_ADMIN)"
            ));
        }
    }
    warnings
}

/// True if a setting takes the port out of capture.
fn is_excluded(answers: &[Answer], port: u16) -> bool {
    answers.iter().any(|answer| {
        let packet = &answer.packet.packet;
        packet.direction == Direction::In
            && packet.destination.port() == port
            && answer.explanation.fate == Fate::Direct
            && answer.origin == Some(Origin::Flag(Flag::LocalExcludePorts))
    })
}

/// Ports on which the sidecar listens, and their use.
const SIDECAR_PORTS: [(u16, &str); 9] = [
    (15_000, "Envoy's admin"),
    (15_001, "Envoy's outbound listener"),
    (15_004, "the agent's debug pages"),
    (15_006, "Envoy's inbound listener"),
    (15_008, "the tunnel listener"),
    (15_020, "the agent's probes and metrics"),
    (15_021, "health"),
    (15_053, "the DNS proxy"),
    (15_090, "Envoy's metrics"),
];
