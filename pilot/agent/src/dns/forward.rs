//! Forwards queries to the name servers of the pod.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use futures::stream::{FuturesUnordered, StreamExt};
use hickory_proto::op::ResponseCode;
use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, recv};
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::io::Interest;
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::frame;
use super::message::{Query, Transport, is_truncated, response_code};
use super::metrics::Metrics;

/// Sends queries to name servers.
#[derive(Debug)]
pub struct Forwarder {
    /// Name servers.
    pub servers: Vec<SocketAddr>,
    /// Asks all servers at once.
    pub is_parallel: bool,
    /// Timeout of one query to one server.
    pub timeout: Duration,
    /// Metrics of queries to servers.
    pub metrics: Metrics,
}

/// Failure of a query to a name server.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// The kernel has no random numbers.
    #[error("no random numbers: {0}")]
    Random(io::Error),
    /// The server cannot be reached.
    #[error("cannot reach the name server: {0}")]
    Connect(io::Error),
    /// The query cannot be sent.
    #[error("cannot send the query: {0}")]
    Send(io::Error),
    /// The answer cannot be received.
    #[error("cannot receive the answer: {0}")]
    Receive(io::Error),
    /// The server closed the connection, or answered another query on it.
    #[error("the connection has no answer to this query")]
    NoAnswer,
    /// The server did not answer in time.
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
}

impl Forwarder {
    /// Returns the answer of the first name server that has one, or SERVFAIL if all fail. Servers
    /// are asked in random order. An answer that another server may improve on, such as REFUSED,
    /// counts only if no server has a better one.
    pub async fn forward(&self, query: &Query<'_>, transport: Transport) -> Vec<u8> {
        let mut servers = self.servers.clone();
        shuffle(&mut servers);
        let mut second_best = None;
        let answers = servers.iter().map(|server| self.ask(*server, query, transport));
        let mut pending = FuturesUnordered::new();
        let mut waiting = answers;
        loop {
            if pending.is_empty() || self.is_parallel {
                pending.extend(waiting.by_ref().take(if self.is_parallel {
                    usize::MAX
                } else {
                    1
                }));
            }
            match pending.next().await {
                Some(Some(answer)) if is_final(&answer) => return answer,
                Some(answer) => second_best = second_best.or(answer),
                None => break,
            }
        }
        second_best.unwrap_or_else(|| query.failure(ResponseCode::ServFail))
    }

    async fn ask(
        &self,
        server: SocketAddr,
        query: &Query<'_>,
        transport: Transport,
    ) -> Option<Vec<u8>> {
        self.metrics.upstream_requests.inc();
        let start = Instant::now();
        let exchange = async {
            match transport {
                Transport::Udp => by_udp(server, query).await,
                Transport::Tcp => by_tcp(server, query).await,
            }
        };
        let answer = timeout(self.timeout, exchange).await;
        match answer.unwrap_or(Err(ForwardError::Timeout(self.timeout))) {
            Ok(answer) => {
                self.metrics.upstream_duration.observe(start.elapsed().as_secs_f64());
                Some(answer)
            }
            Err(error) => {
                self.metrics.upstream_failures.inc();
                tracing::debug!(%server, "forwarding a DNS query failed: {error}");
                None
            }
        }
    }
}

/// Asks by UDP. If the answer lacks a part, asks for all of it by TCP, and returns it if the client
/// accepts its size.
async fn by_udp(server: SocketAddr, query: &Query<'_>) -> Result<Vec<u8>, ForwardError> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // A socket per query: its random port and the random identifier have to be guessed together.
    let socket = UdpSocket::bind((any, 0)).await.map_err(ForwardError::Connect)?;
    socket.connect(server).await.map_err(ForwardError::Connect)?;
    let (id, sent) = with_random_id(query)?;
    socket.send(&sent).await.map_err(ForwardError::Send)?;
    let limit = query.limit(Transport::Udp);
    // A server that is not there is an error of the socket, which makes it not readable.
    let interest = Interest::READABLE | Interest::ERROR;
    let receive = || {
        // Reserved only now, so that waiting queries need little memory.
        let mut answer = Vec::with_capacity(limit);
        recv(&socket, spare_capacity(&mut answer), RecvFlags::DONTWAIT)?;
        Ok(answer)
    };
    let answer = loop {
        let answer = socket.async_io(interest, receive).await.map_err(ForwardError::Receive)?;
        // Others are late, foreign or forged.
        if query.is_answered_by(&answer, id) {
            break answer;
        }
    };
    if is_truncated(&answer)
        && let Ok(whole) = by_tcp(server, query).await
        && whole.len() <= limit
    {
        return Ok(whole);
    }
    Ok(with_id_of(query, answer))
}

async fn by_tcp(server: SocketAddr, query: &Query<'_>) -> Result<Vec<u8>, ForwardError> {
    let mut stream = TcpStream::connect(server).await.map_err(ForwardError::Connect)?;
    let (id, sent) = with_random_id(query)?;
    frame::write(&mut stream, &sent).await.map_err(ForwardError::Send)?;
    let answer = frame::read(&mut stream).await.map_err(ForwardError::Receive)?;
    let answer = answer.filter(|answer| query.is_answered_by(answer, id));
    answer.map(|answer| with_id_of(query, answer)).ok_or(ForwardError::NoAnswer)
}

/// True unless another server may know better.
fn is_final(answer: &[u8]) -> bool {
    let code = response_code(answer);
    !matches!(code, Some(ResponseCode::ServFail | ResponseCode::Refused | ResponseCode::NotImp))
}

fn with_random_id(query: &Query<'_>) -> Result<(u16, Vec<u8>), ForwardError> {
    let id = random()?.to_le_bytes();
    let mut message = query.bytes.to_vec();
    message[..2].copy_from_slice(&id[..2]);
    Ok((u16::from_be_bytes([id[0], id[1]]), message))
}

fn with_id_of(query: &Query<'_>, mut answer: Vec<u8>) -> Vec<u8> {
    answer[..2].copy_from_slice(&query.bytes[..2]);
    answer
}

/// Brings the servers into a random order. Without random numbers the order stays.
fn shuffle(servers: &mut [SocketAddr]) {
    for end in (2..=servers.len()).rev() {
        let random = random().map_or(end as u64 - 1, |random| random % end as u64);
        let other = usize::try_from(random).unwrap_or_default();
        servers.swap(end - 1, other);
    }
}

fn random() -> Result<u64, ForwardError> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|errno| ForwardError::Random(errno.into()))?;
    Ok(u64::from_le_bytes(bytes))
}
