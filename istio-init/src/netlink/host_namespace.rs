//! Evidence of a node's network namespace: links (kernel `include/uapi/linux/if_link.h`), chains,
//! and identity with the machine's first network namespace.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::dump::dump;
use super::error::KernelError;
use super::message::attribute;
use super::nf_tables::{
    CHAIN_NAME, CHAIN_TABLE, FIXED_LENGTH, GET_CHAIN, is_no_nf_tables, message_type,
};
use super::socket::Socket;
use crate::config::host_evidence::{HostEvidence, Link};

/// Reads the evidence. After an error it is unknown whether this is a node's network namespace.
pub fn host_evidence() -> Result<HostEvidence, KernelError> {
    let socket = Socket::route()?;
    let links = links(&socket)
        .map_err(|errno| KernelError::List { objects: "interfaces", cause: errno.into() })?;
    Ok(HostEvidence { links, chains: chains()?, is_first: is_first() })
}

/// Lists chains. Returns none if this process lacks permission, since it cannot change rules
/// either, or if the kernel has no `nf_tables`.
fn chains() -> Result<Vec<(String, String)>, KernelError> {
    let socket = match Socket::netfilter() {
        Err(KernelError::Socket { cause, .. }) if cause.errno == Errno::PERM => {
            return Ok(Vec::new());
        }
        Err(error) if error.is_no_nf_tables() => return Ok(Vec::new()),
        socket => socket?,
    };
    match chain_names(&socket) {
        Err(errno) if errno == Errno::PERM || is_no_nf_tables(errno) => Ok(Vec::new()),
        chains => {
            chains.map_err(|errno| KernelError::List { objects: "chains", cause: errno.into() })
        }
    }
}

/// Lists the chains of all families, each after the name of its table.
fn chain_names(socket: &Socket) -> Result<Vec<(String, String)>, Errno> {
    let listed = dump(socket, message_type(GET_CHAIN), &[0; FIXED_LENGTH], &|_| {})?;
    let names = |payload: &Vec<u8>| {
        let values = payload.get(FIXED_LENGTH..)?;
        Some((text(attribute(values, CHAIN_TABLE)?), text(attribute(values, CHAIN_NAME)?)))
    };
    Ok(listed.iter().filter_map(names).collect())
}

/// True if this process is in the machine's first network namespace.
fn is_first() -> bool {
    let name = |file: &str| fs::read_link(file).ok();
    NamespaceIds {
        own: name("/proc/thread-self/ns/net"),
        of_process_1: name("/proc/1/ns/net"),
        processes_of_1: name("/proc/1/ns/pid"),
        has_machine_settings: Path::new(MACHINE_SETTING).exists(),
    }
    .is_first()
}

/// Facts about the network namespace that /proc shows.
#[derive(Clone, Default)]
struct NamespaceIds {
    own: Option<PathBuf>,
    of_process_1: Option<PathBuf>,
    /// The PID namespace of process 1.
    processes_of_1: Option<PathBuf>,
    has_machine_settings: bool,
}

impl NamespaceIds {
    /// Process 1 of a container belongs to the container and shares its network namespace. Process
    /// 1 of the first PID namespace is the machine's.
    fn is_first(&self) -> bool {
        let is = |name: &Option<PathBuf>, known: &str| {
            name.as_deref().is_some_and(|name| name.as_os_str() == known)
        };
        let has_first_number = FIRST_NETWORKS.iter().any(|known| is(&self.own, known));
        let is_with_init = is(&self.processes_of_1, FIRST_PROCESSES)
            && self.own.is_some()
            && self.own == self.of_process_1;
        has_first_number || is_with_init || self.has_machine_settings
    }
}

fn links(socket: &Socket) -> Result<Vec<Link>, Errno> {
    let listed = dump(socket, GET_LINK, &[0; LINK_MESSAGE_LENGTH], &|_| {})?;
    Ok(listed.iter().filter_map(|payload| link(payload)).collect())
}

fn link(payload: &[u8]) -> Option<Link> {
    let values = payload.get(LINK_MESSAGE_LENGTH..)?;
    let kind = attribute(values, INFO).and_then(|info| attribute(info, INFO_KIND));
    Some(Link {
        name: text(attribute(values, NAME)?),
        kind: kind.map(text).unwrap_or_default(),
        is_port: attribute(values, MASTER).is_some(),
        leads_elsewhere: attribute(values, PEER_NAMESPACE).is_some(),
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.strip_suffix(&[0]).unwrap_or(bytes)).into_owned()
}

/// `NET_NS_INIT_INO` of `include/uapi/linux/nsfs.h` (since 6.18), and the first inode of /proc,
/// which no later namespace has: before 6.18 it belongs to the first namespace or to a file of
/// /proc.
const FIRST_NETWORKS: [&str; 2] = ["net:[4026531833]", "net:[4026531840]"];
/// `PROC_PID_INIT_INO` of the kernel's `include/linux/proc_ns.h` (since 3.8).
const FIRST_PROCESSES: &str = "pid:[4026531836]";
/// Machine-wide setting that the kernel shows in the first network namespace only
/// (`net/core/sysctl_net_core.c`). Needed where the first namespace has no fixed number.
const MACHINE_SETTING: &str = "/proc/sys/net/core/dev_weight";

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

    #[test]
    fn any_of_three_facts_identifies_the_first_namespace() {
        let name = |text: &str| Some(PathBuf::from(text));
        let of_pod = NamespaceIds { own: name("net:[4026532501]"), ..NamespaceIds::default() };
        assert!(!of_pod.is_first());
        for number in FIRST_NETWORKS {
            assert!(NamespaceIds { own: name(number), ..NamespaceIds::default() }.is_first());
        }
        assert!(NamespaceIds { has_machine_settings: true, ..NamespaceIds::default() }.is_first());
        let with_init = NamespaceIds {
            of_process_1: name("net:[4026532501]"),
            processes_of_1: name(FIRST_PROCESSES),
            ..of_pod
        };
        assert!(with_init.is_first());
        let of_another = NamespaceIds { of_process_1: name("net:[4026532502]"), ..with_init };
        assert!(!of_another.is_first());
    }

    #[test]
    fn process_1_of_a_container_is_no_evidence() {
        let name = |text: &str| Some(PathBuf::from(text));
        let of_container = NamespaceIds {
            own: name("net:[4026532501]"),
            of_process_1: name("net:[4026532501]"),
            processes_of_1: name("pid:[4026532600]"),
            has_machine_settings: false,
        };
        assert!(!of_container.is_first());
        assert!(
            !NamespaceIds { processes_of_1: name(FIRST_PROCESSES), ..NamespaceIds::default() }
                .is_first()
        );
    }
}
