//! What tells a node's network namespace from a pod's, over rtnetlink (kernel
//! `include/uapi/linux/if_link.h`).

use rustix::io::Errno;

use super::KernelError;
use super::message::{DONE, DUMP, ERROR, Header, Messages, attribute, outcome, received};
use super::socket::{RECEIVE_BUFFER, Socket};

/// Interfaces of this namespace that a node's container network makes, by name: a few, in the
/// kernel's order.
///
/// A pod has none of them when its first container starts. A machine without containers has none
/// either, and may run the proxy.
pub fn signs_of_host() -> Result<Vec<String>, KernelError> {
    let socket = Socket::route()?;
    let names = interfaces(&socket).map_err(|errno| KernelError::ListInterfaces(errno.into()))?;
    let signs = names.into_iter().filter(|name| is_of_a_node(name)).take(MOST_SIGNS);
    Ok(signs.map(|name| format!("interface {name}")).collect())
}

fn is_of_a_node(name: &str) -> bool {
    let follows = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && !rest.starts_with('.'))
    };
    NODE_INTERFACES.contains(&name) || PREFIXES_OF_PEERS.iter().any(|prefix| follows(prefix))
}

fn interfaces(socket: &Socket) -> Result<Vec<String>, Errno> {
    let mut messages = Messages::default();
    let header = Header { kind: GET_LINK, flags: DUMP, sequence: 1 };
    messages.push(header, &[0; LINK_MESSAGE_LENGTH], |_| {});
    socket.send(messages.as_bytes())?;
    let mut names = Vec::new();
    let mut buffer = vec![0; RECEIVE_BUFFER];
    loop {
        for message in received(socket.receive(&mut buffer)?) {
            match message.kind {
                NEW_LINK => names.extend(name(message.payload)),
                DONE => return Ok(names),
                ERROR => outcome(message.payload)?,
                _ => {}
            }
        }
    }
}

fn name(payload: &[u8]) -> Option<String> {
    let bytes = attribute(payload.get(LINK_MESSAGE_LENGTH..)?, NAME)?;
    let text = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    Some(String::from_utf8_lossy(text).into_owned())
}

/// Interfaces that container networks make on a node, and kube-proxy.
const NODE_INTERFACES: &[&str] = &[
    "antrea-gw0",
    "cbr0",
    "cilium_host",
    "cilium_net",
    "cni-podman0",
    "cni0",
    "flannel.1",
    "kube-bridge",
    "kube-ipvs0",
    "nodelocaldns",
    "ovn-k8s-mp0",
    "vxlan.calico",
    "weave",
];

/// How the node's ends of pods' links are called.
const PREFIXES_OF_PEERS: &[&str] = &["azv", "cali", "gke", "lxc", "veth"];

/// As many as a message needs.
const MOST_SIGNS: usize = 3;

/// `RTM_NEWLINK`.
const NEW_LINK: u16 = 16;
/// `RTM_GETLINK`.
const GET_LINK: u16 = 18;
/// `struct ifinfomsg`.
const LINK_MESSAGE_LENGTH: usize = 16;
/// `IFLA_IFNAME`.
const NAME: u16 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_told_by_the_ends_of_its_pods_links() {
        for name in ["cni0", "veth1a2b", "cali0123", "flannel.1", "lxc_health", "kube-ipvs0"] {
            assert!(is_of_a_node(name), "{name}");
        }
        for name in ["lo", "eth0", "net1", "ens3", "docker0", "tap0", "wlan0", "veth", "eni0"] {
            assert!(!is_of_a_node(name), "{name}");
        }
    }
}
