//! Connections to the application.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::{TcpSocket, TcpStream, lookup_host};

use super::ProbeError;
use crate::passthrough::{PASSTHROUGH_V4, PASSTHROUGH_V6};

/// Connects to the application as the kubelet would, bypassing the proxy.
#[derive(Clone, Copy, Debug)]
pub struct Dialer {
    pod: IpAddr,
    destination: IpAddr,
}

impl Dialer {
    /// Returns a dialer inside the pod with this address. Probes go to this address, or to loopback
    /// with Istio's legacy switch.
    pub fn new(pod: IpAddr, to_localhost: bool) -> Self {
        let loopback = match pod {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        Self { pod, destination: if to_localhost { loopback } else { pod } }
    }

    /// Connects to the destination of probes, or to the host of the probe.
    pub async fn connect(&self, host: Option<&str>, port: u16) -> Result<TcpStream, ProbeError> {
        let connected = match host {
            None => self.connect_to((self.destination, port).into()).await,
            Some(host) => self.connect_to_host(host, port).await,
        };
        connected
            .map_err(|source| ProbeError::Connect { address: self.authority(host, port), source })
    }

    /// Connects to a port of the application on loopback, or else on the pod's address.
    pub async fn connect_locally(&self, port: u16) -> Result<TcpStream, ProbeError> {
        let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
        let (first, second) = match self.pod {
            IpAddr::V4(_) => (loopback[0], loopback[1]),
            IpAddr::V6(_) => (loopback[1], loopback[0]),
        };
        let mut failed = None;
        for address in [first, second, self.pod] {
            match self.connect_to((address, port).into()).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let source = failed.unwrap_or_else(|| ErrorKind::NotFound.into());
        Err(ProbeError::Connect { address: format!("localhost:{port}"), source })
    }

    /// Returns the host that a request is sent to, without brackets.
    pub(super) fn host(&self, host: Option<&str>) -> String {
        match host {
            Some(host) => host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            None => self.destination.to_string(),
        }
    }

    /// Returns the host and port for the `Host` header of a request.
    pub(super) fn authority(&self, host: Option<&str>, port: u16) -> String {
        let host = self.host(host);
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    async fn connect_to_host(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let mut last = io::Error::other("the name has no address");
        for address in lookup_host((&*self.host(Some(host)), port)).await? {
            match self.connect_to(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn connect_to(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let (socket, source) = match to {
            SocketAddr::V4(_) => (TcpSocket::new_v4()?, PASSTHROUGH_V4),
            SocketAddr::V6(_) => (TcpSocket::new_v6()?, PASSTHROUGH_V6),
        };
        // A connection of the proxy's user to its own pod is captured, except from this source
        // address. Other hosts cannot be reached from it.
        if to.ip() == self.pod || to.ip().is_loopback() {
            match socket.bind((source, 0).into()) {
                // Only capture adds ::6 to the pod. Without capture any source address will do.
                Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {}
                bound => bound?,
            }
        }
        socket.connect(to).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authority_equals_the_kubelets() {
        let dialer = Dialer::new("2001:db8::1".parse().unwrap(), false);
        assert_eq!(dialer.authority(None, 80), "[2001:db8::1]:80");
        assert_eq!(dialer.authority(Some("web.example"), 80), "web.example:80");
        assert_eq!(dialer.authority(Some("[::1]"), 80), "[::1]:80");
    }

    #[test]
    fn legacy_switch_sends_probes_to_loopback() {
        for (pod, loopback) in [("10.0.0.1", "127.0.0.1:80"), ("2001:db8::1", "[::1]:80")] {
            let dialer = Dialer::new(pod.parse().unwrap(), true);
            assert_eq!(dialer.authority(None, 80), loopback);
        }
    }
}
