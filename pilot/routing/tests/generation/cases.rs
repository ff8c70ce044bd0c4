//! Meshes that the real Envoy loads, and whose configuration is kept as golden files.

use mesh::mesh_config::MeshConfig;
use pilot_registry::protocol::Protocol::{
    Grpc, GrpcWeb, Http, Http2, Https, Mysql, Tcp, Udp, Undeclared,
};
use pilot_routing::peer_authentication::MtlsMode::{Disable, Permissive, Strict};
use pilot_routing::view::{MeshView, OutboundPolicy};
use serde_json::{Value, json};

use crate::world::World;

/// All cases by name.
pub(crate) fn cases() -> Vec<(&'static str, World)> {
    vec![
        ("empty", World::new("10.0.0.1", json!({}))),
        ("permissive", permissive("10.0.0.1", "REDIRECT")),
        ("permissive-v6", v6()),
        ("permissive-dual", dual()),
        ("strict-tproxy", strict()),
        ("disabled", disabled()),
        ("modes-of-ports", modes_of_ports()),
        ("registry-only", registry_only()),
        ("aliases", aliases()),
        ("headless", headless()),
        ("localhost", localhost()),
        ("no-capture", no_capture()),
        ("own-ports", own_ports()),
        ("router", router()),
        ("text-logs", logs("accessLogFile: /dev/stdout, protocolDetectionTimeout: 5s")),
        ("another-agent", permissive_for("10.0.0.1", json!({"HTTP_BY_METHOD": "false"}))),
        ("json-logs", logs("accessLogFile: /dev/stdout, accessLogEncoding: JSON")),
    ]
}

fn permissive(addresses: &str, mode: &str) -> World {
    permissive_for(addresses, json!({"INTERCEPTION_MODE": mode}))
}

fn permissive_for(addresses: &str, metadata: Value) -> World {
    let mut world = World::new(addresses, metadata);
    let own = [(80, Http), (81, Grpc), (82, Tcp), (83, Undeclared), (84, Https), (85, Udp)];
    world.serve("web.shop", &own, "10.96.0.1", &["10.0.0.1"]);
    let others = [(80, Http), (90, Http2), (3306, Mysql), (7000, Undeclared), (443, Https)];
    world.serve("api.shop", &others, "10.96.0.2", &["10.0.0.2", "10.0.0.3"]);
    world.serve("api.other", &[(80, Http)], "10.96.0.3", &[]);
    world.serve("browsers.shop", &[(80, GrpcWeb), (86, GrpcWeb)], "10.96.0.5", &["10.0.0.1"]);
    world
        .serve("sticky.shop", &[(80, Http), (82, Tcp)], "10.96.0.4", &["10.0.0.4"])
        .client_affinity = true;
    world
}

fn v6() -> World {
    let mut world = World::new("fd00::1", json!({}));
    world.serve("web.shop", &[(80, Http), (83, Undeclared)], "fd96::1", &["fd00::1"]);
    world.serve("api.shop", &[(80, Http), (82, Tcp)], "fd96::2", &["fd00::2"]);
    world.serve("pods.shop", &[(82, Tcp)], "", &["fd00::3"]);
    world
}

fn dual() -> World {
    let mut world = World::new("10.0.0.1,fd00::1", json!({}));
    world.serve("web.shop", &[(80, Http)], "10.96.0.1,fd96::1", &["10.0.0.1"]);
    let ports = [(80, Http), (82, Tcp), (83, Undeclared)];
    world.serve("api.shop", &ports, "10.96.0.2,fd96::2", &["10.0.0.2"]);
    world
}

fn strict() -> World {
    let mut world = permissive("10.0.0.1", "TPROXY");
    world.authenticate("istio-system", "", Strict, &[]);
    world.mesh.trust_domain_aliases = vec!["old.example".into()];
    world
}

fn disabled() -> World {
    let mut world = permissive("10.0.0.1", "REDIRECT");
    world.authenticate("shop", "", Disable, &[]);
    world
}

fn modes_of_ports() -> World {
    let mut world = permissive("10.0.0.1", "REDIRECT");
    let ports = [(8080, Disable), (8082, Permissive), (9999, Disable), (15020, Disable)];
    world.authenticate("shop", "web", Strict, &ports);
    world.authenticate("shop", "api", Strict, &[(8080, Disable)]);
    world
}

fn registry_only() -> World {
    let mut world = permissive("10.0.0.1", "REDIRECT");
    world.mesh.outbound_policy = OutboundPolicy::RegistryOnly;
    world
}

fn aliases() -> World {
    let mut world = World::new("10.0.0.1", json!({}));
    world.serve("api.shop", &[(80, Http)], "10.96.0.2", &["10.0.0.2"]);
    world.alias("near.shop", &[(80, Http), (81, Http)], "api.shop.svc.cluster.local");
    world.alias("nearer.other", &[(80, Http)], "near.shop.svc.cluster.local");
    world.alias("far.shop", &[(80, Http), (443, Https), (8080, Undeclared)], "localhost.example");
    world.alias("left.shop", &[(80, Http)], "right.shop.svc.cluster.local");
    world.alias("right.shop", &[(80, Http)], "left.shop.svc.cluster.local");
    world
}

fn headless() -> World {
    let mut world = World::new("10.0.0.1", json!({}));
    let ports = [(80, Http), (5432, Tcp), (7000, Undeclared)];
    world.serve("web.shop", &ports, "", &["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    world.serve("second.shop", &[(5432, Tcp)], "", &["10.0.0.3"]);
    world
}

fn localhost() -> World {
    let mut world = permissive("10.0.0.1", "REDIRECT");
    world.mesh.inbound_to_localhost = true;
    world
}

fn no_capture() -> World {
    let metadata = json!({"INTERCEPTION_MODE": "NONE", "UNPRIVILEGED_POD": "true"});
    let mut world = World::new("10.0.0.1", metadata);
    world.serve("web.shop", &[(1080, Http)], "10.96.0.1", &["10.0.0.1"]);
    world.serve("api.shop", &[(80, Http), (2080, Http), (82, Tcp)], "10.96.0.2", &["10.0.0.2"]);
    // The application has the port itself.
    world.serve("same.shop", &[(9080, Http)], "10.96.0.3", &[]);
    world
}

fn own_ports() -> World {
    let mut world = World::new("10.0.0.1", json!({"ENVOY_STATUS_PORT": 16021}));
    let ports: Vec<_> = [15000, 15001, 15006, 15020, 15021, 15053, 15090, 16021]
        .into_iter()
        .map(|port| (port, Http))
        .collect();
    world.serve("ports.shop", &ports, "10.96.0.1", &["10.0.0.2"]);
    world.serve("tcp.shop", &[(15001, Tcp)], "10.96.0.2", &["10.0.0.2"]);
    // The application's own ports seem to be Envoy's.
    world.serve("web.shop", &[(7001, Http), (7006, Tcp)], "10.96.0.3", &["10.0.0.1"]);
    world
}

fn logs(mesh: &str) -> World {
    let mut world = permissive("10.0.0.1", "REDIRECT");
    world.mesh = MeshView::new(&MeshConfig::parse(&format!("{{{mesh}}}")).unwrap()).unwrap();
    world
}

fn router() -> World {
    let id = "router~10.0.0.1~gw-1.edge~edge.svc.cluster.local";
    let mut world = World::of_proxy(id, "10.0.0.1", json!({}));
    world.serve("api.shop", &[(80, Http), (82, Tcp)], "10.96.0.2", &["10.0.0.2"]);
    world.serve("pods.shop", &[(80, Http), (82, Tcp)], "", &["10.0.0.3"]);
    world
}
