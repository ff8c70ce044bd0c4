//! Tables of rules, each on the smallest mesh that shows it.

use std::fmt::Write as _;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use envoy_types::pb::google::protobuf::value::Kind;
use pilot_registry::protocol::Protocol::{Http, Https, Tcp, Undeclared};
use pilot_registry::service::{ExportTo, TrafficDistribution};
use pilot_registry::slice::Condition;
use pilot_routing::envoy::clusters::Clusters;
use pilot_routing::envoy::endpoints::Endpoints;
use pilot_routing::envoy::listeners::Listeners;
use pilot_routing::envoy::name_tables::{NameEntries, NameTables};
use pilot_routing::envoy::{Generator, resource_version};
use pilot_routing::peer_authentication::MtlsMode;
use pilot_routing::view::ProxyKind;
use prost::Message as _;
use serde_json::json;

use crate::world::{World, labels, locality};

const API: &str = "outbound|80||api.shop.svc.cluster.local";

fn with_api(pods: &[&str]) -> World {
    let mut world = World::new("10.0.0.1", json!({}));
    world.serve("api.shop", &[(80, Http)], "10.96.0.2", pods);
    world
}

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

fn inbound(listener: &Listener, port: u32) -> String {
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
        second.selector = crate::world::labels(&[("app", "web")]);
        let listener = world.build::<Listeners>("virtualInbound");
        let chains = inbound(&listener, 8080);
        assert!(chains.lines().all(|line| line.ends_with(expected)), "{chains}");
    }
}

#[test]
fn older_service_keeps_a_shared_address() {
    let mut world = World::new("10.0.0.1", json!({}));
    world.serve("a.shop", &[(82, Tcp)], "10.96.0.2", &[]).created = 2;
    world.serve("b.shop", &[(82, Tcp)], "10.96.0.2", &[]).created = 1;
    world.with(|context| {
        let conflicts = context.outbound().conflicts();
        assert_eq!(conflicts.len(), 1);
        assert_eq!(conflicts[0].hostname.as_str(), "a.shop.svc.cluster.local");
        let winner = conflicts[0].taken_by.as_ref().map(ToString::to_string);
        assert_eq!(winner.as_deref(), Some("b.shop.svc.cluster.local"));
    });
}

#[test]
fn only_exported_services_are_visible() {
    for (export, expected) in [
        (ExportTo::All, true),
        (ExportTo::Namespaces(vec!["shop".into()]), true),
        (ExportTo::Namespaces(vec!["other".into()]), false),
        (ExportTo::Namespaces(vec![]), false),
    ] {
        let mut world = with_api(&[]);
        world.services[0].export_to = export.clone();
        assert_eq!(world.names::<Clusters>().contains(&API.to_owned()), expected, "{export:?}");
        assert_eq!(world.names::<Listeners>().contains(&"0.0.0.0_80".to_owned()), expected);
    }
}

/// The endpoints of `API` in Envoy's own type.
fn assignment(world: &World) -> ClusterLoadAssignment {
    ClusterLoadAssignment::decode(&*world.build::<Endpoints>(API).encode_to_vec()).unwrap()
}

/// Endpoints in a line: priority, address, and whether they take mutual TLS.
fn endpoints(world: &World) -> Vec<String> {
    let mut lines = Vec::new();
    for group in assignment(world).endpoints {
        for endpoint in group.lb_endpoints {
            let Some(HostIdentifier::Endpoint(found)) = endpoint.host_identifier else { continue };
            let text = format!("{:?}", found.address);
            let address = text.split("address: \"").nth(1).unwrap().split('"').next().unwrap();
            let filters = endpoint.metadata.unwrap_or_default().filter_metadata;
            let takes_mtls = filters.contains_key("envoy.transport_socket_match");
            let tls = if takes_mtls { " mtls" } else { "" };
            lines.push(format!("{} {address}{tls}", group.priority));
        }
    }
    lines
}

#[test]
fn service_without_endpoints_has_an_empty_set() {
    assert_eq!(endpoints(&with_api(&[])), [""; 0]);
}

#[test]
fn endpoints_take_mtls_by_label_and_mode() {
    let mut world = with_api(&["10.0.0.2", "10.0.0.3"]);
    world.pods[1].workload.takes_mtls = false;
    assert_eq!(endpoints(&world), ["0 10.0.0.2 mtls", "0 10.0.0.3"]);
    world.authenticate("shop", "api", MtlsMode::Strict, &[(8080, MtlsMode::Disable)]);
    assert_eq!(endpoints(&world), ["0 10.0.0.2", "0 10.0.0.3"]);
}

