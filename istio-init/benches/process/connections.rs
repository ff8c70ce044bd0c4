//! Cost of rules per connection: connections per second with few ranges and with many.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::net::sockopt::set_socket_linger;

use super::netns::{Namespace, Owner};
use super::succeed;

/// Prints connections per second through one excluded range and through many, by backend.
pub(crate) fn compare(program: &Path, cidrs: &str) -> Result<()> {
    println!("\n| new connections in a second, best of {ROUNDS} | 1 CIDR | 1,000 CIDRs | ratio |");
    println!("| --- | --- | --- | --- |");
    for backend in ["nftables", "iptables"] {
        let few = prepared(program, backend, "10.0.0.0/25")?;
        let many = prepared(program, backend, cidrs)?;
        let (mut best_few, mut best_many) = (0.0_f64, 0.0_f64);
        // Alternates, so that noise of the machine affects both.
        for _ in 0..ROUNDS {
            best_few = best_few.max(few.pod.run_as(APPLICATION, rate)??);
            best_many = best_many.max(many.pod.run_as(APPLICATION, rate)??);
        }
        let ratio = best_many / best_few;
        println!("| {backend} | {best_few:.0} | {best_many:.0} | {ratio:.2} |");
    }
    Ok(())
}

/// A pod with a second interface whose packets no rule redirects.
struct Networked {
    pod: Namespace,
    _world: Namespace,
}

fn prepared(program: &Path, backend: &str, cidrs: &str) -> Result<Networked> {
    let (pod, world) = (Namespace::create()?, Namespace::create()?);
    pod.connect("eth0", &world, "pod")?;
    pod.ip("addr add 192.0.2.2/24 dev eth0\nroute add default via 192.0.2.1 dev eth0")?;
    let arguments = ["-u", "1337", "-b", "*", "-i", "*", "-x", cidrs, "--backend", backend];
    pod.run(|| succeed(program, &arguments))??;
    Ok(Networked { pod, _world: world })
}

/// Connects to an address that no range holds, which the rules send to the proxy's port.
fn rate() -> Result<f64> {
    let proxy = TcpListener::bind((Ipv4Addr::LOCALHOST, OUTBOUND))?;
    let destination = SocketAddr::from(([198, 51, 100, 7], 80));
    let start = Instant::now();
    for _ in 0..CONNECTIONS {
        let ours = TcpStream::connect_timeout(&destination, LONGEST)?;
        let (theirs, _) = proxy.accept()?;
        // A reset frees the port at once.
        set_socket_linger(&theirs, Some(Duration::ZERO))?;
        drop((theirs, ours));
    }
    Ok(f64::from(CONNECTIONS) / start.elapsed().as_secs_f64())
}

const APPLICATION: Owner = Owner { uid: 1000, gid: 1000 };
const CONNECTIONS: u32 = 2_000;
/// Port of the proxy's outbound listener.
const OUTBOUND: u16 = 15001;
/// A longer connection attempt was not redirected.
const LONGEST: Duration = Duration::from_secs(5);
const ROUNDS: u32 = 5;
