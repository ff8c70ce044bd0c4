//! Temporary network namespace outside the pod's, linked to it by a veth pair (kernel
//! `include/uapi/linux/veth.h`).

use std::fs::{self, File};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::address;
use super::error::KernelError;
use super::link::{self, NAME, SET_LINK, link_message};
use super::message::{ACK, CREATE, EXCLUSIVE, Header, Messages, received};
use super::socket::{RECEIVE_BUFFER, Socket};

/// Network namespace held by this process only. The kernel deletes it with the veth pair when the
/// process ends.
#[derive(Debug)]
pub struct OutsideNamespace {
    namespace: File,
    pod: Socket,
    link: String,
}

impl OutsideNamespace {
    /// Creates the namespace and the pair. Both ends are named `link` and are up.
    pub fn create(link: &str) -> Result<Self, KernelError> {
        let pod = Socket::route()?;
        let in_namespace = || {
            new_network_namespace()?;
            let file = File::open("/proc/thread-self/ns/net").map_err(|error| {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                refused("open /proc/thread-self/ns/net", errno)
            })?;
            let peer = Socket::route()?;
            add_pair(&peer, link)
                .map_err(|errno| refused(&format!("ip link add {link} type veth"), errno))?;
            let outside = Self { namespace: file, pod, link: link.to_owned() };
            outside
                .change(SET_LINK, UP)
                .and_then(|()| await_running(&[&outside.pod, &peer], link))
                .map_err(|errno| refused(&format!("ip link set {link} up"), errno))?;
            Ok(outside)
        };
        on_thread(in_namespace)?
    }

    /// Adds an address of the same network to each end of the pair.
    pub fn add_addresses(
        &self,
        of_pod: IpAddr,
        of_peer: IpAddr,
        prefix_length: u8,
    ) -> Result<(), KernelError> {
        let add = |socket: &Socket, ip| {
            let index = socket.index_of(&self.link);
            let added = index
                .and_then(|i| address::add(socket, i, ip, prefix_length))
                .and_then(|()| await_local_route(ip));
            added.map_err(|errno| refused(&format!("ip address add {ip} dev {}", self.link), errno))
        };
        add(&self.pod, of_pod)?;
        on_thread(|| self.enter().and_then(|()| add(&Socket::route()?, of_peer)))?
    }

    /// Changes the pod's end of the pair.
    fn change(&self, kind: u16, flags: u32) -> Result<(), Errno> {
        let mut messages = Messages::default();
        let header = Header { kind, flags: ACK, sequence: 1 };
        messages.push(header, &link_message(flags), |a| a.text(NAME, &self.link));
        self.pod.change(messages.as_bytes())
    }

    /// Moves the calling thread into the namespace permanently.
    pub fn enter(&self) -> Result<(), KernelError> {
        move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|errno| refused("setns(CLONE_NEWNET)", errno))
    }
}

impl Drop for OutsideNamespace {
    /// Deletes the pair at once: the kernel deletes the namespace some time later.
    fn drop(&mut self) {
        // If this fails, the kernel deletes the pair with the namespace.
        let _ = self.change(DELETE_LINK, 0);
    }
}

/// Moves the calling thread into a new network namespace.
#[expect(
    deprecated,
    reason = "unsafe in its successor because of CLONE_FILES, which leaves threads with invalid \
              file descriptors; CLONE_NEWNET affects only sockets that this thread opens later"
)]
fn new_network_namespace() -> Result<(), KernelError> {
    rustix::thread::unshare(UnshareFlags::NEWNET)
        .map_err(|errno| refused("unshare(CLONE_NEWNET)", errno))
}

/// Runs a closure on a separate thread, which may change its network namespace.
fn on_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, KernelError> {
    let no_thread = || refused("start a thread", Errno::AGAIN);
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, work).map_err(|_| no_thread())?;
        thread.join().map_err(|_| no_thread())
    })
}

