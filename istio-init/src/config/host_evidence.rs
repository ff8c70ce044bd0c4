//! Evidence that a network namespace is a node's and not a pod's.

use crate::args::flags::Flag;
use crate::types::input_error::{InputError, ValueError};
use crate::types::interface::InterfaceName;

/// Properties that distinguish a node's network namespace from a pod's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostEvidence {
    /// Network interfaces.
    pub links: Vec<Link>,
    /// Chains of `nf_tables`, each with its table.
    pub chains: Vec<(String, String)>,
    /// True if this is the machine's first network namespace.
    pub is_first: bool,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Name.
    pub name: String,
    /// Type, such as `bridge`; empty for a physical interface.
    pub kind: String,
    /// True if the interface is a port of another one, such as a bridge.
    pub is_port: bool,
    /// True if the peer is in another network namespace.
    pub leads_elsewhere: bool,
}

impl HostEvidence {
    /// Returns the signs of a node; empty if there are too few.
    ///
    /// The machine's first network namespace is sufficient. Otherwise two independent signs are
    /// needed: a pod with several networks has interfaces named `veth…`, a virtual machine in a pod
    /// has a bridge. Interfaces that the user named are ignored.
    pub fn signs(&self, named: &[InterfaceName]) -> Vec<String> {
        let is_named = |link: &&Link| named.iter().any(|name| name.matches(&link.name));
        let links: Vec<&Link> = self.links.iter().filter(|link| !is_named(link)).collect();
        let interface = |is_sign: fn(&str) -> bool| {
            let link = links.iter().find(|link| is_sign(&link.name));
            link.map(|link| format!("interface {}", link.name))
        };
        let (network, peer) = (interface(is_of_a_network), interface(is_peer));
        // A bridge with such ports is the same sign again.
        let bridge = if network.is_none() && peer.is_none() { bridge(&links) } else { None };
        let rules =
            [self.rules(&["kube-proxy"], &["KUBE-"]), self.rules(NETWORK_TABLES, NETWORK_CHAINS)];
        let many = (links.len() > MANY_LINKS).then(|| format!("{} interfaces", links.len()));
        let first = self.is_first.then(|| "the machine's first network namespace".to_owned());
        let signs = [first, network, peer, bridge, many].into_iter().chain(rules);
        let signs: Vec<String> = signs.flatten().collect();
        if self.is_first || signs.len() > 1 { signs } else { Vec::new() }
    }

    /// Returns the first table or chain with one of these names.
    fn rules(&self, tables: &[&str], prefixes: &[&str]) -> Option<String> {
        self.chains.iter().find_map(|(table, chain)| {
            if tables.contains(&table.as_str()) {
                return Some(format!("table {table}"));
            }
            let is_theirs = prefixes.iter().any(|prefix| chain.starts_with(prefix));
            is_theirs.then(|| format!("chain {chain}"))
        })
    }
}

/// Returns the error about a node's own network namespace: rules there would capture the node,
/// and all pods' traffic that is forwarded there. Interfaces that the user named are no evidence.
pub(super) fn node_error(
    host: Result<&HostEvidence, &String>,
    named: &[InterfaceName],
) -> Option<InputError> {
    let (value, reason) = match host.map(|evidence| evidence.signs(named)) {
        Ok(signs) if signs.is_empty() => return None,
        Ok(signs) => (signs.join(", "), "is typical of a node, not of a pod"),
        Err(reason) => (reason.clone(), "prevents deciding whether it is a node's or a pod's"),
    };
    let hint =
        format!("run istio-init in the pod; if this is intended, use {}", Flag::AllowHostNetwork);
    let source = "this network namespace".to_owned();
    Some(InputError { source, value, error: ValueError::new(reason).hint(hint) })
}

fn is_of_a_network(name: &str) -> bool {
    NETWORK_INTERFACES.contains(&name)
}

fn is_peer(name: &str) -> bool {
    PEER_PREFIXES.iter().any(|prefix| {
        name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && !rest.starts_with('.'))
    })
}

fn bridge(links: &[&Link]) -> Option<String> {
    let has_bridge = links.iter().any(|link| link.kind == "bridge");
    let has_port = links.iter().any(|link| link.is_port && link.leads_elsewhere);
    (has_bridge && has_port).then(|| "a bridge to other network namespaces".to_owned())
}

