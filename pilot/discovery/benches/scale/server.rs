//! The server in a process of its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child as Process, ChildStdin, Command, Stdio};
use std::time::Duration;

use mesh::mesh_config::MeshConfig;
use pilot_discovery::connections::Connections;
use pilot_discovery::grpc;
use pilot_discovery::listener::{self, Limit, Plaintext};
use pilot_discovery::metrics::{Count, Metrics};
use pilot_discovery::publish::{self, Input, Queue};
use pilot_discovery::source::Source;
use pilot_registry::event::{Event, Update};
use pilot_registry::hostname::Hostname;
use pilot_registry::labels::Labels;
use pilot_registry::protocol::Protocol;
use pilot_registry::service::{
    ExportTo, RegistryKind, Resolution, Service, ServicePort, TargetPort, TrafficDistribution,
};
use pilot_registry::slice::{Condition, Slice, SliceEndpoint, SlicePort};
use pilot_routing::view::MeshView;
use tokio::sync::watch;

use crate::usage;

/// The server's process. Ends with the value.
pub(crate) struct Child {
    process: Process,
    input: ChildStdin,
    address: SocketAddr,
}

impl Child {
    /// Starts the server after some changes of the endpoint.
    pub(crate) fn start(services: usize, port: u16, changes: usize) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut process = Command::new(program)
            .args(["serve", &services.to_string(), &port.to_string(), &changes.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let input = process.stdin.take().unwrap();
        Self { process, input, address: line.trim().parse().unwrap() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn change_endpoint(&mut self) {
        self.input.write_all(b"\n").unwrap();
    }

    pub(crate) fn cpu(&self) -> Duration {
        usage::cpu(self.process.id())
    }

    pub(crate) fn memory(&self) -> u64 {
        usage::memory(self.process.id())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves until the input ends. Each line is a changed endpoint.
pub(crate) fn serve(services: usize, port: usize, changes: u32) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let queue = publish::start(Metrics::default().triggers).unwrap();
    list(&queue, services, changes);
    let source = Source {
        queue: queue.clone(),
        connections: Connections::default(),
        metrics: Metrics::default(),
    };
    let port = u16::try_from(port).unwrap();
    let listener = listener::bind("--grpcAddr", (Ipv4Addr::LOCALHOST, port).into()).unwrap();
    println!("{}", listener.local_addr().unwrap());
    let (_stop, stopped) = watch::channel(false);
    let limit = Limit::new("--grpcAddr", 100_000, Count::default());
    runtime.spawn(listener::serve(listener, limit, Plaintext, grpc::discovery(source), stopped));
    for (line, change) in std::io::stdin().lines().zip(0..) {
        line.unwrap();
        let slice = slice(0, Condition::Ready, 1 + change);
        queue.offer(Input::Registry(Box::new(Event::Slices(Update::Apply(slice)))));
    }
}

fn list(queue: &Queue, services: usize, changes: u32) {
    let all = 0..u32::try_from(services).unwrap();
    let slices = all.clone().map(|number| {
        let change = if number == 0 { changes } else { 0 };
        slice(number, Condition::Ready, change)
    });
    let slices = slices.collect();
    for event in [
        Event::Namespaces(Update::Replace(Vec::new())),
        Event::Nodes(Update::Replace(Vec::new())),
        Event::Pods(Update::Replace(Vec::new())),
        Event::Slices(Update::Replace(slices)),
        Event::Services(Update::Replace(all.map(service).collect())),
    ] {
        queue.offer(Input::Registry(Box::new(event)));
    }
    queue.offer(Input::PeerAuthentications(Vec::new()));
    queue.offer(Input::AuthorizationPolicies(Vec::new()));
    queue.offer(Input::Mesh(MeshView::new(&MeshConfig::parse("").unwrap()).unwrap()));
}

fn service(number: u32) -> Service {
    let (name, namespace) = names(number);
    Service {
        hostname: Hostname::for_service(&name, &namespace, "cluster.local").unwrap(),
        name: name.into(),
        namespace: namespace.into(),
        registry: RegistryKind::Kubernetes,
        ports: vec![ServicePort {
            name: "http".into(),
            number: 80,
            protocol: Protocol::Http,
            target: TargetPort::Number(8080),
        }],
        resolution: Resolution::ClientSide,
        addresses: vec![Ipv4Addr::from_bits(0x0a60_0000 + number).into()],
        export_to: ExportTo::All,
        created: 0,
        publish_not_ready: false,
        node_local: false,
        distribution: TrafficDistribution::Any,
        client_affinity: false,
        persistent_sessions: false,
        selector: Labels::default(),
    }
}

/// Ten endpoints; `change` moves the last one.
fn slice(number: u32, condition: Condition, change: u32) -> Slice {
    let (service, namespace) = names(number);
    let endpoints = (0..u32::try_from(ENDPOINTS).unwrap()).map(|endpoint| {
        let moved = if endpoint == 0 { change << 8 } else { 0 };
        let address = 0x0b00_0000 + number * 16 + endpoint + (moved << 12);
        SliceEndpoint {
            address: Ipv4Addr::from_bits(address).into(),
            condition,
            pod: None,
            node: "".into(),
            zone: "".into(),
            hostname: None,
        }
    });
    Slice {
        name: format!("{service}-1").into(),
        namespace: namespace.into(),
        service: service.into(),
        ports: vec![SlicePort { name: "http".into(), number: 8080 }],
        endpoints: endpoints.collect(),
    }
}

fn names(number: u32) -> (String, String) {
    (format!("service-{number}"), format!("namespace-{}", number / 100))
}

/// Endpoints of a service.
pub(crate) const ENDPOINTS: usize = 10;