/// Adds a pair with one end in the namespace of `socket`, the other in that of this process. The
/// second end is still down, since an end can be set up only after both exist.
fn add_pair(socket: &Socket, link: &str) -> Result<(), Errno> {
    let process = rustix::process::getpid().as_raw_nonzero().get();
    let mut messages = Messages::default();
    let header = Header { kind: NEW_LINK, flags: CREATE | EXCLUSIVE | ACK, sequence: 1 };
    messages.push(header, &link_message(UP), |own| {
        own.text(NAME, link);
        own.bytes(ADDRESS, &MAC);
        own.nested(INFO, |info| {
            info.text(INFO_KIND, "veth");
            info.nested(INFO_DATA, |data| {
                data.nested_after(PEER, &link_message(0), |peer| {
                    peer.text(NAME, link);
                    peer.bytes(ADDRESS, &MAC);
                    peer.bytes(NAMESPACE_OF_PROCESS, &process.to_ne_bytes());
                });
            });
        });
    });
    socket.change(messages.as_bytes())
}

/// Waits for the carrier of each end; the kernel drops earlier packets.
fn await_running(sockets: &[&Socket], link: &str) -> Result<(), Errno> {
    let mut messages = Messages::default();
    let header = Header { kind: GET_LINK, flags: 0, sequence: 1 };
    messages.push(header, &link_message(0), |a| a.text(NAME, link));
    let mut buffer = vec![0; RECEIVE_BUFFER];
    let mut is_running = |socket: &&Socket| {
        socket.send(messages.as_bytes())?;
        let mut answers = received(socket.receive(&mut buffer)?);
        let flags = answers.next().and_then(|answer| answer.payload.get(8..12)?.try_into().ok());
        Ok(u32::from_ne_bytes(flags.ok_or(Errno::BADMSG)?) & RUNNING != 0)
    };
    for _ in 0..LOOKS {
        let running: Result<Vec<bool>, Errno> = sockets.iter().map(&mut is_running).collect();
        if running?.into_iter().all(|is_running| is_running) {
            return Ok(());
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    Err(Errno::TIMEDOUT)
}

/// Waits until this thread's network namespace delivers to the address: the kernel adds the local
/// IPv6 route after the address.
fn await_local_route(address: IpAddr) -> Result<(), Errno> {
    let IpAddr::V6(v6) = address else { return Ok(()) };
    let route = format!("{:032x} 80 ", v6.to_bits());
    for _ in 0..LOOKS {
        let routes = fs::read_to_string("/proc/thread-self/net/ipv6_route").unwrap_or_default();
        if routes.lines().any(|line| line.starts_with(&route)) {
            return Ok(());
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    Err(Errno::TIMEDOUT)
}

fn refused(step: &str, errno: Errno) -> KernelError {
    KernelError::Outside { step: step.to_owned(), cause: errno.into() }
}

/// `RTM_NEWLINK`.
const NEW_LINK: u16 = 16;
/// `RTM_GETLINK`.
const GET_LINK: u16 = 18;
/// `RTM_DELLINK`.
const DELETE_LINK: u16 = 17;
/// Up, and `IFF_NOARP`, which avoids neighbour discovery: a new address answers it only after a
/// delay.
const UP: u32 = link::UP | 0x80;
/// The hardware address of both ends, a locally administered one.
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// `IFF_RUNNING`.
const RUNNING: u32 = 0x40;
/// `IFLA_ADDRESS`.
const ADDRESS: u16 = 1;
/// `IFLA_LINKINFO`.
const INFO: u16 = 18;
/// `IFLA_INFO_KIND`.
const INFO_KIND: u16 = 1;
/// `IFLA_INFO_DATA`.
const INFO_DATA: u16 = 2;
/// `VETH_INFO_PEER`.
const PEER: u16 = 1;
/// `IFLA_NET_NS_PID`.
const NAMESPACE_OF_PROCESS: u16 = 19;
/// Number of looks in two seconds.
const LOOKS: u32 = 1000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);
