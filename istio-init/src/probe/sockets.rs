//! The probe's sockets: those that listen in settings of the proxy, and those that try to reach it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, listen, socket_with};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use thiserror::Error;

use super::{Flow, FlowOutcome, FlowResult, ProbeSettings, flows, inbound, listening_ports};
use crate::explain::Owner;
use crate::netlink::error::KernelError;
use crate::netlink::outside_namespace::OutsideNamespace;
use crate::plan::Plan;
use crate::types::protocol::Protocol;

/// Error that prevents a probe.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// One of the proxy's ports is not free.
    #[error(
        "cannot listen on {address} in settings of the proxy: {errno}; \
         hint: run the probe before the proxy starts"
    )]
    Listen {
        /// Address and port.
        address: SocketAddr,
        /// The kernel's reason.
        errno: Errno,
    },
    /// The linked network namespace cannot be created.
    #[error(transparent)]
    Link(#[from] KernelError),
    /// Rules name every available interface name.
    #[error("rules name every available interface name")]
    LinkName,
    /// The rules deliver connections by TPROXY.
    #[error("TPROXY delivers only to transparent sockets, which the probe cannot open")]
    Tproxy,
}

/// Tries the flows of a plan that start in the pod.
pub fn try_flows(
    plan: &Plan,
    settings: &ProbeSettings,
    deadline: Instant,
) -> Result<Vec<FlowResult>, ProbeError> {
    let listeners = Listeners::open(plan, settings)?;
    let settings =
        ProbeSettings { application_port: listeners.application_port, ..settings.clone() };
    Ok(listeners.try_until_expected(&flows(plan, &settings), &settings, deadline))
}

/// Tries inbound connections of a plan from a linked network namespace.
pub fn try_inbound(
    plan: &Plan,
    settings: &ProbeSettings,
    deadline: Instant,
) -> Result<Vec<FlowResult>, ProbeError> {
    if inbound::has_tproxy(plan, settings) {
        return Err(ProbeError::Tproxy);
    }
    let link = inbound::link_name(plan, settings).ok_or(ProbeError::LinkName)?;
    let outside = create_outside(&link, deadline)?;
    let mut listeners = Listeners::default();
    let (mut flows, mut untried) = (Vec::new(), Vec::new());
    for network in inbound::networks(&settings.addresses) {
        if let Err(error) = outside.add_addresses(network.pod, network.peer, network.prefix_length)
        {
            // New interfaces may have IPv6 disabled.
            let flow = inbound::flow(plan, &link, network, 80, false);
            untried.push(FlowResult { flow, outcome: FlowOutcome::NotTried(error.to_string()) });
            continue;
        }
        let mut taken = Vec::new();
        for port in listening_ports(plan) {
            taken.push(listeners.listen(SocketAddr::new(network.pod, port.get()))?);
        }
        let application = listeners.listen(SocketAddr::new(network.pod, 0))?;
        taken.push(application);
        for port in inbound::named_ports(plan, settings).into_iter().chain([application]) {
            // The pod's own programs may listen on the port already.
            let has_listener = taken.contains(&port)
                || listeners.listen(SocketAddr::new(network.pod, port)).is_ok();
            flows.push(inbound::flow(plan, &link, network, port, has_listener));
        }
    }
    listeners.outside = Some(outside);
    untried.extend(listeners.try_until_expected(&flows, settings, deadline));
    Ok(untried)
}

/// Creates the linked namespace. Retries while the kernel deletes a link of this name from a killed
/// probe.
fn create_outside(link: &str, deadline: Instant) -> Result<OutsideNamespace, KernelError> {
    loop {
        match OutsideNamespace::create(link) {
            Err(KernelError::Outside { cause, .. })
                if cause.errno == Errno::EXIST && Instant::now() < deadline => {}
            outside => return outside,
        }
        thread::sleep(BETWEEN_TRIES);
    }
}

#[derive(Default)]
struct Listeners {
    tcp: Vec<(u16, TcpListener)>,
    udp: Vec<(u16, UdpSocket)>,
    application_port: u16,
    /// Origin of flows from outside.
    outside: Option<OutsideNamespace>,
}

/// A flow in progress.
struct Attempt {
    flow: Flow,
    /// The client's socket and its own address.
    client: Result<(OwnedFd, SocketAddr), String>,
    arrived: Option<FlowOutcome>,
}

impl Listeners {
    fn open(plan: &Plan, settings: &ProbeSettings) -> Result<Self, ProbeError> {
        let mut listeners = Self::default();
        let has_v6 = settings.addresses.iter().any(IpAddr::is_ipv6);
        let loopbacks =
            [Some(IpAddr::from(Ipv4Addr::LOCALHOST)), has_v6.then_some(Ipv6Addr::LOCALHOST.into())];
        for port in listening_ports(plan) {
            for ip in loopbacks.into_iter().flatten() {
                let address = SocketAddr::new(ip, port.get());
                listeners.listen(address)?;
            }
        }
        let any = [
            Some(IpAddr::from(Ipv4Addr::UNSPECIFIED)),
            has_v6.then_some(Ipv6Addr::UNSPECIFIED.into()),
        ];
        for ip in any.into_iter().flatten() {
            let address = SocketAddr::new(ip, listeners.application_port);
            listeners.application_port = listeners.listen(address)?;
        }
        Ok(listeners)
    }

