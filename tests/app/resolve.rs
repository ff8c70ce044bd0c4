//! Names, resolved by the C library as by any program.

use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs};

/// Returns the name, and its addresses in order. A name that has none stands alone.
pub(crate) fn line(name: &str) -> String {
    let addresses: BTreeSet<String> = (name, 0)
        .to_socket_addrs()
        .map(|found| found.map(|address: SocketAddr| address.ip().to_string()).collect())
        .unwrap_or_default();
    [name.to_owned()].into_iter().chain(addresses).collect::<Vec<_>>().join(" ")
}