#[test]
fn endpoints_name_their_workloads() {
    let mut world = with_api(&["10.0.0.2", "10.0.0.3", "10.0.0.4"]);
    world.pods[1].workload.labels = labels(&[("app", "shop-api"), ("version", "v2")]);
    world.slices[0].endpoints[2].pod = Some("unknown".into());
    let groups = assignment(&world).endpoints.into_iter();
    let found = groups.flat_map(|group| group.lb_endpoints).map(|endpoint| {
        let metadata = endpoint.metadata?.filter_metadata.remove("istio")?;
        match metadata.fields["workload"].kind.as_ref()? {
            Kind::StringValue(text) => Some(text.clone()),
            other => panic!("{other:?}"),
        }
    });
    let expected = ["api;shop;api;;Kubernetes", "api;shop;shop-api;v2;Kubernetes"];
    let expected = expected.map(|text| Some(text.to_owned())).into_iter().chain([None]);
    assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn near_endpoints_come_first_where_the_service_prefers_them() {
    for (distribution, expected) in [
        (TrafficDistribution::Any, ["0 10.0.0.2 mtls", "0 10.0.0.3 mtls", "0 10.0.0.4 mtls"]),
        (
            TrafficDistribution::PreferSameZone,
            ["0 10.0.0.3 mtls", "1 10.0.0.2 mtls", "1 10.0.0.4 mtls"],
        ),
        (
            TrafficDistribution::PreferSameNode,
            ["0 10.0.0.2 mtls", "1 10.0.0.3 mtls", "2 10.0.0.4 mtls"],
        ),
    ] {
        let mut world = with_api(&["10.0.0.2", "10.0.0.3", "10.0.0.4"]);
        world.services[0].distribution = distribution;
        world.proxy.locality = locality("/eu-2");
        assert_eq!(endpoints(&world), expected, "{distribution:?}");
    }
}

#[test]
fn gap_between_priorities_is_closed() {
    let mut world = with_api(&["10.0.0.2"]);
    world.services[0].distribution = TrafficDistribution::PreferSameZone;
    assert_eq!(endpoints(&world), ["0 10.0.0.2 mtls"]);
}

#[test]
fn node_local_service_has_endpoints_of_the_node_only() {
    let mut world = with_api(&["10.0.0.2", "10.0.0.3"]);
    world.services[0].node_local = true;
    assert_eq!(endpoints(&world), ["0 10.0.0.2 mtls"]);
    world.proxy.node = "".into();
    assert_eq!(endpoints(&world), [""; 0]);
}

#[test]
fn unready_endpoints_are_left_out_unless_published() {
    let mut world = with_api(&["10.0.0.2", "10.0.0.3"]);
    world.slices[0].endpoints[0].condition = Condition::NotReady;
    assert_eq!(endpoints(&world), ["0 10.0.0.3 mtls"]);
    world.services[0].publish_not_ready = true;
    assert_eq!(endpoints(&world), ["0 10.0.0.2 mtls", "0 10.0.0.3 mtls"]);
}

#[test]
fn endpoints_of_other_families_are_left_out() {
    let world = with_api(&["fd00::2", "10.0.0.3"]);
    assert_eq!(endpoints(&world), ["0 10.0.0.3 mtls"]);
}

#[test]
fn headless_service_uses_mtls_if_all_its_pods_take_it() {
    let headless = |world: &mut World| {
        world.serve("api.shop", &[(80, Http)], "", &["10.0.0.2", "10.0.0.3"]);
    };
    let is_mutual = |world: &World| world.build::<Clusters>(API).transport_socket.is_some();
    let mut world = World::new("10.0.0.1", json!({}));
    headless(&mut world);
    assert!(is_mutual(&world));
    world.pods[1].workload.takes_mtls = false;
    assert!(!is_mutual(&world), "a pod without a sidecar");
    world.pods[1].workload.takes_mtls = true;
    world.authenticate("shop", "api", MtlsMode::Strict, &[(8080, MtlsMode::Disable)]);
    assert!(!is_mutual(&world), "a disabled port");
    world.slices.clear();
    assert!(!is_mutual(&world), "no pods");
}

#[test]
fn headless_listeners_outlast_readiness() {
    let mut world = World::new("10.0.0.1", json!({}));
    world.serve("api.shop", &[(82, Tcp)], "", &["10.0.0.2"]);
    world.slices[0].endpoints[0].condition = Condition::NotReady;
    assert!(world.names::<Listeners>().contains(&"10.0.0.2_82".to_owned()));
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

#[test]
fn alias_without_a_port_of_its_target_has_no_listener() {
    let mut world = with_api(&["10.0.0.2"]);
    world.alias("near.shop", &[(80, Http), (81, Http)], "api.shop.svc.cluster.local");
    assert!(!world.names::<Listeners>().contains(&"0.0.0.0_81".to_owned()));
}

#[test]
fn clients_of_other_trust_domains_are_rejected() {
    let mut world = with_api(&[]);
    let domains = |world: &World| {
        let listener = world.build::<Listeners>("virtualInbound").encode_to_vec();
        let text = String::from_utf8_lossy(&listener).into_owned();
        let parts = text.split("spiffe://").skip(1).map(|rest| rest.split('/').next().unwrap());
        parts.map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(domains(&world), ["cluster.local".to_owned()].into());
    world.mesh.trust_domain_aliases = vec!["old.example".into()];
    assert_eq!(domains(&world), ["cluster.local", "old.example"].map(str::to_owned).into());
}

#[test]
fn cluster_expects_the_accounts_of_its_endpoints() {
    let mut world = with_api(&["10.0.0.2", "10.0.0.3"]);
    world.pods[1].workload.service_account = "second".into();
    let text = |world: &World| {
        let cluster: Cluster = world.build::<Clusters>(API);
        let socket = cluster.transport_socket_matches.into_iter().next();
        format!("{socket:?}")
    };
    assert_ne!(text(&world), text(&with_api(&["10.0.0.2", "10.0.0.3"])));
    world.mesh.auto_mtls = false;
    assert_eq!(text(&world), "None");
}

#[test]
fn version_changes_with_the_resource_alone() {
    let version = |world: &World| {
        world.with(|context| resource_version::<Clusters>(&Clusters::inputs(context, API).unwrap()))
    };
    let mut world = with_api(&["10.0.0.2"]);
    let first = version(&world);
    // Age, another port's protocol and a further endpoint of the account have no effect.
    world.services[0].created = 7;
    world.serve("other.shop", &[(443, Https)], "10.96.0.9", &[]);
    let mut more = with_api(&["10.0.0.2", "10.0.0.3"]);
    assert_eq!([version(&world), version(&more)], [first, first]);
    more.pods[1].workload.service_account = "second".into();
    assert_ne!(version(&more), first);
}

#[test]
fn name_entries_and_the_whole_table_agree() {
    let mut world = with_api(&["10.0.0.2"]);
    world.serve("pods.shop", &[(80, Http)], "", &["10.0.0.3", "10.0.0.4"]);
    world.slices[1].endpoints[1].hostname = Some("pods-2".into());
    world.serve("hidden.other", &[(80, Http)], "10.96.0.9", &[]).export_to =
        ExportTo::Namespaces(vec!["other".into()]);
    // The proxy has no address of this family.
    world.serve("six.shop", &[(80, Http)], "fd96::6", &[]);
    let whole = world.build::<NameTables>("");
    let mut single = std::collections::BTreeMap::new();
    let mut text = String::new();
    for name in world.names::<NameEntries>() {
        let info = world.build::<NameEntries>(&name).name_info.unwrap();
        let why = world.with(|context| NameEntries::why(context, &name));
        let why: Vec<_> = why.iter().map(ToString::to_string).collect();
        let ips = info.ips.join(" ");
        writeln!(text, "{name}: {ips} {} ({})", info.registry, why.join(", ")).unwrap();
        single.insert(name, info);
    }
    assert_eq!(whole.table, single);
    assert_eq!(whole.name_info, None);
    insta::assert_snapshot!(text, @"
    api.shop.svc.cluster.local: 10.96.0.2 Kubernetes (Service shop/api)
    pods-2.pods.shop.svc.cluster.local: 10.0.0.4 Kubernetes (Pod shop/pods-2, Service shop/pods)
    pods.shop.svc.cluster.local: 10.0.0.3 10.0.0.4 Kubernetes (Pod shop/pods-1, Pod shop/pods-2, Service shop/pods)
    ");
}

#[test]
fn origins_name_the_objects_of_a_resource() {
    let mut world = with_api(&["10.0.0.2"]);
    world.serve("web.shop", &[(80, Http)], "10.96.0.1", &["10.0.0.1"]);
    world.authenticate("shop", "web", MtlsMode::Strict, &[]);
    world.with(|context| {
        let texts = |origins: std::collections::BTreeSet<_>| -> Vec<String> {
            origins
                .iter()
                .map(|origin: &pilot_routing::envoy::context::Origin| origin.to_string())
                .collect()
        };
        assert_eq!(
            texts(Clusters::why(context, API)),
            ["Service shop/api", "ServiceAccount shop/api"]
        );
        assert_eq!(texts(Endpoints::why(context, API)), ["Pod shop/api-1", "Service shop/api"]);
        assert_eq!(
            texts(Listeners::why(context, "virtualInbound")),
            [
                "MeshConfig mesh",
                "PeerAuthentication shop/policy-0",
                "Pod shop/web-1",
                "Service shop/web"
            ]
        );
        assert_eq!(
            texts(Listeners::why(context, "0.0.0.0_80")),
            ["MeshConfig mesh", "Service shop/api", "Service shop/web"]
        );
    });
}
