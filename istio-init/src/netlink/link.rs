//! Network interfaces, over rtnetlink (kernel `include/uapi/linux/if_link.h`).

use super::error::KernelError;
use super::message::{ACK, Header, Messages};
use super::socket::Socket;

/// Sets an interface of this network namespace up. Does nothing if it is up.
pub fn set_up(link: &str) -> Result<(), KernelError> {
    let mut messages = Messages::default();
    let header = Header { kind: SET_LINK, flags: ACK, sequence: 1 };
    messages.push(header, &link_message(UP), |a| a.text(NAME, link));
    Socket::route()?.change(messages.as_bytes()).map_err(|errno| KernelError::Routing {
        step: format!("ip link set {link} up"),
        cause: errno.into(),
    })
}

/// `struct ifinfomsg`: family, unused byte, type, index, flags, and the flags to change.
pub(super) fn link_message(flags: u32) -> [u8; 16] {
    let mut message = [0; 16];
    message[8..12].copy_from_slice(&flags.to_ne_bytes());
    message[12..].copy_from_slice(&flags.to_ne_bytes());
    message
}

/// `RTM_SETLINK`.
pub(super) const SET_LINK: u16 = 19;
/// `IFLA_IFNAME`.
pub(super) const NAME: u16 = 3;
/// `IFF_UP`.
pub(super) const UP: u32 = 0x1;