    /// Listens on an address. Returns the port, which the kernel chooses for port 0.
    fn listen(&mut self, address: SocketAddr) -> Result<u16, ProbeError> {
        let refused = |errno| ProbeError::Listen { address, errno };
        let tcp = bound(address, SocketType::STREAM).map_err(refused)?;
        listen(&tcp, BACKLOG).map_err(refused)?;
        let udp = bound(address, SocketType::DGRAM).map_err(refused)?;
        let tcp = TcpListener::from(tcp);
        let port = tcp.local_addr().map_or(address.port(), |address| address.port());
        self.tcp.push((port, tcp));
        self.udp.push((port, udp.into()));
        Ok(port)
    }

    /// Tries flows; repeats those with an unexpected result until the deadline, since the rules may
    /// still be being installed.
    fn try_until_expected(
        &self,
        flows: &[Flow],
        settings: &ProbeSettings,
        deadline: Instant,
    ) -> Vec<FlowResult> {
        let mut results = self.observe(flows, settings);
        loop {
            let is_right = results.iter().all(FlowResult::is_as_expected);
            if is_right || Instant::now() + settings.timeout >= deadline {
                return results;
            }
            thread::sleep(BETWEEN_TRIES);
            let wrong: Vec<usize> =
                (0..results.len()).filter(|i| !results[*i].is_as_expected()).collect();
            let again: Vec<Flow> = wrong.iter().map(|index| results[*index].flow.clone()).collect();
            for (index, once_more) in wrong.into_iter().zip(self.observe(&again, settings)) {
                results[index] = once_more;
            }
        }
    }

