//! The Service in front of the replicas, with connections in turn to each.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards connections, at every address of the Services' range. TLS passes through unchanged.
#[derive(Debug)]
pub(crate) struct Balancer {
    backends: Arc<Backends>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Backends {
    addresses: Mutex<Vec<SocketAddr>>,
    next: AtomicUsize,
    blocked: AtomicBool,
    /// Number of connections of each replica.
    busy: watch::Sender<BTreeMap<SocketAddr, usize>>,
}

impl Balancer {
    /// Listens on the port of the Service.
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, HTTPS))
            .await
            .context("listening as the Service")?;
        let backends = Arc::<Backends>::default();
        let task = tokio::spawn(accept(listener, Arc::clone(&backends)));
        Ok(Self { backends, task })
    }

    /// Sets the addresses for further connections.
    pub(crate) fn set(&self, addresses: Vec<SocketAddr>) {
        *self.backends.addresses.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    /// Waits until a replica has no connections.
    pub(crate) async fn until_idle(&self, address: SocketAddr) {
        let mut busy = self.backends.busy.subscribe();
        // The sender lives as long as this value.
        let _ = busy.wait_for(|busy| busy.get(&address).is_none_or(|count| *count == 0)).await;
    }

    /// Swallows connections without an answer, as a firewall does, if `blocked`.
    pub(crate) fn block(&self, blocked: bool) {
        self.backends.blocked.store(blocked, Ordering::Relaxed);
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, backends: Arc<Backends>) {
    // A connection that broke in the queue is skipped.
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let backends = Arc::clone(&backends);
        tokio::spawn(async move {
            // The peer sees the break of a connection.
            let _ = pass(client, &backends).await;
        });
    }
}

async fn pass(mut client: TcpStream, backends: &Backends) -> std::io::Result<()> {
    if backends.blocked.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
    client.set_nodelay(true)?;
    let addresses = backends.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let first = backends.next.fetch_add(1, Ordering::Relaxed);
    // A replica that was just killed refuses connections; the next one takes over, as with any load
    // balancer.
    for turn in 0..addresses.len() {
        let address = addresses[(first + turn) % addresses.len()];
        if let Ok(mut server) = TcpStream::connect(address).await {
            server.set_nodelay(true)?;
            backends.busy.send_modify(|busy| *busy.entry(address).or_default() += 1);
            let passed = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            drop(client);
            let end = |busy: &mut BTreeMap<_, usize>| {
                busy.entry(address).and_modify(|count| *count -= 1);
            };
            backends.busy.send_modify(end);
            return passed.map(drop);
        }
    }
    Ok(())
}

const HTTPS: u16 = 443;
