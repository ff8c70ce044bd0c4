//! Stand-in for a parent that has exited.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::SystemTime;

use prost::Message as _;
use tokio::io::Interest;
use tokio::task::JoinHandle;

/// Socket with the address of a parent that has exited, held while its child lives.
///
/// A child asks its parent for its admin port and its listening sockets, and tells it to drain and
/// to exit. Without a socket of the parent, Envoy repeats a message for 10 s, blocks meanwhile, and
/// aborts. Here it learns that there are no sockets, and makes its own.
///
/// A question that the parent got before it exited is lost, and the child waits for its answer. So
/// the first answer is sent unasked. A child that has asked nothing takes it for the answer to its
/// first question, and each later answer for that to the next question: any answer but a socket
/// means that there is none.
#[derive(Debug)]
pub(super) struct ParentSocket {
    task: JoinHandle<()>,
}

impl ParentSocket {
    /// Binds the address of an epoch. `started` is the start of the first epoch.
    pub(super) fn bind(base_id: u32, epoch: u32, started: SystemTime) -> io::Result<Self> {
        let address = SocketAddr::from_abstract_name(name("parent", base_id, epoch))?;
        let socket = UnixDatagram::bind_addr(&address)?;
        socket.set_nonblocking(true)?;
        let child = SocketAddr::from_abstract_name(name("child", base_id, epoch + 1))?;
        // A child without a socket has asked nothing yet.
        let _ = socket.send_to_addr(&datagram(&admin_shutdown(started)), &child);
        // Tokio cannot send to abstract addresses.
        let readiness = tokio::net::UnixDatagram::from_std(socket.try_clone()?)?;
        Ok(Self { task: tokio::spawn(serve(socket, readiness, started)) })
    }
}

impl Drop for ParentSocket {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(socket: UnixDatagram, readiness: tokio::net::UnixDatagram, started: SystemTime) {
    let mut question = vec![0; DATAGRAM];
    loop {
        let receive = || socket.recv_from(&mut question);
        let Ok((length, child)) = readiness.async_io(Interest::READABLE, receive).await else {
            return;
        };
        if let Some(answer) = answer(&question[..length], started) {
            // A child that has ended needs none.
            let _ = socket.send_to_addr(&answer, &child);
        }
    }
}

/// Returns the answer to a datagram, unless the child expects none.
fn answer(question: &[u8], started: SystemTime) -> Option<Vec<u8>> {
    let (_length, message) = question.split_at_checked(size_of::<u64>())?;
    let request = HotRestartMessage::decode(message).ok()?.request?;
    if request.shutdown_admin.is_some() {
        Some(datagram(&admin_shutdown(started)))
    } else if request.drain_listeners.is_some() || request.terminate.is_some() {
        None
    } else {
        Some(datagram(&HotRestartMessage { is_unknown: true, ..Default::default() }))
    }
}

/// Returns the answer to a child that asks for the admin port.
fn admin_shutdown(started: SystemTime) -> HotRestartMessage {
    let started = started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let shutdown_admin = AdminShutdown { started, reuse_port: true };
    let reply = Reply { shutdown_admin: Some(shutdown_admin) };
    HotRestartMessage { reply: Some(reply), ..Default::default() }
}

/// Returns a message after its length, as Envoy sends it.
fn datagram(message: &HotRestartMessage) -> Vec<u8> {
    let message = message.encode_to_vec();
    [&(message.len() as u64).to_be_bytes(), message.as_slice()].concat()
}

/// Message of Envoy's hot restart, version 11.
#[derive(Clone, PartialEq, prost::Message)]
struct HotRestartMessage {
    #[prost(message, optional, tag = "1")]
    request: Option<Request>,
    #[prost(message, optional, tag = "2")]
    reply: Option<Reply>,
    /// The receiver did not recognize the last message.
    #[prost(bool, tag = "3")]
    is_unknown: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Request {
    #[prost(bytes = "vec", optional, tag = "2")]
    shutdown_admin: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "4")]
    drain_listeners: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "5")]
    terminate: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Reply {
    #[prost(message, optional, tag = "2")]
    shutdown_admin: Option<AdminShutdown>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct AdminShutdown {
    /// Start of the first epoch, in seconds since 1970.
    #[prost(uint64, tag = "1")]
    started: u64,
    /// Envoy's default.
    #[prost(bool, tag = "2")]
    reuse_port: bool,
}

/// Returns Envoy's abstract name of a role, which fills the address. Its number is a sum of a signed base of
/// 32 bits and an unsigned epoch of 64.
fn name(role: &str, base_id: u32, epoch: u32) -> Vec<u8> {
    let base = i64::from(base_id.wrapping_mul(10).cast_signed()).cast_unsigned();
    let number = base.wrapping_add(u64::from(epoch % EPOCHS));
    let mut name = format!("envoy_domain_socket_{role}_{number}").into_bytes();
    name.resize(LENGTH, 0);
    name
}

/// Number of epochs with different addresses.
const EPOCHS: u32 = 3;
/// Length of an address's path, without the first byte of an abstract one.
const LENGTH: usize = 107;
/// Longest datagram of Envoy.
const DATAGRAM: usize = 4096;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn name_has_number_of_base_and_epoch() {
        let name = name("parent", 778_899, 4);
        assert!(name.starts_with(b"envoy_domain_socket_parent_7788991\0"));
        assert_eq!(name.len(), 107);
    }

    #[test]
    fn number_of_a_large_base_is_that_of_envoy() {
        let name = name("parent", 239_301_460, 0);
        assert!(name.starts_with(b"envoy_domain_socket_parent_18446744071807598920\0"));
    }

    /// Messages of Envoy 1.40, without their lengths.
    #[test]
    fn requests_for_sockets_are_unknown_and_orders_unanswered() {
        let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        let answer = |message: &[u8]| {
            let answer = answer(&[&[0; 8], message].concat(), started);
            answer.map(|answer| answer[7..].to_vec())
        };
        let admin = answer(&[0x0a, 2, 0x12, 0]).unwrap();
        assert_eq!(admin, [8, 0x12, 6, 0x12, 4, 8, 1, 0x10, 1]);
        let socket = answer(b"\x0a\x08\x0a\x06\x0a\x04tcp:").unwrap();
        assert_eq!(socket, [2, 0x18, 1]);
        assert_eq!(answer(&[0x0a, 2, 0x22, 0]), None);
        assert_eq!(answer(&[0x0a, 2, 0x2a, 0]), None);
        assert_eq!(answer(b"\xff"), None);
    }
}
