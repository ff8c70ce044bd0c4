//! Tables of headless services.

use envoy_types::pb::envoy::config::listener::v3::FilterChain;
use pilot_registry::protocol::Protocol::{Http, Tcp, Undeclared};
use pilot_registry::slice::Condition;
use pilot_routing::envoy::clusters::Clusters;
use pilot_routing::envoy::endpoints::Endpoints;
use pilot_routing::envoy::listeners::Listeners;
use pilot_routing::envoy::name_tables::NameEntries;
use pilot_routing::peer_authentication::MtlsMode;
use pilot_routing::view::{Interception, ProxyKind};
use prost::Message as _;
use serde_json::json;

use crate::tables::{API, API_HOST, endpoints, endpoints_of};
use crate::world::{World, labels};

/// Transport of a connection to a pod of the headless service `api`.
fn to_pod(world: &World, address: &str, port: u16) -> &'static str {
    to_pod_of(world, "api.shop.svc.cluster.local", address, port)
}

/// Transport of a connection to a pod of a headless service.
pub(crate) fn to_pod_of(world: &World, host: &str, address: &str, port: u16) -> &'static str {
    let name = format!("{address}_{port}");
    if !world.names::<Listeners>().contains(&name) {
        return "no listener";
    }
    let listener = world.build::<Listeners>(&name);
    let default = listener.default_filter_chain.iter();
    let chains: Vec<_> = listener.filter_chains.iter().chain(default).collect();
    let text = String::from_utf8_lossy(&listener.encode_to_vec()).into_owned();
    if text.contains("BlackHoleCluster") {
        return "refused";
    }
    let is_plaintext =
        |chain: &&FilterChain| chain.filters[0].name.ends_with("network.set_filter_state");
    let cluster = format!("outbound|{port}||{host}");
    let is_mutual = world.build::<Clusters>(&cluster).transport_socket.is_some();
    match chains.iter().copied().filter(is_plaintext).count() {
        0 if is_mutual => "mutual TLS",
        0 => "the cluster has no TLS",
        all if all == chains.len() => "plaintext",
        _ => "mixed",
    }
}

#[test]
fn each_pod_of_a_headless_service_decides_for_itself() {
    for (port, protocol) in [(80, Http), (82, Tcp), (83, Undeclared)] {
        let mut world = World::new("10.0.0.1", json!({}));
        world.serve("api.shop", &[(port, protocol)], "", &["10.0.0.2", "10.0.0.3"]);
        let both = |world: &World| ["10.0.0.2", "10.0.0.3"].map(|pod| to_pod(world, pod, port));
        assert_eq!(both(&world), ["mutual TLS"; 2]);
        world.pods[1].workload.takes_mtls = false;
        assert_eq!(both(&world), ["mutual TLS", "plaintext"], "a pod without a sidecar");
        world.pods[1].workload.labels = labels(&[("app", "other")]);
        world.pods[1].workload.takes_mtls = true;
        world.authenticate("shop", "api", MtlsMode::Strict, &[(port + 8000, MtlsMode::Disable)]);
        assert_eq!(both(&world), ["plaintext", "mutual TLS"], "a disabled port");
        world.pods.remove(0);
        assert_eq!(both(&world), ["refused", "mutual TLS"], "a pod that is not known");
        world.mesh.auto_mtls = false;
        assert_eq!(both(&world), ["refused", "plaintext"]);
        world.slices.clear();
        assert_eq!(both(&world), ["no listener"; 2]);
    }
}

#[test]
fn headless_listeners_and_their_tls_outlast_readiness_and_termination() {
    for protocol in [Http, Tcp, Undeclared] {
        for condition in
            [Condition::NotReady, Condition::ServingTerminating, Condition::Terminating]
        {
            let mut world = World::new("10.0.0.1", json!({}));
            world.serve("api.shop", &[(82, protocol)], "", &["10.0.0.2"]);
            world.slices[0].endpoints[0].condition = condition;
            assert_eq!(to_pod(&world, "10.0.0.2", 82), "mutual TLS", "{protocol:?} {condition:?}");
            assert!(!world.names::<NameEntries>().contains(&API_HOST.to_owned()));
            world.proxy.interception = Interception::None;
            assert_eq!(endpoints_of(&world, "outbound|82||api.shop.svc.cluster.local"), [""; 0]);
        }
    }
}

#[test]
fn headless_services_are_balanced_without_capture() {
    let router = "router~10.0.0.1~gw-1.shop~shop.svc.cluster.local";
    let mut world = World::of_proxy(router, "10.0.0.1", json!({}));
    world.serve("api.shop", &[(80, Http)], "", &["10.0.0.2"]);
    assert_eq!(endpoints(&world), ["0 10.0.0.2 mtls"]);
    assert_eq!(world.build::<Clusters>(API).transport_socket_matches.len(), 2);
    world.proxy.kind = ProxyKind::Sidecar;
    assert!(!world.names::<Endpoints>().contains(&API.to_owned()));
}
