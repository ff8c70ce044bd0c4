//! Capture of a pod as a picture: a model for people, which SVG and Mermaid draw.
//!
//! [`explain`] decides each lane of the model, so that a picture cannot contradict it.

mod lane;
#[cfg(test)]
mod reference;
mod sample;

pub(crate) use lane::MORE;
use lane::{INTERFACES, OTHER_PACKETS, TO};
pub use lane::{Lane, LanePath, Values};

use crate::args::flags::Flag;
use crate::explain::{Explanation, Fate, Packet, explain};
use crate::plan::{Chain, ConnectionState, Field, Origin, Plan};
use crate::render::iptables::families;
use crate::types::direction::Direction;
use crate::types::family::Family;
use crate::types::protocol::Protocol;

/// Paths of packets through a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Address families that are captured.
    pub families: Vec<Family>,
    /// True if inbound connections keep the client's address (TPROXY).
    pub keeps_addresses: bool,
    /// Users and groups of the proxy, whose packets are not captured.
    pub proxy: Vec<Values>,
    /// Lanes from top to bottom.
    pub lanes: Vec<Lane>,
}

/// Makes the picture of a plan.
pub fn picture(plan: &Plan) -> Picture {
    let mut picture = Picture {
        families: families(plan),
        keeps_addresses: plan.tproxy_routing.is_some(),
        proxy: Vec::new(),
        lanes: Vec::new(),
    };
    for direction in [Direction::In, Direction::Out] {
        for index in 0..plan.rules.len() {
            let ordinary = |family: &Family| sample::ordinary(plan, direction, *family);
            let (captured, others): (Vec<Family>, Vec<Family>) =
                FAMILIES.iter().partition(|family| picture.families.contains(family));
            let mut is_rest = true;
            for packet in captured.iter().map(ordinary) {
                is_rest &= !picture.add_rule(plan, &packet, index, false);
            }
            let mut is_added = !is_rest;
            for packet in others.iter().map(ordinary) {
                is_added |= picture.add_rule(plan, &packet, index, is_rest);
            }
            // A rule for every protocol may decide about UDP alone, after others about TCP.
            if !is_added {
                for packet in FAMILIES.iter().map(ordinary) {
                    let packet = Packet { protocol: Protocol::Udp, ..packet };
                    picture.add_rule(plan, &packet, index, true);
                }
            }
        }
        picture.add_rest(plan, direction);
    }
    picture.add_own_pod(plan);
    picture.add_invalid(plan);
    picture.name_protocols();
    picture
}

impl Picture {
    /// True if the proxy gets packets.
    pub fn is_capturing(&self) -> bool {
        self.lanes.iter().any(|lane| lane.path.port().is_some())
    }

    /// Returns a title.
    pub fn title(&self) -> String {
        let families: Vec<String> = self.families.iter().map(ToString::to_string).collect();
        let mode = if self.keeps_addresses { ", TPROXY)" } else { ", REDIRECT)" };
        ["Traffic of a pod with a sidecar (", &families.join(" and "), mode].concat()
    }

