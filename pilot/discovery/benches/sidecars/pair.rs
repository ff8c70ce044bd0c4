//! The sidecars of a client and a server, each in a network namespace of its pod.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use e2e::http;
use e2e::netns::Namespace;
use e2e::process::Process;
use e2e::programs::Programs;
use e2e::run_folder::RunFolder;

use crate::{load, usage};

/// Pods of the client and the server.
pub(crate) struct Hosts {
    pub(crate) client: Namespace,
    pub(crate) server: Namespace,
}

impl Hosts {
    /// Connects the pods. Inbound connections of both pairs are captured alike.
    pub(crate) fn create() -> Self {
        let [client, server] = [(); 2].map(|()| Namespace::create().unwrap());
        client.connect("eth0", &server, "eth0").unwrap();
        client.ip(&format!("address add {CLIENT}/24 dev eth0")).unwrap();
        server.ip(&format!("address add {SERVER}/24 dev eth0")).unwrap();
        let rules = format!(
            "table ip capture {{\nchain inbound {{\ntype nat hook prerouting priority dstnat;\n\
             iifname eth0 tcp dport {} redirect to :{GENERATED_INBOUND}\n\
             iifname eth0 tcp dport {HANDWRITTEN_PORT} redirect to :{HANDWRITTEN_INBOUND}\n\
             }}\n}}\n",
            APPLICATION.port()
        );
        server.output(Command::new("nft").args(["-f", "-"]), &rules).unwrap();
        Self { client, server }
    }
}

/// Starts a program by its path in a namespace. A thread that enters it would end too early: the
/// kernel ends a process with the thread that has started it.
pub(crate) fn start_in(
    namespace: &Namespace,
    folder: &RunFolder,
    name: &str,
    command: &[impl AsRef<str>],
) -> Process {
    let enter = ["netns", "exec", namespace.name()];
    let words = enter.into_iter().chain(command.iter().map(AsRef::as_ref));
    let ip = Programs::find().unwrap().system("ip").unwrap();
    Process::start(folder, name, &ip, words).unwrap()
}

/// Two sidecars. They end with the value.
pub(crate) struct Pair {
    /// Address of the client's listener.
    pub(crate) listener: SocketAddr,
    /// Admin port of the server's Envoy.
    pub(crate) admin: u16,
    /// Envoys, or the agents that have started them.
    pub(crate) sidecars: Vec<Process>,
    /// Control planes.
    pub(crate) _servers: Vec<Process>,
}

/// Requests through a pair.
#[derive(Default)]
pub(crate) struct Measurement {
    pub(crate) latencies: Vec<Duration>,
    pub(crate) elapsed: Duration,
    /// CPU time of both Envoys.
    pub(crate) cpu: Duration,
    /// Connections that the server's pod has accepted.
    pub(crate) connections: usize,
}

impl Measurement {
    pub(crate) fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.elapsed += other.elapsed;
        self.cpu += other.cpu;
        self.connections += other.connections;
    }
}

impl Pair {
    pub(crate) fn wait_until_it_answers(&mut self, hosts: &Hosts) {
        let listener = self.listener;
        let probe = || Ok(hosts.client.run(|| load::probe(listener))??);
        self.sidecars[0].wait_until("the first answer", probe).unwrap();
    }

    /// Sends requests on each of some connections to the client's sidecar.
    pub(crate) fn measure(&self, hosts: &Hosts, count: usize, requests: usize) -> Measurement {
        let envoys: Vec<_> = self.sidecars.iter().map(|sidecar| envoy(sidecar.id())).collect();
        let cpu = || envoys.iter().map(|id| usage::cpu(*id)).sum::<Duration>();
        let (cpu_before, accepted) = (cpu(), connections(&hosts.server));
        let load = || load::run(self.listener, count, requests);
        let (latencies, elapsed) = hosts.client.run(load).unwrap();
        Measurement {
            latencies,
            elapsed,
            cpu: cpu().saturating_sub(cpu_before),
            connections: connections(&hosts.server) - accepted,
        }
    }

    /// Has the server's Envoy close each connection after its response, as while it drains: the
    /// client's Envoy needs a new connection for each request.
    pub(crate) fn close_after_responses(&self, hosts: &Hosts, is_wanted: bool) {
        let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, self.admin));
        let path = if is_wanted { "/healthcheck/fail" } else { "/healthcheck/ok" };
        let response = hosts.server.run(|| http::send(admin, "POST", path)).unwrap();
        response.unwrap().expect_ok().unwrap();
    }
}

/// Returns the Envoy that is this process or a descendant.
fn envoy(process: u32) -> u32 {
    let running = fs::read_dir("/proc").unwrap().flatten();
    let mut numbers = running.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let found = numbers.find(|id| {
        let mut ancestors = std::iter::successors(Some(*id), |id| parent(*id));
        field(*id, "Name:").is_some_and(|name| name == "envoy")
            && ancestors.any(|ancestor| ancestor == process)
    });
    found.unwrap_or_else(|| panic!("process {process} has no Envoy"))
}

fn parent(process: u32) -> Option<u32> {
    field(process, "PPid:")?.parse().ok()
}

/// Returns a field of a process; `None` if the process has ended.
fn field(process: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().to_owned())
}

/// TCP connections that were accepted in a namespace so far.
fn connections(namespace: &Namespace) -> usize {
    let text = namespace.run(|| fs::read_to_string("/proc/thread-self/net/snmp")).unwrap().unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut fields = names.split(' ').zip(values.split(' '));
    fields.find(|(name, _)| *name == "PassiveOpens").unwrap().1.parse().unwrap()
}

pub(crate) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 9, 7, 1);
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 9, 7, 2);
/// Address of the application, and port on which generated endpoints are captured.
pub(crate) const APPLICATION: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(SERVER), 8080);
/// Port of the server's pod that leads to the Envoy configured by hand.
pub(crate) const HANDWRITTEN_PORT: u16 = 8081;
pub(crate) const HANDWRITTEN_INBOUND: u16 = 15106;
const GENERATED_INBOUND: u16 = 15006;
pub(crate) const CLIENT_IDENTITY: &str = "spiffe://cluster.local/ns/shop/sa/client";
pub(crate) const SERVER_IDENTITY: &str = "spiffe://cluster.local/ns/shop/sa/web";
