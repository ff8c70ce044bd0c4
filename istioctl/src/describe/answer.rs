//! Explanation of a packet by `istio-init`, with the setting and the annotation that cause it.

use injector::settings::annotations::key;
use istio_init::args::flags::Flag;
use istio_init::explain::{Explanation, Fate, explain};
use istio_init::plan::Origin;
use istio_init::render::explanation;
use istio_init::types::direction::Direction;
use istio_init::types::port::PortRange;
use serde_json::{Value, json};

use super::capture::Capture;
use super::packets::TypicalPacket;

/// Explanation of a typical packet.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) packet: TypicalPacket,
    pub(super) explanation: Explanation,
    /// Setting that decides; `None` if no rule matches.
    pub(super) origin: Option<Origin>,
    /// Annotation of the pod from which the setting comes.
    pub(super) annotation: Option<&'static str>,
}

impl Answer {
    /// Explains a packet by the plan of a capture.
    pub(super) fn new(capture: &Capture, pod: &Value, packet: TypicalPacket) -> Self {
        let explanation = explain(&capture.plan, &packet.packet);
        let origin = explanation.decided_by.map(|index| capture.plan.rules[index].origin);
        let annotations = &pod["metadata"]["annotations"];
        let port = packet.packet.destination.port();
        let annotation = origin.and_then(annotation_of).filter(|key| {
            let value = annotations[key].as_str();
            // Injection adds ports of its own to this list.
            value.is_some_and(|ports| *key != key::EXCLUDE_INBOUND_PORTS || has_port(ports, port))
        });
        Self { packet, explanation, origin, annotation }
    }

    /// Returns the result in a few words.
    pub(super) fn result(&self) -> String {
        let packet = &self.packet.packet;
        match self.explanation.fate {
            Fate::Captured(port) => format!("captured by the sidecar, port {port}"),
            Fate::Direct if packet.direction == Direction::In => "direct to the port".to_owned(),
            Fate::Direct if packet.interface == "lo" => "direct, inside the pod".to_owned(),
            Fate::Direct => "direct to its destination".to_owned(),
            Fate::Dropped => "dropped".to_owned(),
        }
    }

    /// Returns the setting that decides, and the annotation that gave it.
    pub(super) fn setting(&self) -> String {
        match (self.origin, self.annotation) {
            (None, _) => "no rule matches".to_owned(),
            (Some(origin), None) => origin.to_string(),
            (Some(origin), Some(key)) => format!("{origin}, annotation {key}"),
        }
    }

    /// Returns the explanation of `istio-init explain -o json`, and the command that prints it.
    pub(super) fn json(&self, capture: &Capture) -> Value {
        let packet = &self.packet.packet;
        let object = explanation::object(&capture.plan, packet, &self.explanation);
        json!({
            "title": self.packet.words,
            "result": self.result(),
            "setting": self.origin.map(|origin| origin.to_string()),
            "annotation": self.annotation,
            "command": self.command(capture),
            "explanation": serde_json::from_str(&object.to_string()).unwrap_or(Value::Null),
        })
    }

    /// Returns the words of the command that gives the same explanation in the pod.
    fn command(&self, capture: &Capture) -> Vec<String> {
        let packet = &self.packet.packet;
        let direction = if packet.direction == Direction::In { "in" } else { "out" };
        let args = match capture.command.args.split_first() {
            Some((first, rest)) if first == "istio-iptables" => rest,
            _ => &*capture.command.args,
        };
        let mut words = vec!["istio-init".to_owned(), "explain".to_owned()];
        words.extend(args.iter().cloned());
        let mut add = |flag: &str, value: String| words.push(format!("{flag}={value}"));
        add("--direction", direction.to_owned());
        add("--protocol", packet.protocol.to_string());
        add("--from", packet.source.to_string());
        add("--to", packet.destination.to_string());
        add("--interface", packet.interface.clone());
        if let Some(owner) = packet.owner {
            add("--uid", owner.uid.to_string());
            add("--gid", owner.gid.to_string());
        }
        words
    }
}

/// True if a list of ports has the port.
fn has_port(ports: &str, port: u16) -> bool {
    let mut ranges = ports.split(',').filter_map(|range| range.parse::<PortRange>().ok());
    ranges.any(|range| range.contains(port))
}

/// Returns the annotation that sets a flag.
fn annotation_of(origin: Origin) -> Option<&'static str> {
    let Origin::Flag(flag) = origin else { return None };
    Some(match flag {
        Flag::InboundPorts => key::INCLUDE_INBOUND_PORTS,
        Flag::LocalExcludePorts => key::EXCLUDE_INBOUND_PORTS,
        Flag::ServiceCidr => key::INCLUDE_OUTBOUND_IP_RANGES,
        Flag::ServiceExcludeCidr => key::EXCLUDE_OUTBOUND_IP_RANGES,
        Flag::OutboundPorts => key::INCLUDE_OUTBOUND_PORTS,
        Flag::LocalOutboundPortsExclude => key::EXCLUDE_OUTBOUND_PORTS,
        Flag::ExcludeInterfaces => key::EXCLUDE_INTERFACES,
        Flag::KubeVirtInterfaces => key::REROUTE_VIRTUAL_INTERFACES,
        Flag::InboundInterceptionMode => key::INTERCEPTION_MODE,
        _ => return None,
    })
}
