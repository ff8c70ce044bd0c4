//! Deletion of entries in the kernel's connection tracking table.

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

/// Deletes all connection tracking entries in the network namespace of the calling thread, closed
/// connections included. No new connection can then be confused with an old one of the same ports.
pub fn forget_connections() -> Result<()> {
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(NETFILTER))
            .context("opening a netlink socket")?;
    bind(&socket, &SocketAddrNetlink::new(0, 0)).context("binding a netlink socket")?;
    send(&socket, &request(), SendFlags::empty()).context("asking for connections to go")?;
    let mut answer = [0; 64];
    let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty()).context("its answer")?;
    let code = answer[..length].get(16..20).and_then(|code| code.try_into().ok());
    let code = code.map(i32::from_ne_bytes).context("an answer without a code")?;
    ensure!(code == 0, "connections stay: {}", Errno::from_raw_os_error(code.saturating_neg()));
    Ok(())
}

/// Returns `struct nlmsghdr` and `struct nfgenmsg` without a tuple, which selects all connections
/// (kernel `include/uapi/linux/netfilter/nfnetlink_conntrack.h`).
fn request() -> Vec<u8> {
    const LENGTH: u32 = 20;
    const CTNETLINK_DELETE: u16 = 1 << 8 | 2;
    const REQUEST_AND_ACK: u16 = 1 | 4;
    let header = [
        &LENGTH.to_ne_bytes()[..],
        &CTNETLINK_DELETE.to_ne_bytes(),
        &REQUEST_AND_ACK.to_ne_bytes(),
        &[0; 8],
    ];
    [&header.concat()[..], &[0; 4]].concat()
}
