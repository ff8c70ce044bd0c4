//! Netlink sockets.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, netdevice,
    netlink, recv, send, socket_with, sockopt,
};

use super::error::KernelError;
use super::message::{ERROR, outcome, received};

/// A netlink socket of this process.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// Opens a socket to the kernel's packet filters.
    pub(crate) fn netfilter() -> Result<Self, KernelError> {
        Self::open(netlink::NETFILTER, "nf_tables", SocketFlags::CLOEXEC)
    }

    /// Opens a netfilter socket that programs started by this process inherit.
    pub(crate) fn netfilter_for_children() -> Result<Self, KernelError> {
        Self::open(netlink::NETFILTER, "nf_tables", SocketFlags::empty())
    }

    /// Opens a socket to the kernel's addresses and routes.
    pub(crate) fn route() -> Result<Self, KernelError> {
        // Protocol 0 of this family.
        Self::open(None, "addresses", SocketFlags::CLOEXEC)
    }

    fn open(
        number: impl Into<Option<Protocol>>,
        protocol: &'static str,
        flags: SocketFlags,
    ) -> Result<Self, KernelError> {
        let open = || {
            let socket =
                socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, number.into())?;
            bind(&socket, &SocketAddrNetlink::new(0, 0))?;
            Ok(Self(socket))
        };
        open().map_err(|errno: Errno| KernelError::Socket { protocol, cause: errno.into() })
    }

    /// Sends messages as one unit. The kernel has handled them when this returns.
    pub(crate) fn send(&self, messages: &[u8]) -> Result<(), Errno> {
        if messages.len() > USUAL_SEND_BUFFER {
            // A transaction must fit into the buffer, with overhead. CAP_NET_ADMIN allows exceeding
            // net.core.wmem_max, but not from another user namespace.
            let size = messages.len().saturating_mul(2);
            let _ = sockopt::set_socket_send_buffer_size_force(&self.0, size)
                .or_else(|_| sockopt::set_socket_send_buffer_size(&self.0, size));
        }
        send(&self.0, messages, SendFlags::empty()).map(drop)
    }

    /// Sends one change, and returns the kernel's answer to it.
    pub(crate) fn change(&self, message: &[u8]) -> Result<(), Errno> {
        self.send(message)?;
        let mut buffer = vec![0; RECEIVE_BUFFER];
        let answer = received(self.receive(&mut buffer)?).find(|message| message.kind == ERROR);
        answer.map_or(Err(Errno::BADMSG), |message| outcome(message.payload))
    }

    /// Returns the index of an interface in this socket's network namespace.
    pub(crate) fn index_of(&self, link: &str) -> Result<u32, Errno> {
        netdevice::name_to_index(&self.0, link)
    }

    /// Receives the next messages; `AGAIN` if there are none.
    pub(crate) fn receive<'a>(&self, buffer: &'a mut [u8]) -> Result<&'a [u8], Errno> {
        loop {
            match recv(&self.0, &mut *buffer, RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
                Ok((length, _)) => return Ok(&buffer[..length.min(buffer.len())]),
            }
        }
    }
}

/// Room for whatever the kernel puts into one answer (`NLMSG_GOODSIZE` is at most this).
pub(crate) const RECEIVE_BUFFER: usize = 32 * 1024;

/// Below the default of `net.core.wmem_default`, which is about 208 KiB.
const USUAL_SEND_BUFFER: usize = 128 * 1024;
