//! Packets that no ordinary socket sends.

use std::io::{ErrorKind, Read};
use std::net::{IpAddr, SocketAddr};

use e2e::wait::PACKET_TIMEOUT;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// Raw socket between two addresses, in the namespace of the thread that opened it.
pub(crate) struct Raw {
    socket: Socket,
    source: IpAddr,
    target: IpAddr,
}

/// Reply of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// For TCP, the source port.
    pub(crate) port: u16,
    /// For TCP, the flags; for ICMP, the type.
    pub(crate) kind: u8,
}

impl Raw {
    pub(crate) fn tcp(source: IpAddr, target: IpAddr) -> Self {
        Self::open(source, target, Protocol::TCP)
    }

    pub(crate) fn icmp(source: IpAddr, target: IpAddr) -> Self {
        let protocol = if target.is_ipv4() { Protocol::ICMPV4 } else { Protocol::ICMPV6 };
        Self::open(source, target, protocol)
    }

    fn open(source: IpAddr, target: IpAddr, protocol: Protocol) -> Self {
        let domain = if target.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let socket = Socket::new(domain, Type::RAW, Some(protocol)).expect("a raw socket");
        socket.bind(&SockAddr::from(SocketAddr::new(source, 0))).expect("the source address");
        socket.set_read_timeout(Some(PACKET_TIMEOUT)).expect("a time limit");
        Self { socket, source, target }
    }

    /// Sends an empty segment with these flags.
    pub(crate) fn send_segment(&self, from_port: u16, to_port: u16, flags: u8) {
        let mut segment = [0; 20];
        segment[..2].copy_from_slice(&from_port.to_be_bytes());
        segment[2..4].copy_from_slice(&to_port.to_be_bytes());
        segment[4..8].copy_from_slice(&1000_u32.to_be_bytes());
        segment[8..12].copy_from_slice(&2000_u32.to_be_bytes());
        segment[12] = 5 << 4;
        segment[13] = flags;
        segment[14..16].copy_from_slice(&4096_u16.to_be_bytes());
        let sum = self.checksum(TCP, &segment);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        self.send(&segment);
    }

    /// Sends an empty ICMP message of a type.
    pub(crate) fn send_message(&self, kind: u8) {
        let mut message = [kind, 0, 0, 0, 0x12, 0x34, 0, 1];
        // The kernel computes the checksum of ICMPv6.
        if self.target.is_ipv4() {
            let sum = folded(sum_of(&message));
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        self.send(&message);
    }

    /// Receives the next packet that the target sends here.
    pub(crate) fn receive(&self) -> Reply {
        loop {
            let mut buffer = [0; 256];
            let length = match (&self.socket).read(&mut buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => panic!("nothing from {}: {error}", self.target),
            };
            // An IPv4 packet has its header, and every raw socket of the protocol receives it.
            let header = if self.target.is_ipv4() { usize::from(buffer[0] & 15) * 4 } else { 0 };
            let payload = &buffer[header..length];
            let port = u16::from_be_bytes([payload[0], payload[1]]);
            let is_tcp = self.socket.protocol().expect("a protocol") == Some(Protocol::TCP);
            return Reply {
                port: if is_tcp { port } else { 0 },
                kind: if is_tcp { payload[13] } else { payload[0] },
            };
        }
    }

    fn send(&self, bytes: &[u8]) {
        let target = SockAddr::from(SocketAddr::new(self.target, 0));
        self.socket.send_to(bytes, &target).expect("a raw packet");
    }

    fn checksum(&self, protocol: u8, payload: &[u8]) -> u16 {
        let addresses = match (self.source, self.target) {
            (IpAddr::V4(source), IpAddr::V4(target)) => {
                sum_of(&source.octets()) + sum_of(&target.octets())
            }
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                sum_of(&source.octets()) + sum_of(&target.octets())
            }
            _ => panic!("addresses of two families"),
        };
        let length = u32::try_from(payload.len()).expect("a short packet");
        folded(addresses + u32::from(protocol) + length + sum_of(payload))
    }
}

fn sum_of(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum()
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("folded")
}

pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const ACK: u8 = 0x10;

const TCP: u8 = 6;
