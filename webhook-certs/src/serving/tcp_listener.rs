//! TCP listeners of our servers.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::sleep;

/// Binds a listener to an address. With port 0 the system chooses the port.
///
/// The listener belongs to the current runtime.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let bind = |address: SocketAddr| {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    let is_all = address.ip().is_unspecified() && address.is_ipv6();
    match bind(address) {
        // `:PORT` means all addresses; a host without IPv6 has IPv4 addresses only.
        Err(error) if is_all && error.kind() != ErrorKind::AddrInUse => {
            bind((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        bound => bound,
    }
}

/// Accepts the next connection. An error is logged, and does not end the listener.
pub async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // The client has disconnected meanwhile.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            // No file descriptor is free, and an immediate retry would fail too.
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Connections that the kernel queues until they are accepted, if `net.core.somaxconn` allows as
/// many. When the queue is full, further clients retry after a second.
pub const BACKLOG: u32 = 4096;
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