    /// Returns the owners of the proxy's packets, `as user 1337, group 1337`, on lines of at most
    /// about `most` characters.
    pub fn proxy_words(&self, most: usize) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for values in &self.proxy {
            let mut words = String::new();
            values.write(&mut words, most - " and 1000 more".len());
            match lines.last_mut() {
                Some(line) if line.len() + words.len() < most => {
                    line.push_str(&[", ", &words].concat());
                }
                Some(_) => lines.push(words),
                None => lines.push(["as ", &words].concat()),
            }
        }
        lines
    }

    /// Adds the packets that a rule decides. False if it decides none that are like `ordinary`.
    /// `is_rest` is true if other rules decide about TCP of the captured families.
    fn add_rule(&mut self, plan: &Plan, ordinary: &Packet, index: usize, is_rest: bool) -> bool {
        let rule = &plan.rules[index];
        let decided: Vec<_> = sample::matching(ordinary, plan, rule)
            .into_iter()
            .filter_map(|(packet, places)| {
                let Explanation { decided_by, fate, .. } = explain(plan, &packet);
                (decided_by == Some(index)).then_some((fate, places))
            })
            .collect();
        let Some((fate, _)) = decided.first() else { return false };
        let is_dns = rule.chain == Chain::Dns;
        let mut packets = Vec::new();
        for (number, condition) in rule.matches.iter().enumerate() {
            let Some(mut values) = Values::new(condition, is_dns) else { continue };
            if values.noun == INTERFACES && is_rest {
                values.noun = OTHER_PACKETS;
            }
            if !condition.negated {
                let mut place = 0..;
                values.values.retain(|_| {
                    let place = place.next();
                    decided.iter().any(|(_, places)| places.get(number).copied() == place)
                });
            }
            packets.push(values);
        }
        let is_out = ordinary.direction == Direction::Out;
        match (rule.origin, *fate) {
            (Origin::Flag(Flag::ProxyUid | Flag::ProxyGid), Fate::Direct) if is_out => {
                for values in packets {
                    if !self.proxy.contains(&values) {
                        self.proxy.push(values);
                    }
                }
            }
            // Calls within the pod have a lane of their own. Those of the proxy are left out.
            (Origin::Loopback | Origin::Flag(Flag::ProxyUid | Flag::ProxyGid), _) => {}
            (origin, fate) => {
                let is_out = is_out || is_of_virtual_interface(origin);
                let path = LanePath::new(is_out, fate, is_dns);
                let mut lane = Lane { path, packets, origins: vec![origin] };
                let own = lane.take_listeners();
                let is_whole = own.is_some() && lane.packets[0].values.is_empty();
                if let Some(own) = own {
                    self.add(own);
                }
                if !is_whole {
                    self.add(lane);
                }
            }
        }
        true
    }

    /// Adds the packets that no rule decides.
    fn add_rest(&mut self, plan: &Plan, direction: Direction) {
        let undecided = |family, protocol| {
            let packet = Packet { protocol, ..sample::ordinary(plan, direction, family) };
            explain(plan, &packet).decided_by.is_none()
        };
        let is_captured = |family: &Family| self.families.contains(family);
        let is_decided =
            |family: &Family| is_captured(family) && !undecided(*family, Protocol::Tcp);
        let mut nouns = Vec::new();
        if FAMILIES.iter().any(is_decided) {
            if undecided(self.families[0], Protocol::Udp) {
                let has_dns = self.lanes.iter().any(|lane| matches!(lane.path, LanePath::Dns(_)));
                nouns.push(if has_dns { "other UDP" } else { "UDP" });
            }
            let names = [["other TCP over IPv4", "IPv4"], ["other TCP over IPv6", "IPv6"]];
            for (family, [tcp, all]) in FAMILIES.into_iter().zip(names) {
                if undecided(family, Protocol::Tcp) {
                    nouns.push(if is_captured(&family) { tcp } else { all });
                }
            }
        } else {
            nouns.push("");
        }
        let path = LanePath::new(direction == Direction::Out, Fate::Direct, false);
        let is_only = !self.lanes.iter().any(|lane| lane.path.is_inbound() == path.is_inbound());
        for noun in nouns {
            let noun = if noun.is_empty() && is_only { "everything" } else { noun };
            let packets = Vec::from([Values { noun, values: Vec::new() }]);
            let packets = if noun.is_empty() { Vec::new() } else { packets };
            self.add(Lane { path, packets, origins: Vec::new() });
        }
    }

    /// Adds the application's calls to its own pod.
    fn add_own_pod(&mut self, plan: &Plan) {
        for family in &self.families {
            let ordinary = sample::ordinary(plan, Direction::Out, *family);
            let packet = Packet { interface: "lo".to_owned(), ..ordinary };
            if explain(plan, &packet).fate == Fate::Direct {
                let path = LanePath::Loopback;
                self.add(Lane { path, packets: Vec::new(), origins: Vec::new() });
                return;
            }
        }
    }

    /// Adds packets of no connection. They are never first packets, so no explanation is of them.
    fn add_invalid(&mut self, plan: &Plan) {
        let invalid = Field::Connection(ConnectionState::Invalid);
        let drops = plan
            .rules
            .iter()
            .find(|rule| rule.matches.iter().any(|condition| condition.field == invalid));
        if let Some(rule) = drops {
            let noun = "packets of no known connection";
            self.add(Lane {
                path: LanePath::Dropped,
                packets: Vec::from([Values { noun, values: Vec::new() }]),
                origins: vec![rule.origin],
            });
        }
    }

    /// Adds the protocol to the names of lanes: apart from DNS, the proxy gets TCP.
    fn name_protocols(&mut self) {
        let mut of_captured = Vec::new();
        for lane in &mut self.lanes {
            if let LanePath::InboundCaptured(_) | LanePath::OutboundCaptured(_) = lane.path {
                let is_of_interface = lane.packets.iter().any(|it| it.noun == INTERFACES);
                for values in &mut lane.packets {
                    match values.noun {
                        "" if is_of_interface => values.noun = TO,
                        "" => values.noun = "TCP to",
                        INTERFACES => {
                            values.noun = "TCP of interfaces";
                            of_captured.extend(values.values.clone());
                        }
                        _ => {}
                    }
                }
            }
        }
        for lane in &mut self.lanes {
            if let [values] = &mut *lane.packets
                && values.noun == INTERFACES
                && values.values.iter().all(|it| of_captured.contains(it))
            {
                values.noun = OTHER_PACKETS;
            }
        }
    }

    /// Adds a lane, or its values to a lane of the same kind.
    fn add(&mut self, lane: Lane) {
        for other in &mut self.lanes {
            if other.merge(&lane) {
                return;
            }
        }
        let next = self.lanes.iter().position(|other| other.path > lane.path);
        self.lanes.insert(next.unwrap_or(self.lanes.len()), lane);
    }
}

/// True if a rule with this origin is about outbound traffic. If it decides about a packet that
/// arrives, the packet is from a virtual interface.
fn is_of_virtual_interface(origin: Origin) -> bool {
    let flags = [
        Flag::KubeVirtInterfaces,
        Flag::LocalOutboundPortsExclude,
        Flag::ServiceExcludeCidr,
        Flag::OutboundPorts,
    ];
    flags.iter().any(|flag| origin == Origin::Flag(*flag))
}

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];
