//! Port numbers for programs that get theirs as a flag.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

/// Returns a port that no process listens on, and that is given to no other caller, neither in this
/// process nor in another one in this network namespace.
///
/// A port that the kernel assigns and releases does not suffice: of four thousand rounds with ten
/// ports, twenty-eight got a port twice, and the second program to bind it fails. The range is
/// below that of outgoing connections (`net.ipv4.ip_local_port_range`, unless changed), so no
/// outgoing connection takes the port first.
pub fn free_port() -> Result<u16> {
    static PORTS: Mutex<Ports> = Mutex::new(Ports::none());
    PORTS.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Blocks of ports that this process has claimed, and the rest of the last one.
#[derive(Debug)]
struct Ports {
    left: Range<u16>,
    claims: Vec<UnixDatagram>,
}

impl Ports {
    const fn none() -> Self {
        Self { left: 0..0, claims: Vec::new() }
    }

    fn take(&mut self) -> Result<u16> {
        loop {
            match self.left.next() {
                // A program that does not use claims may listen there.
                Some(port) if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() => {
                    return Ok(port);
                }
                Some(_) => {}
                None => self.claim()?,
            }
        }
    }

    /// Claims a block. A socket's abstract name belongs to one process in the network namespace, as
    /// ports do, and the kernel releases it in any case when the process ends.
    fn claim(&mut self) -> Result<()> {
        let blocks = (RANGE.end - RANGE.start) / BLOCK;
        let first = u16::try_from(std::process::id() % u32::from(blocks)).unwrap_or_default();
        for block in (0..blocks).map(|turn| (first + turn) % blocks) {
            let name = SocketAddr::from_abstract_name(format!("outrigger-ports-{block}"))?;
            match UnixDatagram::bind_addr(&name) {
                Ok(claim) => {
                    let start = RANGE.start + block * BLOCK;
                    self.left = start..start + BLOCK;
                    self.claims.push(claim);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                Err(error) => return Err(error).context("claiming a block of ports"),
            }
        }
        bail!("each of the {blocks} blocks of ports is claimed by a test that runs")
    }
}

/// A range below the kernel's own, apart from Istio's ports and from `NodePort`s.
const RANGE: Range<u16> = 18000..30000;
const BLOCK: u16 = 200;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::thread;

    use super::*;

    #[test]
    fn ports_are_unique() {
        let takers: Vec<_> = (0..4)
            .map(|_| thread::spawn(|| (0..100).map(|_| free_port().unwrap()).collect::<Vec<_>>()))
            .collect();
        let taken: Vec<_> = takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect();
        assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), taken.len());
        assert!(taken.iter().all(|port| RANGE.contains(port)));
    }

    #[test]
    fn processes_have_disjoint_port_blocks() {
        let (mut one, mut other) = (Ports::none(), Ports::none());
        let block = |ports: &mut Ports| (ports.take().unwrap() - RANGE.start) / BLOCK;
        assert_ne!(block(&mut one), block(&mut other));
        let name = one.claims[0].local_addr().unwrap();
        assert!(UnixDatagram::bind_addr(&name).is_err());
        drop(one);
        UnixDatagram::bind_addr(&name).unwrap();
    }

    #[test]
    fn port_with_a_listener_is_skipped() {
        let mut ports = Ports::none();
        let first = ports.take().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, first + 1)).unwrap();
        assert_eq!(ports.take().unwrap(), first + 2);
        drop(listener);
    }
}
