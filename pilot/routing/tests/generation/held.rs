//! Connections that stay open while the configuration changes.

use anyhow::Result;
use pilot_registry::protocol::Protocol::{self, Http, Tcp, Undeclared};
use pilot_registry::service::TargetPort;
use pilot_registry::slice::Condition;
use pilot_routing::peer_authentication::MtlsMode::{Disable, Permissive, Strict};

use crate::calls::V4;
use crate::pods::{APPLICATION, Held, Pods, UNCAPTURED};
use crate::world::{World, labels};

const SERVER: &str = V4.server;
/// Address of a service of TCP.
const RAW: &str = "10.96.0.7";

/// Two pods, and the worlds of their proxies.
pub(crate) struct Mesh {
    worlds: [World; 2],
    pub(crate) pods: Pods,
}

type Change = fn(&mut World);

impl Mesh {
    fn start(change: impl Fn(&mut World)) -> Result<Self> {
        Self::start_with("REDIRECT", change)
    }

    pub(crate) fn start_with(interception: &str, change: impl Fn(&mut World)) -> Result<Self> {
        let (mut client, mut server) = V4.worlds(interception, Permissive);
        change(&mut client);
        change(&mut server);
        let pods = Pods::start(&client, &server)?;
        Ok(Self { worlds: [client, server], pods })
    }

    pub(crate) fn change(&mut self, change: impl Fn(&mut World)) -> Result<()> {
        let [client, server] = &mut self.worlds;
        for (world, pod) in [(client, &mut self.pods.client), (server, &mut self.pods.server)] {
            change(world);
            pod.proxy.update(&world.resources())?;
        }
        Ok(())
    }
}

/// Adds a service of the server's pod.
fn serve(world: &mut World, key: &str, address: &str, port: (u16, Protocol)) {
    world.serve(key, &[port], address, &[SERVER]).selector = labels(&[("app", "api")]);
    world.pods.pop();
    world.slices.last_mut().unwrap().endpoints[0].pod = Some("api-1".into());
}

#[test]
fn held_connections_outlive_changes_for_other_ports() {
    let mut mesh = Mesh::start(|world| serve(world, "raw.shop", RAW, (82, Tcp))).unwrap();
    let server = &mesh.pods.server;
    server.echo("0.0.0.0", 8082).unwrap();
    server.echo("0.0.0.0", 8081).unwrap();
    let client = &mesh.pods.client;
    let open = |name, owner, to| Held::open(name, client, owner, to).unwrap();
    let mut mutual = [
        open("mutual TLS, TCP", APPLICATION, (RAW, 82)),
        open("mutual TLS, undeclared", APPLICATION, (V4.vip, 81)),
    ];
    let mut plaintext = [
        open("plaintext, TCP", UNCAPTURED, (SERVER, 8082)),
        open("plaintext, undeclared", UNCAPTURED, (SERVER, 8081)),
    ];
    let changes: [(&str, Change); 5] = [
        ("another service of HTTP", |world| serve(world, "one.shop", "", (7, Http))),
        ("another service of TCP", |world| serve(world, "two.shop", "", (8, Tcp))),
        ("another service without a protocol", |world| {
            serve(world, "three.shop", "", (9, Undeclared));
        }),
        ("another mode of another port", |world| {
            world.authenticate("shop", "api", Permissive, &[(8080, Disable), (8007, Strict)]);
        }),
        ("another account of another pod", |world| {
            world.serve("four.shop", &[(82, Tcp)], "10.96.0.9", &["10.0.0.9"]);
        }),
    ];
    for (when, change) in changes {
        mesh.change(change).unwrap();
        for held in mutual.iter_mut().chain(&mut plaintext) {
            held.check(when).unwrap();
        }
    }
    // Plaintext ends with the mode that allows it.
    mesh.change(|world| {
        world.policies.clear();
        world.authenticate("shop", "", Strict, &[]);
    })
    .unwrap();
    for held in &mut mutual {
        held.check("in strict mode").unwrap();
    }
    let stats = mesh.pods.server.proxy.get("/stats?filter=listener_manager.listener_").unwrap();
    let count = |name: &str| {
        let prefix = format!("listener_manager.listener_{name}: ");
        stats.lines().find_map(|line| line.strip_prefix(&*prefix)).unwrap().to_owned()
    };
    assert_eq!(count("modified"), count("in_place_updated"), "{stats}");
}

#[test]
fn held_connections_to_pods_outlive_changes_of_other_pods() {
    let mut mesh = Mesh::start(|world| {
        world.serve("db.shop", &[(8082, Tcp)], "", &[SERVER, "10.0.0.9"]);
        let slice = world.slices.last_mut().unwrap();
        slice.ports[0].number = 8082;
        slice.endpoints[0].pod = Some("api-1".into());
        let service = world.services.last_mut().unwrap();
        service.selector = labels(&[("app", "api")]);
        service.ports[0].target = TargetPort::Number(8082);
        let own = world.pods.len() - 2;
        world.pods.remove(own);
    })
    .unwrap();
    mesh.pods.server.echo("0.0.0.0", 8082).unwrap();
    let open = |mesh: &Mesh| {
        let before = mesh.pods.server.handshakes().unwrap();
        let client = &mesh.pods.client;
        let held = Held::open("to a pod", client, APPLICATION, (SERVER, 8082)).unwrap();
        assert!(mesh.pods.server.handshakes().unwrap() > before, "mutual TLS");
        held
    };
    let mut all = vec![open(&mesh)];
    let changes: [(&str, Change); 4] = [
        ("another account", |world| {
            world.pods.last_mut().unwrap().workload.service_account = "other".into();
        }),
        ("a pod without a sidecar", |world| {
            world.pods.last_mut().unwrap().workload.takes_mtls = false;
        }),
        ("a pod that is not known", |world| drop(world.pods.pop())),
        ("the pod ends", |world| {
            let slice = world.slices.last_mut().unwrap();
            slice.endpoints[0].condition = Condition::ServingTerminating;
        }),
    ];
    for (when, change) in changes {
        mesh.change(change).unwrap();
        for held in &mut all {
            held.check(when).unwrap();
        }
        all.push(open(&mesh));
    }
}
