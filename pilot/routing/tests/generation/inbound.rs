//! Tables of the inbound listener.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use pilot_registry::protocol::Protocol::{self, Http, Tcp, Undeclared};
use pilot_routing::envoy::listeners::Listeners;
use pilot_routing::peer_authentication::MtlsMode;
use prost::Message as _;
use serde_json::json;

use crate::world::{World, labels};

/// One chain of the inbound listener in a line: match, termination of TLS, kind of filter.
fn line(chain: &FilterChain) -> String {
    let rule = chain.filter_chain_match.clone().unwrap_or_default();
    let transport = match rule.transport_protocol.as_str() {
        "" => "any",
        "raw_buffer" => "raw",
        other => other,
    };
    let protocols = rule.application_protocols.join(",");
    let ends = if chain.transport_socket.is_some() { "mtls " } else { "" };
    let is_http = chain.filters[0].name.ends_with("http_connection_manager");
    format!("{transport} [{protocols}] {ends}{}", if is_http { "http" } else { "tcp" })
}

/// Chains of a port of the inbound listener, one in a line.
pub(crate) fn inbound(listener: &Listener, port: u32) -> String {
    let chains = listener.filter_chains.iter().filter(|chain| {
        let rule = chain.filter_chain_match.as_ref();
        rule.and_then(|rule| rule.destination_port).is_some_and(|it| it.value == port)
    });
    chains.map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn inbound_chains_follow_protocol_and_mode() {
    let mut table = String::new();
    for mode in [MtlsMode::Permissive, MtlsMode::Strict, MtlsMode::Disable] {
        let mut world = World::new("10.0.0.1", json!({}));
        let ports = [(80, Http), (82, Tcp), (83, Undeclared)];
        world.serve("web.shop", &ports, "10.96.0.1", &["10.0.0.1"]);
        world.authenticate("shop", "", mode, &[]);
        let listener = world.build::<Listeners>("virtualInbound");
        for (port, protocol) in [(8080, "HTTP"), (8082, "TCP"), (8083, "undeclared")] {
            let _ = writeln!(table, "{mode:?} {protocol}\n{}\n", inbound(&listener, port));
        }
        let inspectors: Vec<_> = listener
            .listener_filters
            .iter()
            .map(|filter| filter.name.rsplit('.').next().unwrap())
            .collect();
        let _ = writeln!(table, "{mode:?} listener filters: {}\n", inspectors.join(", "));
    }
    insta::assert_snapshot!(table);
}

#[test]
fn oldest_service_decides_the_protocol_of_a_port() {
    for (older, younger, expected) in [(Http, Tcp, "http"), (Tcp, Http, "tcp")] {
        let mut world = World::new("10.0.0.1", json!({}));
        world.serve("web.shop", &[(80, older)], "10.96.0.1", &["10.0.0.1"]);
        let second = world.serve("second.shop", &[(80, younger)], "10.96.0.2", &[]);
        second.selector = labels(&[("app", "web")]);
        let listener = world.build::<Listeners>("virtualInbound");
        let chains = inbound(&listener, 8080);
        assert!(chains.lines().all(|line| line.ends_with(expected)), "{chains}");
    }
}

/// Envoy replaces a listener whose filters change, with all its connections.
#[test]
fn filters_of_the_inbound_listener_do_not_depend_on_services() {
    for mode in [MtlsMode::Permissive, MtlsMode::Strict] {
        let filters = |ports: &[(u16, Protocol)]| {
            let mut world = World::new("10.0.0.1", json!({}));
            world.serve("web.shop", ports, "10.96.0.1", &["10.0.0.1"]);
            world.authenticate("shop", "web", mode, &[(8080, MtlsMode::Disable)]);
            world.build::<Listeners>("virtualInbound").listener_filters
        };
        let none = filters(&[]);
        for ports in [&[(80, Http)][..], &[(80, Undeclared)], &[(81, Tcp), (82, Http)]] {
            assert_eq!(filters(ports), none, "{mode:?} {ports:?}");
        }
        // A server that speaks first: nothing may wait for its client.
        assert_ne!(filters(&[(80, Tcp)]), none);
    }
}

/// Connections of the mesh's clients outlast a change to `STRICT`.
#[test]
fn strict_mode_keeps_the_chains_of_mutual_tls() {
    let chains = |mode| {
        let mut world = World::new("10.0.0.1", json!({}));
        let ports = [(80, Http), (82, Tcp), (83, Undeclared)];
        world.serve("web.shop", &ports, "10.96.0.1", &["10.0.0.1"]);
        world.authenticate("shop", "", mode, &[]);
        world.build::<Listeners>("virtualInbound").filter_chains
    };
    let strict = chains(MtlsMode::Strict);
    let permissive = chains(MtlsMode::Permissive);
    let mutual: Vec<_> =
        permissive.iter().filter(|chain| chain.transport_socket.is_some()).collect();
    assert_eq!(mutual.len(), 6, "{mutual:#?}");
    assert!(mutual.iter().all(|chain| strict.contains(chain)));
}

#[test]
fn clients_of_other_trust_domains_are_rejected() {
    let mut world = World::new("10.0.0.1", json!({}));
    let domains = |world: &World| {
        let listener = world.build::<Listeners>("virtualInbound").encode_to_vec();
        let text = String::from_utf8_lossy(&listener).into_owned();
        let parts = text.split("spiffe://").skip(1).map(|rest| rest.split('/').next().unwrap());
        parts.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    assert_eq!(domains(&world), ["cluster.local".to_owned()].into());
    world.mesh.trust_domain_aliases = vec!["old.example".into()];
    assert_eq!(domains(&world), ["cluster.local", "old.example"].map(str::to_owned).into());
}