/// Interfaces that container networks and kube-proxy create on a node.
const NETWORK_INTERFACES: &[&str] = &[
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

/// Name prefixes of the node's ends of pod links.
const PEER_PREFIXES: &[&str] = &["azv", "cali", "gke", "lxc", "veth"];

/// Tables of container networks.
const NETWORK_TABLES: &[&str] = &["kube-router", "cilium", "calico"];

/// Name prefixes of chains of container networks.
const NETWORK_CHAINS: &[&str] =
    &["ANTREA-", "AWS-", "CILIUM_", "CNI-", "FLANNEL-", "WEAVE", "cali-"];

/// More interfaces than a starting pod has.
const MANY_LINKS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, kind: &str, is_port: bool, leads_elsewhere: bool) -> Link {
        Link { name: name.to_owned(), kind: kind.to_owned(), is_port, leads_elsewhere }
    }

    fn named(names: &[&str]) -> Vec<Link> {
        names.iter().map(|name| link(name, "", false, false)).collect()
    }

    fn chains(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(table, chain)| ((*table).to_owned(), (*chain).to_owned())).collect()
    }

    fn evidence(links: Vec<Link>, of_nf_tables: &[(&str, &str)]) -> HostEvidence {
        HostEvidence { links, chains: chains(of_nf_tables), is_first: false }
    }

    #[test]
    fn one_sign_does_not_make_a_node() {
        let bridge = vec![link("k6t", "bridge", false, false), link("e", "veth", true, true)];
        let many = (0..40).map(|index| link(&format!("net{index}"), "", false, true)).collect();
        let docker = vec![link("docker0", "bridge", false, false), link("veth1", "", true, true)];
        for alone in [
            evidence(named(&["lo", "eth0", "veth1", "veth2", "lxc3"]), &[]),
            evidence(named(&["cni0"]), &[]),
            evidence(bridge, &[]),
            evidence(docker, &[]),
            evidence(many, &[]),
            evidence(named(&["lo"]), &[("nat", "KUBE-SERVICES"), ("kube-proxy", "services")]),
            evidence(named(&["lo"]), &[("nat", "cali-OUTPUT"), ("nat", "ISTIO_OUTPUT")]),
        ] {
            assert_eq!(alone.signs(&[]), [""; 0], "{alone:?}");
        }
    }

    #[test]
    fn two_independent_signs_make_a_node() {
        for (both, signs) in [
            (evidence(named(&["cni0", "veth1"]), &[]), ["interface cni0", "interface veth1"]),
            (
                evidence(named(&["veth1"]), &[("nat", "KUBE-SERVICES")]),
                ["interface veth1", "chain KUBE-SERVICES"],
            ),
            (
                evidence(named(&["lo"]), &[("kube-proxy", "a"), ("filter", "cali-FORWARD")]),
                ["table kube-proxy", "chain cali-FORWARD"],
            ),
        ] {
            assert_eq!(both.signs(&[]), signs);
        }
    }

    #[test]
    fn first_network_namespace_is_a_node() {
        let alone = HostEvidence { is_first: true, ..HostEvidence::default() };
        assert_eq!(alone.signs(&[]), ["the machine's first network namespace"]);
    }

    #[test]
    fn interfaces_named_by_the_user_are_no_signs() {
        let both = evidence(named(&["cni0", "veth1", "veth2"]), &[]);
        let names =
            |list: &[&str]| list.iter().map(|name| name.parse().unwrap()).collect::<Vec<_>>();
        assert_eq!(both.signs(&names(&["veth1"])), ["interface cni0", "interface veth2"]);
        assert_eq!(both.signs(&names(&["veth*"])), [""; 0]);
        assert_eq!(both.signs(&names(&["cni0"])), [""; 0]);
    }

    #[test]
    fn pod_interfaces_are_no_signs() {
        for name in ["lo", "eth0", "net1", "ens3", "docker0", "tap0", "wlan0", "veth", "veth.1"] {
            assert!(!is_of_a_network(name) && !is_peer(name), "{name}");
        }
    }
}
