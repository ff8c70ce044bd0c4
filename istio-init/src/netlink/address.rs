//! Addresses of the namespace, over rtnetlink (kernel `include/uapi/linux/if_addr.h`).

use std::net::IpAddr;

use rustix::io::Errno;

use super::attribute_value;
use super::dump::dump;
use super::error::KernelError;
use super::message::{ACK, CREATE, EXCLUSIVE, Header, Messages, attribute, family_number};
use super::socket::Socket;
use crate::config::PASSTHROUGH_V6;
use crate::types::family::Family;

/// Returns the addresses of all interfaces in the kernel's order: IPv4 before IPv6, then by
/// interface.
pub fn addresses() -> Result<Vec<IpAddr>, KernelError> {
    let list = || {
        let socket = Socket::route()?;
        dump(&socket, GET_ADDRESS, &[0; ADDRESS_MESSAGE_LENGTH], &|_| {})
            .map_err(|errno| KernelError::List { objects: "addresses", cause: errno.into() })
    };
    Ok(list()?.iter().filter_map(|payload| address(payload)).collect())
}

/// True if an interface has the proxy's IPv6 source address.
pub(crate) fn has_passthrough() -> Result<bool, KernelError> {
    Ok(addresses()?.contains(&PASSTHROUGH_V6.into()))
}

/// Adds the proxy's IPv6 source address to the loopback interface. Returns false if it is there
/// already.
pub(crate) fn add_passthrough() -> Result<bool, KernelError> {
    match request(NEW_ADDRESS, CREATE | EXCLUSIVE)? {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(KernelError::AddAddress(errno.into())),
    }
}

/// Removes this address if it exists.
pub(crate) fn remove_passthrough() -> Result<(), KernelError> {
    match request(DELETE_ADDRESS, 0)? {
        // The last four: no such address, or no IPv6.
        Ok(()) | Err(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT | Errno::OPNOTSUPP | Errno::NXIO) => {
            Ok(())
        }
        Err(errno) => Err(KernelError::RemoveAddress(errno.into())),
    }
}

/// Parses an address message. A point-to-point interface has a peer address as well.
pub(crate) fn address(payload: &[u8]) -> Option<IpAddr> {
    let values = payload.get(ADDRESS_MESSAGE_LENGTH..)?;
    let bytes = attribute(values, LOCAL).or_else(|| attribute(values, ADDRESS))?;
    attribute_value::address(bytes)
}

/// Adds an address to an interface in the network namespace of `socket`.
pub(crate) fn add(
    socket: &Socket,
    interface: u32,
    address: IpAddr,
    prefix_length: u8,
) -> Result<(), Errno> {
    change(socket, NEW_ADDRESS, CREATE | EXCLUSIVE, interface, address, prefix_length)
}

fn request(kind: u16, flags: u16) -> Result<Result<(), Errno>, KernelError> {
    let socket = Socket::route()?;
    Ok(change(&socket, kind, flags, LOOPBACK_INDEX, PASSTHROUGH_V6.into(), 128))
}

fn change(
    socket: &Socket,
    kind: u16,
    flags: u16,
    interface: u32,
    address: IpAddr,
    prefix_length: u8,
) -> Result<(), Errno> {
    let (family, bytes) = match address {
        IpAddr::V4(v4) => (family_number(Family::V4), v4.octets().to_vec()),
        IpAddr::V6(v6) => (family_number(Family::V6), v6.octets().to_vec()),
    };
    let mut messages = Messages::default();
    let mut fixed = [0; ADDRESS_MESSAGE_LENGTH];
    fixed[0] = family;
    fixed[1] = prefix_length;
    fixed[2] = NO_DUPLICATE_DETECTION;
    fixed[4..].copy_from_slice(&interface.to_ne_bytes());
    messages.push(Header { kind, flags: flags | ACK, sequence: 1 }, &fixed, |attributes| {
        attributes.bytes(LOCAL, &bytes);
        attributes.bytes(ADDRESS, &bytes);
    });
    socket.change(messages.as_bytes())
}

/// `RTM_NEWADDR`.
const NEW_ADDRESS: u16 = 20;
/// `RTM_DELADDR`.
const DELETE_ADDRESS: u16 = 21;
/// `RTM_GETADDR`.
const GET_ADDRESS: u16 = 22;
/// `IFA_ADDRESS`: the peer's address on a point-to-point interface.
const ADDRESS: u16 = 1;
/// `IFA_LOCAL`: the interface's own address.
const LOCAL: u16 = 2;
/// `struct ifaddrmsg`: family, prefix length, flags, scope, and the interface in four bytes.
const ADDRESS_MESSAGE_LENGTH: usize = 8;
/// `IFA_F_NODAD`: skips duplicate address detection, which would delay the address. Loopback and a
/// private veth pair cannot have duplicates.
const NO_DUPLICATE_DETECTION: u8 = 0x02;
/// The loopback interface is the first of every network namespace.
const LOOPBACK_INDEX: u32 = 1;
