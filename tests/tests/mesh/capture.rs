//! Packets between pods, as the node sees them.

use std::io::{ErrorKind, Read};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use socket2::{Domain, Protocol, Socket, Type};

/// A running capture of the packets from and to a pod.
pub(crate) struct Capture {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Vec<u8>>>>,
}

impl Capture {
    /// Starts to capture on all interfaces of the node.
    pub(crate) fn start(pod: Ipv4Addr) -> Result<Self> {
        let protocol = Protocol::from(i32::from(ALL_PROTOCOLS.to_be()));
        let mut socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))
            .context("opening a packet socket")?;
        socket.set_recv_buffer_size(BUFFER)?;
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        let stop = Arc::new(AtomicBool::default());
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (mut packets, mut packet) = (Vec::new(), vec![0; 1 << 16]);
            loop {
                match socket.read(&mut packet) {
                    Ok(length) if is_of(&packet[..length], pod) => {
                        packets.push(packet[..length].to_vec());
                    }
                    Ok(_) => {}
                    // All packets that were sent before have been read.
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        if stopped.load(Ordering::Relaxed) {
                            return Ok(packets);
                        }
                    }
                    Err(error) => return Err(error).context("reading packets"),
                }
            }
        });
        Ok(Self { stop, thread })
    }

    /// Ends the capture, and returns the packets.
    pub(crate) fn packets(self) -> Result<Vec<Vec<u8>>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the capture panicked"))?
    }
}

/// True if an Ethernet frame has an IPv4 packet from or to the address.
fn is_of(frame: &[u8], address: Ipv4Addr) -> bool {
    let octets = address.octets();
    frame.get(12..14) == Some(&[0x08, 0x00])
        && (frame.get(26..30) == Some(&octets) || frame.get(30..34) == Some(&octets))
}

/// `ETH_P_ALL` of packet(7).
const ALL_PROTOCOLS: u16 = 3;
const BUFFER: usize = 16 << 20;
