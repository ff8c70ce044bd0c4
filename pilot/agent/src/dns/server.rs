//! Server for UDP and TCP.

use std::io;
use std::net::{SocketAddr, SocketAddrV6, UdpSocket as StdUdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::stream::{self, StreamExt};
use hickory_proto::op::ResponseCode;
use local_files::read_text_file;
use rustix::net::netdevice::name_to_index;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::answer::{Decision, Knowledge, decide};
use super::forward::Forwarder;
use super::frame;
use super::message::{LARGEST_QUERY, Query, Transport};
use super::metrics::Metrics;
use super::search::NameRules;
use super::table::{ServiceDomain, Table};
use crate::config::options::{DnsOptions, Pod};
use crate::connections::{ConnectionLimits, ConnectionSlot, Connections};
use crate::log_limit::LogLimit;
use crate::resolv_conf::{NameServer, PORT, ResolvConf};

/// DNS server of the pod.
#[derive(Debug)]
pub struct Server {
    udp: Vec<UdpSocket>,
    tcp: Vec<TcpListener>,
    shared: Arc<Shared>,
}

/// View of the name table.
#[derive(Clone, Debug)]
pub struct Names {
    table: watch::Receiver<Option<Arc<Table>>>,
}

/// Failure to start the server.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// `resolv.conf` is not readable.
    #[error("cannot read the name servers in {}: {cause}", path.display())]
    ResolvConf {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        cause: io::Error,
    },
    /// An address cannot be served.
    #[error("cannot serve DNS on {address} (DNS_PROXY_ADDR): {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        cause: io::Error,
    },
}

#[derive(Debug)]
struct Shared {
    rules: NameRules,
    forwards_before_table: bool,
    table: watch::Sender<Option<Arc<Table>>>,
    forwarder: Forwarder,
    metrics: Metrics,
    rotation: AtomicUsize,
    forwarded: Semaphore,
    connections: Arc<Connections>,
}

impl Server {
    /// Binds the addresses, UDP and TCP.
    pub fn bind(options: &DnsOptions, pod: &Pod, metrics: Metrics) -> Result<Self, BindError> {
        let path = &options.resolv_conf;
        let text = read_text_file(path)
            .map_err(|cause| BindError::ResolvConf { path: path.clone(), cause })?;
        let resolv_conf = ResolvConf::parse(&text);
        let (mut udp, mut tcp) = (Vec::new(), Vec::new());
        for &address in &options.listen {
            let listen = |cause| BindError::Listen { address, cause };
            udp.push(bind_udp(address).map_err(listen)?);
            tcp.push(bind_tcp(address).map_err(listen)?);
        }
        let servers = resolv_conf.servers.iter().filter(|server| !server.is_own(&options.listen));
        let forwarder = Forwarder {
            servers: servers.filter_map(socket_address).collect(),
            is_parallel: options.forward_parallel,
            timeout: options.forward_timeout,
            metrics: metrics.clone(),
        };
        let rules = NameRules {
            domain: ServiceDomain::new(&pod.domain, &pod.namespace),
            search: resolv_conf.search.into_iter().next(),
        };
        let shared = Shared {
            rules,
            forwards_before_table: options.forwards_before_table,
            table: watch::Sender::new(None),
            forwarder,
            metrics,
            rotation: AtomicUsize::default(),
            forwarded: Semaphore::new(FORWARDED),
            connections: Connections::new(CONNECTIONS),
        };
        Ok(Self { udp, tcp, shared: Arc::new(shared) })
    }

    /// Returns a view of the name table.
    pub fn names(&self) -> Names {
        Names { table: self.shared.table.subscribe() }
    }

    /// Answers queries from the latest names, in the form that `table` returns, until the future is
    /// dropped.
    pub async fn run<N>(self, mut names: watch::Receiver<Option<N>>, table: impl Fn(&N) -> Table) {
        // Tasks end with the set.
        let mut tasks = JoinSet::new();
        for socket in self.udp {
            tasks.spawn(serve_udp(Arc::clone(&self.shared), Arc::new(socket)));
        }
        for listener in self.tcp {
            tasks.spawn(serve_tcp(Arc::clone(&self.shared), listener));
        }
        loop {
            let latest = names.borrow_and_update().as_ref().map(|names| Arc::new(table(names)));
            if latest.is_some() {
                self.shared.table.send_replace(latest);
            }
            // The last table stays when no other can come.
            if names.changed().await.is_err() {
                break;
            }
        }
        tasks.join_all().await;
    }
}

impl Names {
    /// True once the first table has arrived.
    pub fn received(&self) -> bool {
        self.table.borrow().is_some()
    }

    /// Returns the table as JSON, for `/debug/ndsz`.
    pub fn json(&self) -> String {
        let table = self.table.borrow().clone().unwrap_or_default();
        // Serializing texts and addresses to memory cannot fail.
        serde_json::to_string_pretty(&*table).unwrap_or_default()
    }
}

