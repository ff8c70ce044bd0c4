//! Packets that take one path.

use crate::args::flags::Flag;
use crate::explain::Fate;
use crate::plan::{AnyOf, Field, Match, Origin};
use crate::types::port::Port;
use crate::types::protocol::Protocol;

/// Packets that take one path, and the settings that cause it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The path.
    pub path: LanePath,
    /// Properties that all its packets have; empty for all packets that no other lane has.
    pub packets: Vec<Values>,
    /// Settings that cause the path; empty for packets that no rule matches.
    pub origins: Vec<Origin>,
}

/// Path through a pod, in the order of a picture from top to bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LanePath {
    /// From the network to its destination in the pod.
    InboundBypass,
    /// Nowhere.
    Dropped,
    /// From the network to a port of the proxy itself, such as that of its metrics.
    InboundListener,
    /// From the network to this port of the proxy, and on to the application.
    InboundCaptured(Port),
    /// From the application to this port of the proxy, and on to the network.
    OutboundCaptured(Port),
    /// From the application to the DNS proxy on this port.
    Dns(Port),
    /// From the application to the pod itself.
    Loopback,
    /// From the application to the network.
    OutboundBypass,
}

/// Values of a property of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    /// The property as a plural: `ports`; empty for addresses.
    pub noun: &'static str,
    /// Its values; empty if the noun says all.
    pub values: Vec<String>,
}

impl Lane {
    /// Returns the words for the packets, with lists cut to about `most` characters.
    pub fn words(&self, most: usize) -> String {
        let mut words = String::new();
        for values in &self.packets {
            if !words.is_empty() {
                words.push_str(if values.noun == TO { " " } else { ", " });
            }
            values.write(&mut words, most / self.packets.len().max(1));
        }
        if !words.is_empty() {
            return words;
        }
        let all = match self.path {
            LanePath::Loopback => "to itself",
            LanePath::Dns(_) => "DNS to every server",
            path if path.port().is_some() => "all other TCP",
            _ => "everything else",
        };
        all.to_owned()
    }

    /// Returns the names of the settings; empty for packets that no rule matches.
    pub fn settings(&self) -> String {
        let names: Vec<String> = self.origins.iter().map(ToString::to_string).collect();
        names.join(", ")
    }

    /// Returns the lane as a sentence.
    pub fn sentence(&self) -> String {
        let direction = if self.path.is_inbound() { "Inbound, " } else { "Outbound, " };
        let path = match self.path {
            LanePath::Dropped => ": dropped".to_owned(),
            LanePath::InboundListener => ": to the sidecar itself".to_owned(),
            path => match path.port() {
                Some(port) => [": to port ", &port.to_string(), " of the sidecar"].concat(),
                None => ": past the sidecar".to_owned(),
            },
        };
        let settings = self.settings();
        let because = if settings.is_empty() { "" } else { ", because of " };
        [direction, &self.words(usize::MAX), &path, because, &settings, "."].concat()
    }

    /// Takes out the packets to ports of the proxy itself, as a lane of their own.
    pub(super) fn take_listeners(&mut self) -> Option<Self> {
        let [packets] = &mut *self.packets else { return None };
        if self.path != LanePath::InboundBypass || packets.noun != TCP_PORTS {
            return None;
        }
        let is_tunnel = self.origins == [Origin::Flag(Flag::InboundTunnelPort)];
        let is_listener = |port: &mut String| is_tunnel || LISTENERS.contains(&&**port);
        let values: Vec<String> = packets.values.extract_if(.., is_listener).collect();
        let own = Values { noun: TCP_PORTS, values };
        let origins = self.origins.clone();
        let path = LanePath::InboundListener;
        (!own.values.is_empty()).then(|| Self { path, packets: Vec::from([own]), origins })
    }

    /// Takes the packets of another lane if they differ in one list of values only.
    pub(super) fn merge(&mut self, other: &Self) -> bool {
        if self.path != other.path {
            return false;
        }
        let ports = |packets: &[Values]| matches!(packets, [one] if one.noun.ends_with(PORTS));
        let is_open = matches!(self.path, LanePath::InboundBypass | LanePath::InboundListener)
            && ports(&self.packets);
        let merged = if self.packets == other.packets {
            true
        } else if let ([mine], [its]) = (&mut *self.packets, &*other.packets)
            && mine.values.is_empty() == its.values.is_empty()
            && (self.origins == other.origins || is_open && ports(&other.packets))
        {
            if mine.noun != its.noun && mine.values == its.values && mine.noun.ends_with(PORTS) {
                // TCP and UDP.
                mine.noun = PORTS;
            } else if mine.noun != its.noun || mine.values.is_empty() {
                return false;
            }
            for value in &its.values {
                if mine.values.contains(value) {
                    continue;
                }
                let is_later = |other: &String| first_port(other) > first_port(value);
                let next = mine.values.iter().position(is_later);
                let next = next.filter(|_| mine.noun.ends_with(PORTS));
                mine.values.insert(next.unwrap_or(mine.values.len()), value.clone());
            }
            true
        } else {
            false
        };
        if merged {
            for origin in &other.origins {
                if !self.origins.contains(origin) {
                    self.origins.push(*origin);
                }
            }
        }
        merged
    }
}