    /// Starts flows in parallel and waits for their results.
    fn observe(&self, flows: &[Flow], settings: &ProbeSettings) -> Vec<FlowResult> {
        let deadline = Instant::now() + settings.timeout;
        let mut attempts = Vec::new();
        for series in flows.chunk_by(|one, next| one.owner == next.owner) {
            attempts.extend(self.begin(series, settings.owner));
        }
        loop {
            self.take_arrivals(&mut attempts);
            let is_pending = |attempt: &Attempt| {
                attempt.client.is_ok()
                    && attempt.arrived.is_none()
                    // A flow expected elsewhere may still arrive here until the deadline.
                    && (attempt.flow.expected != FlowOutcome::Elsewhere || !attempt.is_refused())
            };
            if !attempts.iter().any(is_pending) || Instant::now() >= deadline {
                return attempts.into_iter().map(Attempt::results).collect();
            }
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Starts flows of one owner. A different owner or network namespace needs a separate thread.
    fn begin(&self, flows: &[Flow], own: Owner) -> Vec<Attempt> {
        let owner = flows.first().and_then(|flow| flow.owner);
        if owner == Some(own) {
            return start_all(flows, &Ok(()));
        }
        let become_other = || match (owner, &self.outside) {
            (Some(owner), _) => switch_owner(owner),
            (None, Some(outside)) => outside.enter().map_err(|error| error.to_string()),
            (None, None) => Err("there is no link to another network namespace".to_owned()),
        };
        let begin = || start_all(flows, &become_other());
        let joined = thread::scope(|scope| {
            let thread = thread::Builder::new().spawn_scoped(scope, begin);
            thread.map(|thread| thread.join().unwrap_or_default())
        });
        joined.unwrap_or_else(|error| {
            start_all(flows, &Err(format!("cannot start a thread: {error}")))
        })
    }

    fn take_arrivals(&self, attempts: &mut [Attempt]) {
        for (port, listener) in &self.tcp {
            while let Ok((stream, client)) = listener.accept() {
                let original = original_destination(&stream);
                record_arrival(attempts, Protocol::Tcp, client, *port, original);
            }
        }
        for (port, socket) in &self.udp {
            while let Ok((_, client)) = socket.recv_from(&mut [0; 16]) {
                record_arrival(attempts, Protocol::Udp, client, *port, None);
            }
        }
    }
}

impl Attempt {
    /// True if the client's socket has an error.
    fn is_refused(&self) -> bool {
        let socket = self.client.as_ref().ok();
        socket.is_some_and(|(socket, _)| !matches!(sockopt::socket_error(socket), Ok(Ok(()))))
    }

    fn results(self) -> FlowResult {
        let outcome = match (self.client, self.arrived) {
            (Err(why), _) => FlowOutcome::NotTried(why),
            (Ok(_), Some(outcome)) => outcome,
            (Ok(_), None) => FlowOutcome::Elsewhere,
        };
        FlowResult { flow: self.flow, outcome }
    }
}

/// Finds the attempt by its client's address and port. If foreign rules rewrite the address
/// (MASQUERADE), port and original destination identify it: such rules keep the port if they can.
fn record_arrival(
    attempts: &mut [Attempt],
    protocol: Protocol,
    client: SocketAddr,
    port: u16,
    original: Option<SocketAddr>,
) {
    let position = |is_its: &dyn Fn(&Attempt, SocketAddr) -> bool| {
        attempts.iter().position(|attempt| {
            let is_own = |(_, own): &(OwnedFd, SocketAddr)| {
                (own.is_ipv4(), own.port()) == (client.is_ipv4(), client.port())
                    && is_its(attempt, *own)
            };
            attempt.flow.protocol == protocol && attempt.client.as_ref().is_ok_and(is_own)
        })
    };
    let exact = position(&|_, own| own.ip() == client.ip());
    let masqueraded = || {
        position(&|attempt, _| {
            attempt.arrived.is_none() && original.is_none_or(|it| it == attempt.flow.target)
        })
    };
    let index = exact.or_else(masqueraded);
    if let Some(attempt) = index.map(|index| &mut attempts[index]) {
        attempt.arrived = Some(match original {
            Some(original) if original != attempt.flow.target => {
                FlowOutcome::WrongDestination(port, original)
            }
            _ => FlowOutcome::Port(port),
        });
    }
}

fn start_all(flows: &[Flow], is_owner: &Result<(), String>) -> Vec<Attempt> {
    let begin = |flow: &Flow| Attempt {
        flow: flow.clone(),
        client: is_owner.clone().and_then(|()| start_one(flow).map_err(|e| e.to_string())),
        arrived: None,
    };
    flows.iter().map(begin).collect()
}

fn switch_owner(owner: Owner) -> Result<(), String> {
    use rustix::process::{Gid, Uid};
    let (uid, gid) = (Uid::from_raw(owner.uid.get()), Gid::from_raw(owner.gid.get()));
    set_thread_groups(&[])
        .and_then(|()| set_thread_res_gid(gid, gid, gid))
        .and_then(|()| set_thread_res_uid(uid, uid, uid))
        .map_err(|_| "this process cannot change its user".to_owned())
}

fn start_one(flow: &Flow) -> Result<(OwnedFd, SocketAddr), Errno> {
    let kind = match flow.protocol {
        Protocol::Tcp => SocketType::STREAM,
        Protocol::Udp => SocketType::DGRAM,
    };
    let socket = open(flow.target.ip(), kind)?;
    // Packets stop after the first hop. Local delivery takes no hop.
    match flow.target {
        SocketAddr::V4(_) => sockopt::set_ip_ttl(&socket, 1)?,
        SocketAddr::V6(_) => sockopt::set_ipv6_unicast_hops(&socket, Some(1))?,
    }
    // The port is taken here, for this socket alone. `connect` would give one port to connections
    // with different targets; redirected to one listener, the second of them would get another
    // client port from NAT, and its arrival could not be told.
    let any: IpAddr = match flow.target {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    bind(&socket, &SocketAddr::new(flow.source.unwrap_or(any), 0))?;
    match connect(&socket, &flow.target) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::CONNREFUSED | Errno::HOSTUNREACH) => {}
        Err(errno) => return Err(errno),
    }
    let own = rustix::net::getsockname(&socket)?;
    if flow.protocol == Protocol::Udp {
        // Ignores an error of an earlier packet.
        let _ = rustix::net::send(&socket, b"probe", rustix::net::SendFlags::NOSIGNAL);
    }
    let own = SocketAddr::try_from(own).map_err(|_| Errno::AFNOSUPPORT)?;
    Ok((socket, own))
}

fn original_destination(stream: &TcpStream) -> Option<SocketAddr> {
    let original = match stream.local_addr().ok()? {
        SocketAddr::V4(_) => sockopt::ip_original_dst(stream).map(SocketAddr::V4),
        SocketAddr::V6(_) => sockopt::ipv6_original_dst(stream).map(SocketAddr::V6),
    };
    // Without connection tracking, the connection cannot have been redirected.
    original.ok().or_else(|| stream.local_addr().ok())
}

fn bound(address: SocketAddr, kind: SocketType) -> Result<OwnedFd, Errno> {
    let socket = open(address.ip(), kind)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    Ok(socket)
}

fn open(ip: IpAddr, kind: SocketType) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    if ip.is_ipv4() {
        return socket_with(AddressFamily::INET, kind, flags, None);
    }
    let socket = socket_with(AddressFamily::INET6, kind, flags, None)?;
    sockopt::set_ipv6_v6only(&socket, true)?;
    Ok(socket)
}

const BACKLOG: i32 = 512;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
const BETWEEN_TRIES: Duration = Duration::from_millis(100);
