//! Network namespace of a pod, whose addresses are on loopback: no packet leaves it.

use std::net::{IpAddr, TcpListener, TcpStream};

use e2e::netns::Namespace;
use e2e::wait;

/// Creates a pod with these addresses.
pub(crate) fn create(addresses: &[&str]) -> Namespace {
    let pod = Namespace::create().unwrap();
    for address in addresses {
        let length = if address.contains(':') { "128 dev lo nodad" } else { "32 dev lo" };
        pod.ip(&format!("address add {address}/{length}")).unwrap();
    }
    pod
}

/// Waits until connections between these addresses succeed: the kernel adds the route of an IPv6
/// address some time after the address.
pub(crate) fn wait_for_routes(pod: &Namespace, addresses: &[&str]) {
    for address in addresses {
        let address: IpAddr = address.parse().unwrap();
        let connect = || {
            let listener = TcpListener::bind((address, 0))?;
            TcpStream::connect(listener.local_addr()?)
        };
        wait::until("the address has a route", || pod.run(connect).unwrap()).unwrap();
    }
}
