//! What tells a node's network namespace from a pod's: its links (kernel
//! `include/uapi/linux/if_link.h`), its chains, and whether it is the first of all.

use std::fs;

use rustix::io::Errno;

use super::message::{DONE, DUMP, ERROR, Header, Messages, attribute, outcome, received};
use super::socket::{RECEIVE_BUFFER, Socket};
use super::{KernelError, iptables};

/// What a node's container network, or kube-proxy, has made in this namespace: a few signs.
///
/// A pod has none of them when its first container starts. A machine without containers has none
/// either, and may run the proxy.
pub fn signs_of_host() -> Result<Vec<String>, KernelError> {
    let socket = Socket::route()?;
    let links = links(&socket).map_err(|errno| KernelError::ListInterfaces(errno.into()))?;
    // Whoever may not ask for chains may not change them either, and will be told so.
    let chains = Socket::netfilter().ok().and_then(|socket| iptables::chain_names(&socket).ok());
    let is_initial =
        fs::read_link("/proc/self/ns/net").is_ok_and(|link| link.as_os_str() == INITIAL_NAMESPACE);
    Ok(signs(&links, &chains.unwrap_or_default(), is_initial))
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Link {
    name: String,
    kind: String,
    /// Whether it is part of another, such as a bridge.
    is_port: bool,
    /// Whether its other end is in another network namespace.
    leads_elsewhere: bool,
}

fn signs(links: &[Link], chains: &[(String, String)], is_initial: bool) -> Vec<String> {
    let interfaces = links.iter().filter(|link| is_of_a_node(&link.name));
    let interfaces = interfaces.map(|link| format!("interface {}", link.name)).take(MOST_SIGNS);
    let mut signs: Vec<String> = interfaces.collect();
    let tables = chains.iter().map(|(table, _)| table);
    let mut tables: Vec<String> = tables
        .filter(|table| NODE_TABLES.contains(&table.as_str()))
        .map(|table| format!("table {table}"))
        .collect();
    tables.dedup();
    let of_chain = |(_, chain): &&(String, String)| {
        PREFIXES_OF_CHAINS.iter().any(|prefix| chain.starts_with(prefix))
    };
    let chains = chains.iter().filter(of_chain).map(|(_, chain)| format!("chain {chain}"));
    signs.extend(tables.into_iter().chain(chains).take(MOST_SIGNS));
    if signs.is_empty() {
        // Each of these alone may be a virtual machine, a pod with many networks, or a pod in a
        // machine of its own.
        let weak = weak_signs(links, is_initial);
        return if weak.len() > 1 { weak } else { Vec::new() };
    }
    signs
}

fn weak_signs(links: &[Link], is_initial: bool) -> Vec<String> {
    let is_link_of_a_pod = |link: &Link| link.is_port && link.leads_elsewhere;
    let bridges = links.iter().any(|link| link.kind == "bridge");
    let mut signs = Vec::new();
    if is_initial {
        signs.push("the machine's first network namespace".to_owned());
    }
    if bridges && links.iter().any(is_link_of_a_pod) {
        signs.push("a bridge to other network namespaces".to_owned());
    }
    if links.len() > MANY_LINKS {
        signs.push(format!("{} interfaces", links.len()));
    }
    signs
}

fn is_of_a_node(name: &str) -> bool {
    let follows = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && !rest.starts_with('.'))
    };
    NODE_INTERFACES.contains(&name) || PREFIXES_OF_PEERS.iter().any(|prefix| follows(prefix))
}

fn links(socket: &Socket) -> Result<Vec<Link>, Errno> {
    let mut messages = Messages::default();
    let header = Header { kind: GET_LINK, flags: DUMP, sequence: 1 };
    messages.push(header, &[0; LINK_MESSAGE_LENGTH], |_| {});
    socket.send(messages.as_bytes())?;
    let mut links = Vec::new();
    let mut buffer = vec![0; RECEIVE_BUFFER];
    loop {
        for message in received(socket.receive(&mut buffer)?) {
            match message.kind {
                NEW_LINK => links.extend(link(message.payload)),
                DONE => return Ok(links),
                ERROR => outcome(message.payload)?,
                _ => {}
            }
        }
    }
}

