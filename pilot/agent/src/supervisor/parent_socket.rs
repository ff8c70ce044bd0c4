//! Address of a parent that has exited.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Socket with the address of a parent that has exited, held while its child lives.
///
/// At the end of the shutdown time, the child tells its parent to exit. If a signal has ended the
/// parent before, Envoy repeats the message for 10 s, blocks meanwhile, and aborts. Here the
/// message arrives, and is not read.
#[derive(Debug)]
pub(super) struct ParentSocket {
    _socket: UnixDatagram,
}

impl ParentSocket {
    /// Binds the address of an epoch.
    pub(super) fn bind(base_id: u32, epoch: u32) -> io::Result<Self> {
        let address = SocketAddr::from_abstract_name(name(base_id, epoch))?;
        Ok(Self { _socket: UnixDatagram::bind_addr(&address)? })
    }
}

/// Returns Envoy's abstract name, which fills the address. Its number is a sum of a signed base of
/// 32 bits and an unsigned epoch of 64.
fn name(base_id: u32, epoch: u32) -> Vec<u8> {
    let base = i64::from(base_id.wrapping_mul(10).cast_signed()).cast_unsigned();
    let number = base.wrapping_add(u64::from(epoch % EPOCHS));
    let mut name = format!("envoy_domain_socket_parent_{number}").into_bytes();
    name.resize(LENGTH, 0);
    name
}

/// Number of epochs with different addresses.
const EPOCHS: u32 = 3;
/// Length of an address's path, without the first byte of an abstract one.
const LENGTH: usize = 107;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_has_number_of_base_and_epoch() {
        let name = name(778_899, 4);
        assert!(name.starts_with(b"envoy_domain_socket_parent_7788991\0"));
        assert_eq!(name.len(), 107);
    }

    #[test]
    fn number_of_a_large_base_is_that_of_envoy() {
        let name = name(239_301_460, 0);
        assert!(name.starts_with(b"envoy_domain_socket_parent_18446744071807598920\0"));
    }
}
