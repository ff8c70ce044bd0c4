//! Tables of rules, each on the smallest mesh that shows it.

use std::fmt::Write as _;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use envoy_types::pb::google::protobuf::value::Kind;
use pilot_registry::protocol::Protocol::{self, Http, Https, Tcp, Undeclared};
use pilot_registry::service::{ExportTo, TrafficDistribution};
use pilot_registry::slice::Condition;
use pilot_routing::envoy::clusters::Clusters;
use pilot_routing::envoy::endpoints::Endpoints;
use pilot_routing::envoy::listeners::Listeners;
use pilot_routing::envoy::name_tables::{NameEntries, NameTables};
use pilot_routing::envoy::routes::Routes;
use pilot_routing::envoy::{Generator, resource_version};
use pilot_routing::peer_authentication::{MtlsMode, without_effect};
use pilot_routing::view::{Interception, ProxyKind};
use prost::Message as _;
use serde_json::json;

use crate::world::{World, labels, locality};

const API: &str = "outbound|80||api.shop.svc.cluster.local";
const API_HOST: &str = "api.shop.svc.cluster.local";

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
    assignment_of(world, API)
}

fn assignment_of(world: &World, cluster: &str) -> ClusterLoadAssignment {
    ClusterLoadAssignment::decode(&*world.build::<Endpoints>(cluster).encode_to_vec()).unwrap()
}

/// Endpoints in a line: priority, address, and whether they take mutual TLS.
fn endpoints(world: &World) -> Vec<String> {
    endpoints_of(world, API)
}

fn endpoints_of(world: &World, cluster: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for group in assignment_of(world, cluster).endpoints {
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
    // The pod of the third one is not known.
    assert_eq!(found.collect::<Vec<_>>(), expected.map(|text| Some(text.to_owned())));
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

/// Transport of a connection to a pod of a headless service.
fn to_pod(world: &World, address: &str, port: u16) -> &'static str {
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
    let cluster = format!("outbound|{port}||api.shop.svc.cluster.local");
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
fn endpoint_waits_for_the_pod_that_its_slice_names() {
    let mut world = with_api(&["10.0.0.2", "10.0.0.3"]);
    world.pods[0].workload.addresses = vec!["10.0.0.9".parse().unwrap()];
    world.pods.pop();
    assert_eq!(endpoints(&world), [""; 0], "a pod with another address, and none");
    // Without a name it may be any host.
    world.slices[0].endpoints[1].pod = None;
    assert_eq!(endpoints(&world), ["0 10.0.0.3"]);
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

/// Names of an alias are those of its target, on the ports of the target. Its own ports mean
/// nothing, as those of Kubernetes' DNS.
#[test]
fn alias_belongs_to_its_target_on_each_of_its_ports() {
    let alias = "near.shop.svc.cluster.local";
    for ports in [&[][..], &[(80, Http)], &[(80, Tcp)], &[(80, Undeclared)], &[(81, Http)]] {
        let mut world = with_api(&["10.0.0.2"]);
        world.alias("near.shop", ports, "api.shop.svc.cluster.local");
        world.alias("nearer.shop", &[], alias);
        let routes = world.build::<Routes>("80");
        let host = routes.virtual_hosts.iter().find(|host| host.domains.contains(&alias.into()));
        let host = host.unwrap_or_else(|| panic!("{ports:?}: {routes:?}"));
        assert_eq!(host.name, "api.shop.svc.cluster.local:80");
        for name in ["near", "near.shop", "nearer", "nearer.shop.svc.cluster.local"] {
            assert!(host.domains.contains(&name.to_owned()), "{ports:?}: {:?}", host.domains);
        }
        assert!(!world.names::<Listeners>().contains(&"0.0.0.0_81".to_owned()));
        assert!(!world.names::<Clusters>().iter().any(|name| name.contains("near")));
    }
}

/// A listener on all addresses would inspect what is for unknown hosts, whose servers may speak
/// first.
#[test]
fn undeclared_ports_of_external_aliases_have_no_listener() {
    let mut world = World::new("10.0.0.1", json!({}));
    world.alias("far.shop", &[(80, Http), (587, Undeclared), (25, Tcp)], "mail.example.com");
    assert_eq!(
        world.names::<Listeners>(),
        ["0.0.0.0_80", "virtualInbound", "virtualOutbound"].map(str::to_owned)
    );
    // The start of a pod does not wait for the name server of the host.
    let cluster = world.build::<Clusters>("outbound|80||far.shop.svc.cluster.local");
    assert_eq!(cluster.wait_for_warm_on_init.map(|wait| wait.value), Some(false));
    // One pod of a headless service is no host outside of the mesh.
    world.serve("db.shop", &[(80, Http)], "", &["10.0.0.2"]);
    world.alias("first.shop", &[(80, Http)], "db-0.db.shop.svc.cluster.local");
    assert!(!world.names::<Clusters>().iter().any(|name| name.contains("first")));
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

#[test]
fn policies_without_effect_are_found() {
    let found = |policies: &[(&str, &str, &[u16])]| -> Vec<String> {
        let mut world = World::new("10.0.0.1", json!({}));
        world.serve("web.shop", &[(80, Http)], "10.96.0.1", &["10.0.0.1"]);
        for (namespace, app, ports) in policies {
            let ports: Vec<_> = ports.iter().map(|port| (*port, MtlsMode::Disable)).collect();
            world.authenticate(namespace, app, MtlsMode::Strict, &ports);
        }
        let found = without_effect(&world.policies, "istio-system", &world.snapshot());
        found.iter().map(|it| format!("{} {}", it.policy, it.reason.name())).collect()
    };
    assert_eq!(found(&[("shop", "", &[]), ("shop", "web", &[8080])]), [""; 0]);
    // No service leads to the port: only the container may know it.
    assert_eq!(found(&[("shop", "web", &[9999])]), [""; 0]);
    assert_eq!(found(&[("shop", "web", &[80])]), ["shop/policy-0 service_port"]);
    assert_eq!(found(&[("shop", "", &[8080])]), ["shop/policy-0 ports_without_selector"]);
    let root = [("istio-system", "web", &[][..])];
    assert_eq!(found(&root), ["istio-system/policy-0 selector_in_root_namespace"]);
    for (namespace, app) in [("shop", ""), ("shop", "web"), ("istio-system", "")] {
        let two = [(namespace, app, &[][..]); 2];
        assert_eq!(found(&two), [format!("{namespace}/policy-1 older_policy")]);
    }
    // The workloads may come later.
    assert_eq!(found(&[("shop", "api", &[80])]), [""; 0]);
}