impl Shared {
    /// Returns the answer to a message, or the query to forward.
    fn decide<'a>(&self, message: &'a [u8], transport: Transport) -> Decision<'a> {
        self.metrics.requests.inc();
        let table = self.table.borrow().clone();
        let knowledge = Knowledge {
            table: table.as_deref(),
            rules: &self.rules,
            forwards_before_table: self.forwards_before_table,
        };
        decide(message, knowledge, transport, self.rotation.fetch_add(1, Ordering::Relaxed))
    }

    async fn forward(&self, query: &Query<'_>, transport: Transport) -> Vec<u8> {
        match self.forwarded.try_acquire() {
            Ok(_permit) => self.forwarder.forward(query, transport).await,
            Err(_) => query.failure(ResponseCode::ServFail),
        }
    }
}

async fn serve_udp(shared: Arc<Shared>, socket: Arc<UdpSocket>) {
    let mut buffer = vec![0; usize::from(LARGEST_QUERY)];
    // Dropped with the server.
    let mut tasks = JoinSet::new();
    let mut failures = LogLimit::default();
    loop {
        while tasks.try_join_next().is_some() {}
        let (length, client) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                let log = |count| {
                    tracing::warn!("receiving a DNS query failed {count} times: {error}");
                };
                failures.pause(log).await;
                continue;
            }
        };
        let message = &buffer[..length];
        match shared.decide(message, Transport::Udp) {
            Decision::Answer(answer) => send(&socket, client, &answer).await,
            Decision::Forward(_) => {
                let (shared, socket) = (Arc::clone(&shared), Arc::clone(&socket));
                let message = message.to_vec();
                tasks.spawn(async move {
                    if let Ok(query) = Query::parse(&message) {
                        let answer = shared.forward(&query, Transport::Udp).await;
                        send(&socket, client, &answer).await;
                    }
                });
            }
            Decision::Ignore => {}
        }
    }
}

async fn send(socket: &UdpSocket, client: SocketAddr, answer: &[u8]) {
    if let Err(error) = socket.send_to(answer, client).await {
        tracing::debug!(%client, "sending a DNS answer failed: {error}");
    }
}

async fn serve_tcp(shared: Arc<Shared>, listener: TcpListener) {
    let mut tasks = JoinSet::new();
    let mut failures = LogLimit::default();
    loop {
        while tasks.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, client)) => {
                let client = client.ip().to_canonical();
                let (slot, evicted) = shared.connections.wait_to_open(client).await;
                let shared = Arc::clone(&shared);
                tasks.spawn(async move {
                    tokio::select! {
                        () = serve_connection(&shared, stream, &slot) => {}
                        _ = evicted => {}
                    }
                });
            }
            Err(error) => {
                let log = |count| {
                    tracing::warn!("accepting a DNS connection failed {count} times: {error}");
                };
                failures.pause(log).await;
            }
        }
    }
}

/// Answers the queries of a connection. Several may wait for their answers, which are sent as they
/// come. The connection ends when the client is idle, or does not read its answers.
async fn serve_connection(shared: &Shared, stream: TcpStream, slot: &ConnectionSlot) {
    let (reader, mut writer) = stream.into_split();
    let queries = stream::unfold(reader, |mut reader| async {
        match timeout(IDLE, frame::read(&mut reader)).await {
            Ok(Ok(Some(message))) => Some((message, reader)),
            _ => None,
        }
    });
    let answers = queries
        .map(|message| async move {
            let in_progress = slot.start_request();
            let answer = match shared.decide(&message, Transport::Tcp) {
                Decision::Answer(answer) => answer,
                Decision::Forward(query) => shared.forward(&query, Transport::Tcp).await,
                Decision::Ignore => return None,
            };
            Some((answer, in_progress))
        })
        .buffer_unordered(PIPELINED);
    let mut answers = std::pin::pin!(answers);
    while let Some(answer) = answers.next().await {
        let Some((answer, _in_progress)) = answer else { continue };
        if !matches!(timeout(IDLE, frame::write(&mut writer, &answer)).await, Ok(Ok(()))) {
            return;
        }
    }
}

fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = socket(address, Type::DGRAM, Protocol::UDP)?;
    socket.bind(&address.into())?;
    UdpSocket::from_std(StdUdpSocket::from(socket))
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(address, Type::STREAM, Protocol::TCP)?;
    // Connections of an earlier agent may still be closing.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn socket(address: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Returns the address of a name server. A link-local one needs the number of its interface.
fn socket_address(server: &NameServer) -> Option<SocketAddr> {
    let (std::net::IpAddr::V6(address), Some(scope)) = (server.address, &server.scope) else {
        return Some(SocketAddr::new(server.address, PORT));
    };
    let index = scope.parse().or_else(|_| {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
        name_to_index(&socket, scope).map_err(io::Error::from)
    });
    match index {
        Ok(index) => Some(SocketAddrV6::new(address, PORT, 0, index).into()),
        Err(error) => {
            tracing::warn!("ignoring name server {address}%{scope}: {error}");
            None
        }
    }
}

/// Forwarded queries at a time, of all clients. More get SERVFAIL.
const FORWARDED: usize = 512;
/// TCP connections at a time. All clients are in the pod. More wait while none is idle.
const CONNECTIONS: ConnectionLimits = ConnectionLimits { total: 64, client: 64 };
/// Queries of a connection at a time. More wait in the kernel.
const PIPELINED: usize = 16;
const BACKLOG: i32 = 128;
/// Time that a TCP client has for its next query, and for reading an answer.
const IDLE: Duration = Duration::from_secs(10);
