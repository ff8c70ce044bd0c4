//! Sockets that report which listener answered, and the original destination.

use std::fmt;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use socket2::SockRef;

use crate::netns::Namespace;
use crate::wait::PACKET_TIMEOUT;

/// TCP and UDP listeners on all addresses of a namespace, which answer with an [`Answer`]. They are
/// closed when the value is dropped.
#[derive(Debug)]
pub struct Listeners {
    stop: UnixStream,
    thread: Option<JoinHandle<()>>,
}

/// A listener's report to the client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Answer {
    /// The namespace and port that answered, as `pod:80`.
    pub by: String,
    /// The original destination, before any redirection.
    pub original: String,
    /// The client's address as the listener sees it, without the port.
    pub client: String,
}

/// Result of a connection attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectionOutcome {
    /// A listener answered.
    Answered(Answer),
    /// No answer; the kernel's error.
    Failed(String),
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Listeners {
    /// Opens listeners, and returns when all of them listen.
    pub fn start(namespace: &Namespace, who: &'static str, ports: &[u16]) -> Result<Self> {
        let sockets = namespace.run(|| Sockets::open(ports))??;
        let (stop, stopped) = UnixStream::pair().context("making a pair of sockets")?;
        let thread = thread::spawn(move || sockets.serve(who, &stopped));
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        // If the thread is gone already, there is nothing to stop.
        let _ = self.stop.write_all(&[0]);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Tries to reach a target from the calling thread, with its namespace and its owner.
pub fn reach(
    transport: Transport,
    source: Option<IpAddr>,
    target: SocketAddr,
) -> ConnectionOutcome {
    let tried = match transport {
        Transport::Tcp => reach_by_tcp(source, target),
        Transport::Udp => reach_by_udp(source, target),
    };
    ConnectionOutcome::from_result(tried)
}

/// Connects by TCP from an address that need not be this machine's, with marked packets, as the
/// proxy connects to the application with the client's address.
pub fn reach_in_the_name_of(
    client: SocketAddr,
    mark: u32,
    target: SocketAddr,
) -> ConnectionOutcome {
    let connect = || {
        let socket = open(target.ip(), SocketType::STREAM)?;
        allow_foreign_addresses(&socket, target.ip())?;
        let set = SockRef::from(&socket).set_mark(mark);
        set.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        exchange(socket, Some(client), target)
    };
    ConnectionOutcome::from_result(connect())
}

fn reach_by_tcp(source: Option<IpAddr>, target: SocketAddr) -> Result<String, Errno> {
    let socket = open(target.ip(), SocketType::STREAM)?;
    exchange(socket, source.map(|source| SocketAddr::new(source, 0)), target)
}

fn exchange(
    socket: OwnedFd,
    source: Option<SocketAddr>,
    target: SocketAddr,
) -> Result<String, Errno> {
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(PACKET_TIMEOUT))?;
    sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(PACKET_TIMEOUT))?;
    // Closing resets the connection: thousands of attempts must not leave thousands of sockets in
    // TIME_WAIT.
    sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
    if let Some(source) = source {
        rustix::net::bind(&socket, &source)?;
    }
    rustix::net::connect(&socket, &target)?;
    let mut text = String::new();
    match TcpStream::from(socket).read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    }
}

fn reach_by_udp(source: Option<IpAddr>, target: SocketAddr) -> Result<String, Errno> {
    let socket = open(target.ip(), SocketType::DGRAM)?;
    sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(PACKET_TIMEOUT))?;
    let unspecified = match target {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Connection tracking remembers a datagram's ports and their translation for half a minute. So
    // no port is reused that soon.
    let step = NEXT_UDP_PORT.fetch_add(1, Ordering::Relaxed) % UDP_PORTS;
    let source = SocketAddr::new(source.unwrap_or(unspecified), FIRST_UDP_PORT + step);
    rustix::net::bind(&socket, &source)?;
    let socket = UdpSocket::from(socket);
    let mut buffer = [0; 512];
    // The answer may come from an address other than the target.
    let answered = socket.send_to(b"who?", target).and_then(|_| socket.recv(&mut buffer));
    match answered {
        Ok(length) => Ok(String::from_utf8_lossy(&buffer[..length]).into_owned()),
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    }
}

impl ConnectionOutcome {
    fn from_result(tried: Result<String, Errno>) -> Self {
        match tried {
            Ok(text) => Answer::parse(&text).map_or(Self::Failed(text), Self::Answered),
            Err(errno) => Self::Failed(errno.to_string()),
        }
    }
}

impl Answer {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace().map(str::to_owned);
        Some(Self { by: words.next()?, original: words.next()?, client: words.next()? })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.by, self.original, self.client)
    }
}

struct Sockets {
    tcp: Vec<(u16, TcpListener)>,
    udp: Vec<(u16, UdpSocket)>,
}

