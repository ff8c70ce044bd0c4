//! Connections to the application.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context, Result};
use tokio::net::{TcpSocket, TcpStream, lookup_host};

/// Connects to the application as the kubelet would, bypassing the proxy.
#[derive(Debug)]
pub(super) struct Dialer {
    pod: IpAddr,
}

impl Dialer {
    /// Returns a dialer inside the pod with this address.
    pub(super) fn new(pod: IpAddr) -> Self {
        Self { pod }
    }

    /// Connects to the pod, or to the host of the probe.
    pub(super) async fn dial(&self, host: Option<&str>, port: u16) -> Result<TcpStream> {
        let connected = match host {
            None => self.connect((self.pod, port).into()).await,
            Some(host) => self.connect_to_name(host, port).await,
        };
        connected.with_context(|| format!("connecting to {}", self.authority(host, port)))
    }

    /// Returns the host and port for the `Host` header of a request.
    pub(super) fn authority(&self, host: Option<&str>, port: u16) -> String {
        let pod = self.pod.to_string();
        let host = host.unwrap_or(&pod);
        if host.contains(':') && !host.starts_with('[') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    }

    async fn connect_to_name(&self, host: &str, port: u16) -> std::io::Result<TcpStream> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let mut last = std::io::Error::other("the name has no address");
        for address in lookup_host((host, port)).await? {
            match self.connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn connect(&self, to: SocketAddr) -> std::io::Result<TcpStream> {
        let (socket, source) = match to {
            SocketAddr::V4(_) => (TcpSocket::new_v4()?, PASSTHROUGH[0]),
            SocketAddr::V6(_) => (TcpSocket::new_v6()?, PASSTHROUGH[1]),
        };
        // A connection of the proxy's user to its own pod is captured, except from this source
        // address. Other hosts cannot be reached from it.
        if to.ip() == self.pod || to.ip().is_loopback() {
            socket.bind((source, 0).into())?;
        }
        socket.connect(to).await
    }
}

/// True if the source address marks a connection from the proxy to the application.
pub(crate) fn is_passthrough(address: IpAddr) -> bool {
    PASSTHROUGH.contains(&address)
}

const PASSTHROUGH: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(127, 0, 0, 6)), IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 6))];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authority_equals_the_kubelets() {
        let dialer = Dialer::new("2001:db8::1".parse().unwrap());
        assert_eq!(dialer.authority(None, 80), "[2001:db8::1]:80");
        assert_eq!(dialer.authority(Some("web.example"), 80), "web.example:80");
        assert_eq!(dialer.authority(Some("[::1]"), 80), "[::1]:80");
    }
}
