//! Floods of connections from callers that do nothing useful with them.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::ClientConfig;

use crate::client::{Client, tcp_from};
use crate::program::until;

/// Beginning of a connection, after which its client is silent.
#[derive(Clone)]
pub(crate) enum Opening {
    Plain(&'static [u8]),
    Tls(Arc<ClientConfig>, &'static [u8]),
}

/// A flood that lasts until the value is dropped.
pub(crate) struct Flood {
    stop: Arc<AtomicBool>,
    dropped: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// Keeps `count` connections open, in turns from `sources` addresses. Replaces each connection
    /// that the server drops.
    pub(crate) fn start(address: SocketAddr, sources: u8, count: usize, opening: Opening) -> Self {
        let (stop, dropped) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (is_over, counted) = (Arc::clone(&stop), Arc::clone(&dropped));
        let run = move || {
            let mut held: Vec<Option<TcpStream>> = (0..count).map(|_| None).collect();
            while !is_over.load(Ordering::Relaxed) {
                for (index, stream) in held.iter_mut().enumerate() {
                    if stream.as_mut().is_some_and(is_open) {
                        continue;
                    }
                    if stream.is_some() {
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                    let last = u8::try_from(index % usize::from(sources)).unwrap_or_default();
                    *stream = opening.open(Ipv4Addr::new(127, 0, 1, 1 + last), address);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        Self { stop, dropped, thread: Some(std::thread::spawn(run)) }
    }

    /// Waits until the server has begun to drop connections of the flood.
    pub(crate) fn until_dropped(&self) {
        until("the flood takes every slot", || self.dropped.load(Ordering::Relaxed) > 10);
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Opening {
    /// Opens a connection; `None` if the server drops it before.
    fn open(&self, source: Ipv4Addr, address: SocketAddr) -> Option<TcpStream> {
        let mut stream = tcp_from(source, address).ok()?;
        let stream = match self {
            Self::Plain(bytes) => {
                stream.write_all(bytes).ok()?;
                stream
            }
            Self::Tls(config, bytes) => {
                let mut client = Client::connect_over(stream, Arc::clone(config)).ok()?;
                client.try_send(bytes).ok()?;
                client.into_tcp()
            }
        };
        stream.set_nonblocking(true).ok()?;
        Some(stream)
    }
}

fn is_open(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 4096]) {
        Ok(length) => length > 0,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}
