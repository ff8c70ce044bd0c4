//! UDP DNS that is not the pod's own: queries that it forwards for containers and virtual machines,
//! and queries to servers in the pod.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use e2e::netns::{Namespace, Owner};
use e2e::sockets::Listeners;
use e2e::wait::{PACKET_TIMEOUT, until};
use socket2::{Domain, Socket, Type};

use crate::iptables_rules::VARIANTS;
use crate::pod::Pod;
use crate::settings::Settings;

/// With the same port for each client, connection tracking has to keep three flows apart.
#[test]
fn forwarded_queries_are_answered() {
    for settings in variants() {
        let host = ContainerHost::create();
        host.pod.init(&settings);
        let captures = settings.has_switch("--redirect-dns");
        let app = if captures { "agent" } else { "world:53" };
        for server in ["192.168.77.1:53", "[fd77::1]:53"] {
            for (round, (who, expected)) in (1..).zip([
                (Client::Pod(1337), "world:53"),
                (Client::Container, "world:53"),
                (Client::Pod(1000), app),
                (Client::Container, "world:53"),
                (Client::Pod(1337), "world:53"),
            ]) {
                let answer = host.ask(who, server);
                assert_eq!(answer, expected, "{round}. {who:?} {server} {settings:?}");
            }
        }
    }
}

#[test]
fn servers_at_other_addresses_and_ports_answer() {
    for settings in variants() {
        let host = ContainerHost::create();
        host.pod.init(&settings);
        host.nft(PUBLISHED);
        for server in ["192.168.99.2:53", "[fd99::2]:53"] {
            assert_eq!(host.ask(Client::World, server), "container:53", "{server} {settings:?}");
        }
        host.nft(REDIRECTED);
        for server in ["192.168.77.2:53", "[fd77::2]:53"] {
            assert_eq!(host.ask(Client::World, server), "pod:8500", "{server} {settings:?}");
        }
    }
}

/// A pod that runs a container behind an interface of its own, as Docker does.
struct ContainerHost {
    // Listeners are dropped before their namespace.
    _listeners: Listeners,
    container: Namespace,
    pod: Pod,
}

/// Sender of a query.
#[derive(Clone, Copy, Debug)]
enum Client {
    /// A process of the pod, with this user.
    Pod(u32),
    Container,
    World,
}

impl ContainerHost {
    fn create() -> Self {
        let pod = Pod::create();
        let container = Namespace::create().expect("a namespace for the container");
        pod.namespace.connect("docker0", &container, "eth0").expect("a link");
        pod.namespace
            .ip("address add 172.17.0.1/16 dev docker0
                 address add fe80::1/64 dev docker0 nodad
                 address add fd17::1/64 dev docker0 nodad")
            .expect("addresses of the bridge");
        container
            .ip("address add 172.17.0.2/16 dev eth0
                 address add fe80::2/64 dev eth0 nodad
                 address add fd17::2/64 dev eth0 nodad
                 route add default via 172.17.0.1
                 route add default via fd17::1")
            .expect("addresses of the container");
        let forward = || {
            for file in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                fs::write(format!("/proc/sys/net/{file}"), "1").expect(file);
            }
        };
        pod.namespace.run(forward).expect("a thread in the pod");
        let listeners = Listeners::start(&container, "container", &[53]).expect("listeners");
        let host = Self { _listeners: listeners, container, pod };
        host.nft(MASQUERADE);
        start_agent(&host.pod.namespace);
        host
    }

    fn nft(&self, script: &str) {
        let mut nft = Command::new("nft");
        self.pod.namespace.output(nft.args(["-f", "-"]), script).expect(script);
    }

    /// Returns the listener that answers.
    fn ask(&self, who: Client, server: &str) -> String {
        let server = server.parse().expect("an address");
        let ask = || ask(server);
        match who {
            Client::Pod(uid) => self.pod.namespace.run_as(Owner { uid, gid: uid }, ask),
            Client::Container => self.container.run(ask),
            Client::World => self.pod.world.run(ask),
        }
        .expect("a thread in a namespace")
    }
}

/// Starts the agent's DNS proxy, which listens on loopback only. It ends some time after the last
/// query.
fn start_agent(pod: &Namespace) {
    for address in ["127.0.0.1:15053", "[::1]:15053"] {
        let address: SocketAddr = address.parse().expect("an address");
        let open = || {
            let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
            socket.set_reuse_address(true)?;
            socket.set_read_timeout(Some(AGENT_LIFETIME))?;
            socket.bind(&address.into()).map(|()| UdpSocket::from(socket))
        };
        let socket = pod.run(open).expect("a thread in the pod").expect("a socket");
        thread::spawn(move || {
            while let Ok((_, client)) = socket.recv_from(&mut [0; 64]) {
                // A client that is gone needs no answer.
                let _ = socket.send_to(b"agent", client);
            }
        });
    }
}

/// Sends a query from a fixed port. Like a resolver, it takes answers from the server's address
/// only.
pub(crate) fn ask(server: SocketAddr) -> String {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // A process that another test starts holds open sockets until it executes its program.
    let bind = || UdpSocket::bind((any, CLIENT_PORT)).map_err(|error| error.to_string());
    let socket = until("the port is free", bind).expect("a free port");
    socket.connect(server).expect("a route");
    socket.set_read_timeout(Some(PACKET_TIMEOUT)).expect("a time limit");
    let mut buffer = [0; 128];
    match socket.send(b"who?").and_then(|_| socket.recv(&mut buffer)) {
        Ok(length) => {
            let answer = String::from_utf8_lossy(&buffer[..length]).into_owned();
            answer.split(' ').next().unwrap_or_default().to_owned()
        }
        Err(error) => error.kind().to_string(),
    }
}

/// Without DNS capture, for the name servers of resolv.conf, and for all; by each backend.
fn variants() -> Vec<Settings> {
    let none = Settings::injected_dual();
    let dns = none.clone().with_switch("--redirect-dns");
    let some = dns.clone().with_name_servers(&["192.168.77.1", "fd77::1"]);
    let kinds = [none, some, dns.with_switch("--capture-all-dns")];
    let by_iptables = |settings: &Settings| {
        let settings = settings.clone();
        VARIANTS.map(|variant| settings.clone().by_iptables(variant))
    };
    kinds.iter().cloned().chain(kinds.iter().flat_map(by_iptables)).collect()
}

const CLIENT_PORT: u16 = 4000;
const AGENT_LIFETIME: Duration = Duration::from_secs(10);

const MASQUERADE: &str = "table inet docker {
    chain post {
        type nat hook postrouting priority 100
        ip saddr 172.17.0.0/16 oifname != \"docker0\" masquerade
        ip6 saddr fd17::/64 oifname != \"docker0\" masquerade
    }
}";
const PUBLISHED: &str = "table inet published {
    chain pre {
        type nat hook prerouting priority -100
        iifname \"net1\" udp dport 53 meta nfproto ipv4 dnat ip to 172.17.0.2
        iifname \"net1\" udp dport 53 meta nfproto ipv6 dnat ip6 to fd17::2
    }
}";
const REDIRECTED: &str = "table inet redirected {
    chain pre {
        type nat hook prerouting priority -100
        iifname \"eth0\" udp dport 53 redirect to :8500
    }
}";
