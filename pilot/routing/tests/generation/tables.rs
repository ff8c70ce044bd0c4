//! Tables of rules, each on the smallest mesh that shows it.

use std::fmt::Write as _;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::google::protobuf::value::Kind;
use pilot_registry::protocol::Protocol::{Http, Https, Tcp, Undeclared};
use pilot_registry::service::{ExportTo, TrafficDistribution};
use pilot_registry::slice::Condition;
use pilot_routing::envoy::clusters::Clusters;
use pilot_routing::envoy::endpoints::Endpoints;
use pilot_routing::envoy::listeners::Listeners;
use pilot_routing::envoy::name_tables::{NameEntries, NameTables};
use pilot_routing::envoy::routes::Routes;
use pilot_routing::envoy::{Generator, resource_version};
use pilot_routing::peer_authentication::MtlsMode;
use prost::Message as _;
use serde_json::json;

use crate::world::{World, labels, locality};

pub(crate) const API: &str = "outbound|80||api.shop.svc.cluster.local";
pub(crate) const API_HOST: &str = "api.shop.svc.cluster.local";

fn with_api(pods: &[&str]) -> World {
    let mut world = World::new("10.0.0.1", json!({}));
    world.serve("api.shop", &[(80, Http)], "10.96.0.2", pods);
    world
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
pub(crate) fn endpoints(world: &World) -> Vec<String> {
    endpoints_of(world, API)
}

pub(crate) fn endpoints_of(world: &World, cluster: &str) -> Vec<String> {
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
