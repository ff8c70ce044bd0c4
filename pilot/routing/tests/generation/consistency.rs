//! Inner consistency of generated sets: references, unique matches, unique domains.

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use pilot_registry::hostname::Hostname;
use pilot_registry::protocol::Protocol;
use pilot_registry::service::{ExportTo, Resolution};
use pilot_routing::peer_authentication::MtlsMode;
use pilot_routing::view::OutboundPolicy;
use pilot_xds::type_urls::{CLUSTER, ENDPOINT, ROUTE};
use proptest::prelude::*;
use prost::Message as _;
use serde_json::json;

use crate::cases::cases;
use crate::world::{Resources, World};

#[test]
fn cases_are_consistent() {
    for (name, world) in cases() {
        let problems = problems(&world.resources());
        assert!(problems.is_empty(), "{name}: {problems:#?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_meshes_are_consistent(world in worlds()) {
        let resources = world.resources();
        let problems = problems(&resources);
        prop_assert!(problems.is_empty(), "{:#?}", problems);
        // Generation has no state and no order of its own.
        let mut shuffled = world;
        shuffled.services.reverse();
        shuffled.pods.reverse();
        let versions = |resources: &Resources| -> Vec<String> {
            let sets = [
                &resources.clusters, &resources.endpoints, &resources.listeners, &resources.routes,
            ];
            let versions = sets.iter().flat_map(|set| set.iter());
            versions.map(|(name, resource)| format!("{name} {}", resource.version)).collect()
        };
        prop_assert_eq!(versions(&resources), versions(&shuffled.resources()));
    }
}

/// Violations of what holds for every generated set.
pub(crate) fn problems(resources: &Resources) -> Vec<String> {
    let mut problems = Vec::new();
    let sets = [&resources.clusters, &resources.listeners, &resources.routes];
    for (name, resource) in sets.into_iter().flatten() {
        for reference in &resource.references {
            let known = match reference.type_url {
                CLUSTER => &resources.clusters,
                ENDPOINT => &resources.endpoints,
                ROUTE => &resources.routes,
                other => panic!("{name} refers to a {other}"),
            };
            if !known.contains_key(&*reference.name) {
                problems.push(format!("{name} refers to {reference:?}"));
            }
        }
    }
    for (name, resource) in &resources.routes {
        let routes = RouteConfiguration::decode(resource.message.value.clone()).unwrap();
        let mut domains = BTreeSet::new();
        let mut names = BTreeSet::new();
        for host in routes.virtual_hosts {
            if host.domains.is_empty() || !names.insert(host.name.clone()) {
                problems.push(format!("{name} has a useless virtual host {}", host.name));
            }
            let all = host.domains.into_iter();
            problems.extend(
                all.filter(|domain| !domains.insert(domain.to_lowercase()))
                    .map(|domain| format!("{name} has {domain} twice")),
            );
        }
    }
    let mut bound = BTreeSet::new();
    for (name, resource) in &resources.listeners {
        let listener = Listener::decode(resource.message.value.clone()).unwrap();
        let others = listener.additional_addresses.iter().map(|other| other.address.as_ref());
        for address in [listener.address.as_ref()].into_iter().chain(others) {
            if !bound.insert(format!("{address:?}")) {
                problems.push(format!("{name} has an address of another listener"));
            }
        }
        let mut matches = BTreeSet::new();
        for chain in &listener.filter_chains {
            let Some(rule) = &chain.filter_chain_match else {
                if !matches.insert("none".to_owned()) {
                    problems.push(format!("{name} has two chains without a match"));
                }
                continue;
            };
            let protocols = &rule.application_protocols;
            let protocols = if protocols.is_empty() { &vec![String::new()] } else { protocols };
            for protocol in protocols {
                let port = rule.destination_port.map(|port| port.value);
                if !matches.insert(format!("{port:?} {} {protocol}", rule.transport_protocol)) {
                    problems.push(format!("{name} has two chains for {port:?} {protocol}"));
                }
            }
        }
    }
    problems
}

/// Meshes of a few services that often clash in hosts, ports, addresses and pods.
pub(crate) fn worlds() -> impl Strategy<Value = World> {
    let service = (
        prop::sample::select(vec!["web", "api", "a-b"]),
        prop::sample::select(vec!["shop", "other", "svc"]),
        prop::collection::vec((0..4_usize, protocols()), 0..4),
        0..4_usize,
        prop::collection::vec(1..5_u8, 0..3),
        (0..6_usize, any::<bool>(), any::<bool>()),
    );
    let proxy = (
        prop::sample::select(vec!["10.0.0.1", "fd00::1", "10.0.0.1,fd00::1", "fd00::1,10.0.0.1"]),
        prop::sample::select(vec!["REDIRECT", "TPROXY", "NONE"]),
        any::<bool>(),
        prop::collection::vec((prop::sample::select(vec!["", "web"]), modes(), modes()), 0..3),
    );
    (prop::collection::vec(service, 0..6), proxy).prop_map(|(services, proxy)| {
        let (addresses, mode, is_strict, policies) = proxy;
        let metadata = json!({"INTERCEPTION_MODE": mode, "UNPRIVILEGED_POD": "true"});
        let mut world = World::new(addresses, metadata);
        if is_strict {
            world.mesh.outbound_policy = OutboundPolicy::RegistryOnly;
        }
        for (app, mode, port) in policies {
            world.authenticate("shop", app, mode, &[(8080, port), (15020, port)]);
        }
        for (index, (name, namespace, ports, addresses, pods, kind)) in
            services.into_iter().enumerate()
        {
            let key = format!("{name}.{namespace}");
            if world.services.iter().any(|it| it.hostname.as_str().starts_with(&format!("{key}.")))
            {
                continue;
            }
            let mut own: Vec<(u16, Protocol)> = Vec::new();
            for (port, protocol) in ports {
                let number = [80, 81, 7001, 15001][port];
                if own.iter().all(|(known, _)| *known != number) {
                    own.push((number, protocol));
                }
            }
            let vip = ["", "10.96.0.1", "fd96::1", "10.96.0.2,fd96::2"][addresses];
            let pods: BTreeSet<_> = pods.into_iter().collect();
            let pods: Vec<_> = pods.iter().map(|pod| format!("10.0.0.{pod}")).collect();
            let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
            let service = world.serve(&key, &own, vip, &pods);
            service.created = i64::try_from(index % 2).unwrap();
            let (alias, is_hidden, is_sticky) = kind;
            service.client_affinity = is_sticky;
            if is_hidden {
                service.export_to = ExportTo::Namespaces(vec![namespace.into()]);
            }
            let targets =
                ["web.shop.svc.cluster.local", "api.other.svc.cluster.local", "far.example"];
            if let Some(target) = targets.get(alias) {
                service.resolution = Resolution::Alias(Hostname::parse(target).unwrap());
                service.addresses.clear();
            }
        }
        world
    })
}

fn protocols() -> impl Strategy<Value = Protocol> {
    use Protocol::{Grpc, Http, Https, Tcp, Udp, Undeclared};
    prop::sample::select(vec![Http, Grpc, Tcp, Https, Undeclared, Udp])
}

fn modes() -> impl Strategy<Value = MtlsMode> {
    prop::sample::select(vec![MtlsMode::Disable, MtlsMode::Permissive, MtlsMode::Strict])
}