impl Sockets {
    fn open(ports: &[u16]) -> Result<Self> {
        let mut sockets = Self { tcp: Vec::new(), udp: Vec::new() };
        for &port in ports {
            for address in [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()] {
                let listening = || format!("listening on {address} port {port}");
                let tcp = bound(address, port, SocketType::STREAM).with_context(listening)?;
                rustix::net::listen(&tcp, BACKLOG).with_context(listening)?;
                sockets.tcp.push((port, TcpListener::from(tcp)));
                let udp = bound(address, port, SocketType::DGRAM).with_context(listening)?;
                sockets.udp.push((port, UdpSocket::from(udp)));
            }
        }
        Ok(sockets)
    }

    fn serve(&self, who: &str, stopped: &UnixStream) {
        let mut fds = vec![PollFd::new(stopped, PollFlags::IN)];
        fds.extend(self.tcp.iter().map(|(_, socket)| PollFd::new(socket, PollFlags::IN)));
        fds.extend(self.udp.iter().map(|(_, socket)| PollFd::new(socket, PollFlags::IN)));
        loop {
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            if !fds[0].revents().is_empty() {
                return;
            }
            let is_ready = |index: usize| !fds[index].revents().is_empty();
            let tcp = (1..).zip(&self.tcp).filter(|(index, _)| is_ready(*index));
            // A client that is gone before its answer does not affect the others.
            tcp.for_each(|(_, (port, socket))| drop(answer_tcp(who, *port, socket)));
            let udp = (1 + self.tcp.len()..).zip(&self.udp).filter(|(index, _)| is_ready(*index));
            udp.for_each(|(_, (port, socket))| drop(answer_udp(who, *port, socket)));
        }
    }
}

fn answer_tcp(who: &str, port: u16, socket: &TcpListener) -> std::io::Result<()> {
    let (mut stream, client) = socket.accept()?;
    let original = match client {
        SocketAddr::V4(_) => sockopt::ip_original_dst(&stream).map(SocketAddr::V4),
        SocketAddr::V6(_) => sockopt::ipv6_original_dst(&stream).map(SocketAddr::V6),
    };
    // Without connection tracking, this connection cannot have been redirected.
    let original = original.or_else(|_| stream.local_addr())?;
    let by = format!("{who}:{port}");
    let answer = Answer { by, original: original.to_string(), client: client.ip().to_string() };
    stream.write_all(answer.to_string().as_bytes())
}

fn answer_udp(who: &str, port: u16, socket: &UdpSocket) -> std::io::Result<()> {
    let (_, client) = socket.recv_from(&mut [0; 64])?;
    let by = format!("{who}:{port}");
    let answer = Answer { by, original: "udp".to_owned(), client: client.ip().to_string() };
    socket.send_to(answer.to_string().as_bytes(), client).map(drop)
}

fn bound(address: IpAddr, port: u16, kind: SocketType) -> Result<OwnedFd, Errno> {
    let socket = open(address, kind)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    // Like the proxy's socket, it may accept connections to foreign addresses.
    allow_foreign_addresses(&socket, address)?;
    rustix::net::bind(&socket, &SocketAddr::new(address, port))?;
    Ok(socket)
}

fn allow_foreign_addresses(socket: &OwnedFd, address: IpAddr) -> Result<(), Errno> {
    let socket = SockRef::from(socket);
    let set = match address {
        IpAddr::V4(_) => socket.set_ip_transparent_v4(true),
        IpAddr::V6(_) => socket.set_ip_transparent_v6(true),
    };
    set.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

fn open(address: IpAddr, kind: SocketType) -> Result<OwnedFd, Errno> {
    if address.is_ipv4() {
        return socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None);
    }
    let socket = socket_with(AddressFamily::INET6, kind, SocketFlags::CLOEXEC, None)?;
    // Each family has its own listener, because the original destination is queried per family.
    sockopt::set_ipv6_v6only(&socket, true)?;
    Ok(socket)
}

static NEXT_UDP_PORT: AtomicU16 = AtomicU16::new(0);
/// First source port, above all ports of listeners. Their number is a power of two, so that the
/// counter wraps without reusing a recent port.
const FIRST_UDP_PORT: u16 = 20_000;
const UDP_PORTS: u16 = 32_768;
const BACKLOG: i32 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_answer_in_both_families_and_end() {
        let namespace = Namespace::create().unwrap();
        let listeners = Listeners::start(&namespace, "here", &[80]).unwrap();
        for (transport, original) in [(Transport::Tcp, "[::1]:80"), (Transport::Udp, "udp")] {
            let target = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 80);
            let outcome = namespace.run(|| reach(transport, None, target)).unwrap();
            let ConnectionOutcome::Answered(answer) = outcome else { panic!("{outcome:?}") };
            assert_eq!(answer.to_string(), format!("here:80 {original} ::1"));
        }
        drop(listeners);
        let target = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 80);
        let outcome = namespace.run(|| reach(Transport::Tcp, None, target)).unwrap();
        assert!(matches!(outcome, ConnectionOutcome::Failed(_)), "{outcome:?}");
    }
}
