//! Validated configuration from flags, environment and pod. All validation is here.

mod families;
mod fields;
pub mod host_evidence;
mod ineffective;
mod list;
mod name_servers;
mod reader;
mod users;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;

use crate::args::Args;
use crate::args::flags::Flag;
use crate::config::host_evidence::HostEvidence;
use crate::types::cidr::Cidr;
use crate::types::family::Family;
use crate::types::input_error::InputError;
use crate::types::interface::InterfaceName;
use crate::types::mark::{Mark, RoutingTable};
use crate::types::owner::{Accounts, Gid, Uid, UidRange};
use crate::types::port::{Port, PortRange};
use crate::types::protocol::Protocol;

/// Validated configuration of capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Outbound connections are redirected here.
    pub outbound_port: Port,
    /// Inbound connections are redirected here.
    pub inbound_port: Port,
    /// The tunnel listener: never captured inbound.
    pub tunnel_port: Port,
    /// Users whose traffic is the proxy's own; never empty.
    pub proxy_uids: Vec<Uid>,
    /// Groups whose traffic is the proxy's own; never empty.
    pub proxy_gids: Vec<Gid>,
    /// Inbound connections to capture.
    pub inbound: Inbound,
    /// Interception mode of inbound connections.
    pub interception: Interception,
    /// Destination ranges to capture.
    pub outbound: Outbound,
    /// Destination ranges that are not captured.
    pub excluded_ranges: Vec<Cidr>,
    /// Destination ports to capture at any address.
    pub outbound_ports: Vec<PortRange>,
    /// Destination ports that are not captured.
    pub excluded_outbound_ports: Vec<PortRange>,
    /// Interfaces that bypass capture.
    pub excluded_interfaces: Vec<InterfaceName>,
    /// Interfaces whose arriving traffic counts as outbound.
    pub virtual_interfaces: Vec<InterfaceName>,
    /// Users whose outbound traffic is not captured.
    pub excluded_users: Vec<ExcludedUsers>,
    /// Groups whose outbound traffic is captured.
    pub owner_groups: OwnerGroups,
    /// Name servers whose queries are captured; `None` without DNS capture.
    pub dns: Option<NameServers>,
    /// True if packets that belong to no connection are dropped.
    pub drop_invalid: bool,
    /// The IPv4 range that is this pod's loopback.
    pub loopback_v4: Cidr,
    /// True if IPv4 is captured.
    pub ipv4: bool,
    /// True if IPv6 is captured.
    pub ipv6: bool,
}

/// Inbound connections to capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inbound {
    /// No connection.
    None,
    /// All connections except those to these ports.
    AllBut(Vec<PortRange>),
    /// Connections to these ports.
    Only(Vec<PortRange>),
}

/// Interception mode of inbound connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interception {
    /// REDIRECT: the destination is rewritten to the inbound listener.
    Redirect,
    /// TPROXY: the inbound listener receives connections with their original addresses.
    Tproxy {
        /// Mark of packets that are delivered to this pod.
        mark: Mark,
        /// Routing table for marked packets.
        table: RoutingTable,
    },
}

/// Users whose outbound traffic is not captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExcludedUsers {
    /// Protocols; all if empty.
    pub protocols: Vec<Protocol>,
    /// Destination ports; all if empty.
    pub ports: Vec<PortRange>,
    /// The users; never empty.
    pub users: Vec<UidRange>,
}

/// Name servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameServers {
    /// All name servers.
    All,
    /// The servers in `/etc/resolv.conf`.
    Only(Vec<IpAddr>),
}

/// Destination ranges to capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outbound {
    /// No destination.
    None,
    /// All destinations.
    All,
    /// These ranges.
    Only(Vec<Cidr>),
}

/// Groups whose outbound traffic is captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerGroups {
    /// All groups except these.
    AllBut(Vec<Gid>),
    /// These groups; an empty list captures no group.
    Only(Vec<Gid>),
}

/// Properties of the pod that the configuration depends on.
#[derive(Clone, Debug)]
pub struct PodEnvironment {
    /// All addresses of all interfaces, in the kernel's order.
    pub addresses: Vec<IpAddr>,
    /// Users and groups of the image.
    pub accounts: Accounts,
    /// Content of `/etc/resolv.conf`, or the error of reading it.
    pub resolv_conf: Result<String, String>,
    /// Evidence of a node's network namespace, or the error of reading it.
    pub host: Result<HostEvidence, String>,
}

impl Default for PodEnvironment {
    /// Returns a pod without addresses, accounts and name servers.
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            accounts: Accounts::default(),
            resolv_conf: Ok(String::new()),
            host: Ok(HostEvidence::default()),
        }
    }
}

/// All errors of a configuration.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("{}", .0.iter().map(InputError::to_string).collect::<Vec<_>>().join("\n"))]
pub struct InvalidConfig(pub Vec<InputError>);

impl Config {
    /// Validates a configuration. Also returns warnings.
    pub fn read(args: &Args, pod: &PodEnvironment) -> Result<(Self, Vec<String>), InvalidConfig> {
        fields::read(args, pod)
    }

    /// Returns the captured address families. As in Istio, IPv4 is one by default.
    pub fn families(&self) -> &'static [Family] {
        match (self.ipv4, self.ipv6) {
            (true, true) => &[Family::V4, Family::V6],
            (true, false) => &[Family::V4],
            (false, true) => &[Family::V6],
            (false, false) => &[],
        }
    }

    /// This pod's loopback, one range per captured family.
    pub fn loopbacks(&self) -> Vec<Cidr> {
        self.per_family(self.loopback_v4, Cidr::host(Ipv6Addr::LOCALHOST.into()))
    }

    /// Returns the addresses that the proxy calls the application from, one per captured family.
    pub fn passthrough_sources(&self) -> Vec<Cidr> {
        self.per_family(Cidr::host(PASSTHROUGH_V4.into()), Cidr::host(PASSTHROUGH_V6.into()))
    }

    fn per_family(&self, v4: Cidr, v6: Cidr) -> Vec<Cidr> {
        let both = [v4, v6].into_iter();
        both.filter(|cidr| self.families().contains(&cidr.family())).collect()
    }

    /// Istio accepts this; its proxy cannot listen twice on one port.
    fn warn_of_one_listener(&self, warnings: &mut Vec<String>) {
        let Self { outbound_port, inbound_port, .. } = self;
        if outbound_port == inbound_port && self.inbound != Inbound::None {
            warnings.push(format!(
                "{} and {}: both are {inbound_port}: the listener cannot distinguish inbound \
                 from outbound connections",
                Flag::EnvoyPort,
                Flag::InboundCapturePort
            ));
        }
    }

    fn warn_of_unused_ranges(&self, warnings: &mut Vec<String>) {
        let included = if let Outbound::Only(ranges) = &self.outbound { &**ranges } else { &[] };
        for family in [Family::V4, Family::V6] {
            if self.families().contains(&family) {
                continue;
            }
            for (flag, ranges) in
                [(Flag::ServiceCidr, included), (Flag::ServiceExcludeCidr, &self.excluded_ranges)]
            {
                if ranges.iter().any(|range| range.family() == family) {
                    warnings.push(format!(
                        "{flag}: {family} ranges have no effect: {family} is not captured in this \
                         pod"
                    ));
                }
            }
        }
    }
}

/// IPv4 source address of the proxy's connections to the application. All of 127.0.0.0/8 is local,
/// so no interface needs the address.
pub const PASSTHROUGH_V4: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 6);

/// IPv6 counterpart; it must be an address of the loopback interface.
pub const PASSTHROUGH_V6: Ipv6Addr = Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 6);
