//! Typical packets of a pod.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use istio_init::config::{Inbound, Outbound};
use istio_init::explain::{Owner, Packet};
use istio_init::types::direction::Direction;
use istio_init::types::family::Family;
use istio_init::types::owner::{Gid, Uid};
use istio_init::types::port::PortRange;
use istio_init::types::protocol::Protocol;
use serde_json::Value;

use super::capture::Capture;
use super::ports::{ContainerPort, SelectingService, captured_protocol};

/// A packet in words.
#[derive(Clone, Debug)]
pub(super) struct TypicalPacket {
    pub(super) words: String,
    pub(super) packet: Packet,
}

/// Returns the packets that a description explains, the inbound ones first.
pub(super) fn typical(
    capture: &Capture,
    pod: &Value,
    ports: &[ContainerPort],
    services: &[SelectingService],
) -> Vec<TypicalPacket> {
    let mut packets = Packets { capture, owner: application(pod), found: Vec::new() };
    packets.inbound(ports, services);
    packets.outbound();
    packets.found
}

/// Packets while they are collected.
struct Packets<'a> {
    capture: &'a Capture,
    /// Owner of the application's sockets.
    owner: Owner,
    found: Vec<TypicalPacket>,
}

impl Packets<'_> {
    fn inbound(&mut self, ports: &[ContainerPort], services: &[SelectingService]) {
        let mut known: Vec<(Protocol, u16, String)> = Vec::new();
        let mut add = |protocol, port, words: String| {
            let is_known = known.iter().any(|one| (one.0, one.1) == (protocol, port));
            if !is_known {
                known.push((protocol, port, words));
            }
        };
        for port in ports.iter().filter(|port| !port.is_of_proxy()) {
            let words = format!("container {}", port.container);
            if let Some(protocol) = captured_protocol(&port.transport) {
                add(protocol, port.number, words);
            }
        }
        for service in services {
            for port in &service.ports {
                let protocol = captured_protocol(&port.transport);
                if let Some((protocol, target)) = protocol.zip(port.target) {
                    let words = format!("Service {} port {}", service.name, port.number);
                    add(protocol, target, words);
                }
            }
        }
        if let Inbound::AllBut(excluded) = &self.capture.config.inbound {
            for range in excluded {
                let port = range.first();
                add(Protocol::Tcp, port, well_known(port).to_owned());
            }
        }
        add(Protocol::Tcp, self.capture.config.tunnel_port.get(), "tunnel (HBONE)".to_owned());
        let ranges = match &self.capture.config.inbound {
            Inbound::AllBut(ranges) | Inbound::Only(ranges) => ranges.as_slice(),
            Inbound::None => &[],
        };
        let is_named = |port: &u16| {
            known.iter().any(|one| one.1 == *port) || ranges.iter().any(|it| it.contains(*port))
        };
        let other = (OTHER_PORTS..=u16::MAX).find(|port| !is_named(port));
        for (protocol, port, words) in known {
            let to = format!("to port {port}");
            let words = if words.is_empty() { to } else { format!("{to}, {words}") };
            let words = format!("Inbound {} {words}", protocol.name().to_uppercase());
            let to = SocketAddr::new(self.pod(), port);
            self.add(words, (Direction::In, protocol, to, "eth0"), None);
        }
        if let Some(port) = other {
            let to = SocketAddr::new(self.pod(), port);
            let words = "Inbound TCP to any other port".to_owned();
            self.add(words, (Direction::In, Protocol::Tcp, to, "eth0"), None);
        }
    }

    fn outbound(&mut self) {
        let application = Some(self.owner);
        let (outside, own, loopback) = (self.outside(), self.pod(), self.loopback());
        let out = |protocol, address, port: u16, interface: &'static str| {
            (Direction::Out, protocol, SocketAddr::new(address, port), interface)
        };
        let (tcp, udp) = (Protocol::Tcp, Protocol::Udp);
        let typical = |port| out(tcp, outside, port, "eth0");
        let (config, family) = (&self.capture.config, self.family());
        let excluded = config.excluded_outbound_ports.iter();
        let named: Vec<PortRange> = excluded.chain(&config.outbound_ports).copied().collect();
        let is_named = |port: u16| named.iter().any(|range| range.contains(port));
        let port = [443, 80, 8443].into_iter().find(|port| !is_named(*port)).unwrap_or(9999);
        self.add("Outbound TCP to another address".to_owned(), typical(port), application);
        for range in &config.excluded_ranges {
            if range.family() == family {
                let to = out(tcp, range.ends().1, port, "eth0");
                self.add(format!("Outbound TCP to {range}"), to, application);
            }
        }
        if let Outbound::Only(ranges) = &config.outbound {
            for range in ranges.iter().filter(|range| range.family() == family) {
                let to = out(tcp, range.ends().1, port, "eth0");
                self.add(format!("Outbound TCP to {range}"), to, application);
            }
        }
        for ports in &named {
            self.add(format!("Outbound TCP to port {ports}"), typical(ports.first()), application);
        }
        let (server, dns) = (self.capture.name_server, "Outbound DNS query");
        if Family::from_address(server) == self.family() {
            self.add(format!("{dns} to {server}"), out(udp, server, 53, "eth0"), application);
        }
        let to = out(udp, outside, 443, "eth0");
        self.add("Outbound UDP to another address".to_owned(), to, application);
        let to = out(tcp, loopback, 8080, "lo");
        self.add("From the application to localhost".to_owned(), to, application);
        let to = out(tcp, own, 8080, "lo");
        self.add("From the application to its own pod".to_owned(), to, application);
        let proxy = self.proxy();
        self.add("From the sidecar to another address".to_owned(), typical(port), proxy);
        self.add(
            "From the sidecar to the application".to_owned(),
            out(tcp, loopback, 8080, "lo"),
            proxy,
        );
    }

    fn add(
        &mut self,
        words: String,
        (direction, protocol, destination, interface): (Direction, Protocol, SocketAddr, &str),
        owner: Option<Owner>,
    ) {
        if self.found.iter().any(|known| known.words == words) {
            return;
        }
        let anywhere = match self.family() {
            Family::V4 => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
        };
        let packet = Packet {
            direction,
            protocol,
            source: SocketAddr::new(anywhere, 0),
            destination,
            interface: interface.to_owned(),
            owner,
            mark: 0,
        };
        self.found.push(TypicalPacket { words, packet });
    }

    /// The family of the pod's first address.
    fn family(&self) -> Family {
        Family::from_address(self.pod())
    }

    fn pod(&self) -> IpAddr {
        self.capture.addresses[0]
    }

    /// An address that no setting names.
    fn outside(&self) -> IpAddr {
        match self.family() {
            Family::V4 => Ipv4Addr::new(203, 0, 113, 7).into(),
            Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7).into(),
        }
    }

    fn loopback(&self) -> IpAddr {
        match self.family() {
            Family::V4 => Ipv4Addr::LOCALHOST.into(),
            Family::V6 => Ipv6Addr::LOCALHOST.into(),
        }
    }

    fn proxy(&self) -> Option<Owner> {
        let config = &self.capture.config;
        Some(Owner { uid: *config.proxy_uids.first()?, gid: *config.proxy_gids.first()? })
    }
}

/// Returns user and group of the first container that is not the proxy; root if none is set.
fn application(pod: &Value) -> Owner {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let application = containers.into_iter().find(|one| one["name"] != "istio-proxy");
    let id = |field: &str| {
        let own = application.and_then(|one| one["securityContext"][field].as_u64());
        let id = own.or_else(|| pod["spec"]["securityContext"][field].as_u64());
        id.unwrap_or_default().to_string()
    };
    Owner {
        uid: id("runAsUser").parse().unwrap_or(Uid::ROOT),
        gid: id("runAsGroup").parse().unwrap_or(Gid::ROOT),
    }
}

/// First port that stands for all that nothing names.
const OTHER_PORTS: u16 = 30_000;

/// Returns the use of a port of the sidecar.
fn well_known(port: u16) -> &'static str {
    match port {
        15_020 => "probes and merged metrics",
        15_021 => "health of the sidecar",
        15_090 => "metrics of Envoy",
        _ => "",
    }
}
