//! Reads what tells a node's network namespace from a pod's: its links (kernel
//! `include/uapi/linux/if_link.h`), its chains, and whether it is the machine's first.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::message::{DONE, DUMP, ERROR, Header, Messages, attribute, outcome, received};
use super::nf_tables::is_no_nf_tables;
use super::socket::{RECEIVE_BUFFER, Socket};
use super::{KernelError, iptables};
use crate::host::{HostEvidence, Link};

/// Reads the evidence. An error leaves open whether this is a node's network namespace.
pub fn host_evidence() -> Result<HostEvidence, KernelError> {
    let socket = Socket::route()?;
    let links = links(&socket).map_err(|errno| KernelError::ListInterfaces(errno.into()))?;
    Ok(HostEvidence { links, chains: chains()?, is_first: is_first() })
}

/// A process that may not ask for chains may not change them either; the change says so. A kernel
/// without `nf_tables` has none.
fn chains() -> Result<Vec<(String, String)>, KernelError> {
    let socket = match Socket::netfilter() {
        Err(KernelError::Socket { cause, .. }) if cause.errno == Errno::PERM => {
            return Ok(Vec::new());
        }
        Err(error) if error.is_no_nf_tables() => return Ok(Vec::new()),
        socket => socket?,
    };
    match iptables::chain_names(&socket) {
        Err(errno) if errno == Errno::PERM || is_no_nf_tables(errno) => Ok(Vec::new()),
        chains => chains.map_err(|errno| KernelError::ListChains(errno.into())),
    }
}

/// True if this process is in the machine's first network namespace.
fn is_first() -> bool {
    let name = |file: &str| fs::read_link(file).ok();
    Place {
        own: name("/proc/self/ns/net"),
        of_process_1: name("/proc/1/ns/net"),
        processes_of_1: name("/proc/1/ns/pid"),
        has_machine_settings: Path::new(MACHINE_SETTING).exists(),
    }
    .is_first()
}

/// Returns what /proc shows of the network namespace, as far as it is readable.
#[derive(Clone, Default)]
struct Place {
    own: Option<PathBuf>,
    of_process_1: Option<PathBuf>,
    /// The PID namespace of process 1.
    processes_of_1: Option<PathBuf>,
    has_machine_settings: bool,
}

impl Place {
    /// Process 1 of a container is the container's own, and in its network namespace. Only that
    /// of the first PID namespace is the machine's.
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

/// `NET_NS_INIT_INO` of `include/uapi/linux/nsfs.h` (since 6.18); and the first number that
/// /proc gives, which no later namespace can have: before 6.18 it is that of the first namespace,
/// or of a file of /proc.
const FIRST_NETWORKS: [&str; 2] = ["net:[4026531833]", "net:[4026531840]"];
/// `PROC_PID_INIT_INO` of the kernel's `include/linux/proc_ns.h` (since 3.8).
const FIRST_PROCESSES: &str = "pid:[4026531836]";
/// A setting of the whole machine, which the kernel shows in the first network namespace alone
/// (`net/core/sysctl_net_core.c`). It tells where the number of the first namespace is not fixed.
const MACHINE_SETTING: &str = "/proc/sys/net/core/dev_weight";

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

    #[test]
    fn the_first_namespace_is_known_by_any_of_three() {
        let name = |text: &str| Some(PathBuf::from(text));
        let of_pod = Place { own: name("net:[4026532501]"), ..Place::default() };
        assert!(!of_pod.is_first());
        for number in FIRST_NETWORKS {
            assert!(Place { own: name(number), ..Place::default() }.is_first());
        }
        assert!(Place { has_machine_settings: true, ..Place::default() }.is_first());
        let with_init = Place {
            of_process_1: name("net:[4026532501]"),
            processes_of_1: name(FIRST_PROCESSES),
            ..of_pod
        };
        assert!(with_init.is_first());
        let of_another = Place { of_process_1: name("net:[4026532502]"), ..with_init };
        assert!(!of_another.is_first());
    }

    #[test]
    fn process_1_of_a_container_shows_nothing() {
        let name = |text: &str| Some(PathBuf::from(text));
        let of_container = Place {
            own: name("net:[4026532501]"),
            of_process_1: name("net:[4026532501]"),
            processes_of_1: name("pid:[4026532600]"),
            has_machine_settings: false,
        };
        assert!(!of_container.is_first());
        assert!(!Place { processes_of_1: name(FIRST_PROCESSES), ..Place::default() }.is_first());
    }
}