fn link(payload: &[u8]) -> Option<Link> {
    let values = payload.get(LINK_MESSAGE_LENGTH..)?;
    let text = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes.strip_suffix(&[0]).unwrap_or(bytes)).into_owned()
    };
    let kind = attribute(values, INFO).and_then(|info| attribute(info, INFO_KIND));
    Some(Link {
        name: text(attribute(values, NAME)?),
        kind: kind.map(text).unwrap_or_default(),
        is_port: attribute(values, MASTER).is_some(),
        leads_elsewhere: attribute(values, PEER_NAMESPACE).is_some(),
    })
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

/// Tables of kube-proxy, and of container networks.
const NODE_TABLES: &[&str] = &["kube-proxy", "kube-router", "cilium", "calico"];

/// How chains begin that kube-proxy, the kubelet and container networks make on a node.
const PREFIXES_OF_CHAINS: &[&str] =
    &["ANTREA-", "AWS-", "CILIUM_", "CNI-", "FLANNEL-", "KUBE-", "WEAVE", "cali-"];

/// `NET_NS_INIT_INO` of `include/uapi/linux/nsfs.h`, where the kernel makes it known (6.18);
/// older kernels give the number to nothing.
const INITIAL_NAMESPACE: &str = "net:[4026531833]";

/// More than any pod has when it starts.
const MANY_LINKS: usize = 32;

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
/// `IFLA_MASTER`.
const MASTER: u16 = 10;
/// `IFLA_LINKINFO`.
const INFO: u16 = 18;
/// `IFLA_INFO_KIND`.
const INFO_KIND: u16 = 1;
/// `IFLA_LINK_NETNSID`.
const PEER_NAMESPACE: u16 = 37;

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, kind: &str, is_port: bool, leads_elsewhere: bool) -> Link {
        Link { name: name.to_owned(), kind: kind.to_owned(), is_port, leads_elsewhere }
    }

    fn chain(table: &str, chain: &str) -> (String, String) {
        (table.to_owned(), chain.to_owned())
    }

    #[test]
    fn a_node_is_told_by_the_ends_of_its_pods_links() {
        for name in ["cni0", "veth1a2b", "cali0123", "flannel.1", "lxc_health", "kube-ipvs0"] {
            assert!(is_of_a_node(name), "{name}");
        }
        for name in ["lo", "eth0", "net1", "ens3", "docker0", "tap0", "wlan0", "veth", "eni0"] {
            assert!(!is_of_a_node(name), "{name}");
        }
    }

    #[test]
    fn a_node_is_told_by_the_chains_of_its_network() {
        let lo = link("lo", "", false, false);
        let told = |chains: &[(String, String)]| signs(std::slice::from_ref(&lo), chains, false);
        for (table, name) in [
            ("nat", "KUBE-SERVICES"),
            ("filter", "cali-FORWARD"),
            ("mangle", "CILIUM_PRE_mangle"),
            ("nat", "CNI-HOSTPORT-DNAT"),
        ] {
            assert_eq!(told(&[chain(table, name)]), [format!("chain {name}")]);
        }
        let kube_proxy = [chain("kube-proxy", "services"), chain("kube-proxy", "filter-input")];
        assert_eq!(told(&kube_proxy), ["table kube-proxy"]);
        let of_pods = [
            chain("nat", "PREROUTING"),
            chain("nat", "ISTIO_OUTPUT"),
            chain("nat", "DOCKER_OUTPUT"),
            chain("istio-proxy-nat", "istio-output"),
        ];
        assert_eq!(told(&of_pods), [""; 0]);
    }

    #[test]
    fn one_weak_sign_is_none() {
        let of_pod = [link("lo", "", false, false), link("eth0", "veth", false, true)];
        let of_virtual_machine =
            [&of_pod[..], &[link("k6t", "bridge", false, false), link("e", "veth", true, true)]];
        let many: Vec<Link> =
            (0..40).map(|index| link(&format!("net{index}"), "macvlan", false, true)).collect();
        for links in [&of_pod[..], &of_virtual_machine.concat(), &many] {
            assert_eq!(signs(links, &[], false), [""; 0], "{links:?}");
        }
        assert_eq!(signs(&of_pod, &[], true), [""; 0]);
        let both = signs(&of_virtual_machine.concat(), &[], true);
        assert_eq!(
            both,
            ["the machine's first network namespace", "a bridge to other network namespaces"]
        );
        assert_eq!(signs(&many, &[], true).len(), 2);
    }
}