impl LanePath {
    pub(super) fn new(is_out: bool, fate: Fate, is_dns: bool) -> Self {
        match fate {
            Fate::Dropped => Self::Dropped,
            Fate::Captured(port) if is_dns => Self::Dns(port),
            Fate::Captured(port) if is_out => Self::OutboundCaptured(port),
            Fate::Captured(port) => Self::InboundCaptured(port),
            Fate::Direct if is_out => Self::OutboundBypass,
            Fate::Direct => Self::InboundBypass,
        }
    }

    /// Returns the proxy's port on the path, if there is one.
    pub fn port(self) -> Option<Port> {
        match self {
            Self::InboundCaptured(port) | Self::OutboundCaptured(port) | Self::Dns(port) => {
                Some(port)
            }
            _ => None,
        }
    }

    /// True if the packets come from the network.
    pub fn is_inbound(self) -> bool {
        matches!(
            self,
            Self::InboundBypass | Self::Dropped | Self::InboundListener | Self::InboundCaptured(_)
        )
    }

    /// True if the proxy gets the packets.
    pub fn is_to_proxy(self) -> bool {
        self.port().is_some() || self == Self::InboundListener
    }
}

impl Values {
    /// Returns the values of a condition; `None` if they are of no interest to a reader.
    pub(super) fn new(condition: &Match, is_dns: bool) -> Option<Self> {
        let (noun, values) = match &condition.field {
            Field::DestinationPort(..) if is_dns => return None,
            Field::DestinationPort(Protocol::Tcp, ports) => (TCP_PORTS, texts(ports)),
            Field::DestinationPort(Protocol::Udp, ports) => ("UDP ports", texts(ports)),
            Field::Destination(ranges) if is_dns => ("DNS to", texts(ranges)),
            Field::Destination(ranges) => ("", texts(ranges)),
            Field::InInterface(name) | Field::OutInterface(name) => {
                (INTERFACES, Vec::from([name.to_string()]))
            }
            Field::OwnerUid(users) => ("users", texts(users)),
            Field::OwnerGid(groups) if condition.negated => ("groups except", texts(groups)),
            Field::OwnerGid(groups) => ("groups", texts(groups)),
            _ => return None,
        };
        (!condition.negated || noun == "groups except").then_some(Self { noun, values })
    }

    /// Appends the words; as many values as fit into `most` characters, or all if they need no more
    /// room than ` and 1 more` takes.
    pub fn write(&self, words: &mut String, most: usize) {
        // An interface may have a hyphen in its name.
        let several = if self.noun.ends_with(INTERFACES) { '+' } else { '-' };
        let noun = match (self.noun.strip_suffix('s'), &*self.values) {
            (Some(one), [value]) if !value.contains(several) => one,
            _ => self.noun,
        };
        words.push_str(noun);
        let start = words.len() - noun.len();
        for (index, value) in self.values.iter().enumerate() {
            let rest: usize = self.values[index..].iter().map(|it| ", ".len() + it.len()).sum();
            let is_too_long = words.len() - start + rest > most.saturating_add(MORE);
            if index > 0 && is_too_long && words.len() - start + ", ".len() + value.len() > most {
                if words.len() - start > most {
                    while words.len() > start + most {
                        words.pop();
                    }
                    words.push('…');
                }
                let more = (self.values.len() - index).to_string();
                words.push_str(&[" and ", &more, " more"].concat());
                return;
            }
            if index > 0 {
                words.push_str(", ");
            } else if !noun.is_empty() {
                words.push(' ');
            }
            words.push_str(value);
        }
    }
}

fn first_port(ports: &str) -> Option<u16> {
    ports.split('-').next()?.parse().ok()
}

fn texts<T: std::fmt::Display>(values: &AnyOf<T>) -> Vec<String> {
    values.values().iter().map(ToString::to_string).collect()
}

const PORTS: &str = "ports";
const TCP_PORTS: &str = "TCP ports";
/// Ports on which the proxy and its agent answer themselves: probes and metrics, health, metrics of
/// Envoy.
const LISTENERS: [&str; 3] = ["15020", "15021", "15090"];
/// Characters of ` and 1 more`, and of ` and 10 more`.
pub(crate) const MORE: usize = 12;
pub(super) const INTERFACES: &str = "interfaces";
/// Noun of addresses after an interface.
pub(super) const TO: &str = "to";
pub(super) const OTHER_PACKETS: &str = "other packets of interfaces";
