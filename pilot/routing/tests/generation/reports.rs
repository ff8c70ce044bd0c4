//! Objects of public reports, whose folder `OUTRIGGER_REPORTS` names: what the proxies are sent for
//! them, and connections of two of these proxies.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use e2e::report_files;
use mesh::istio_kinds::{AUTHORIZATION_POLICY, PEER_AUTHENTICATION};
use mesh::mesh_config::MeshConfig;
use pilot_registry::files;
use pilot_registry::manifest::ObjectDefaults;
use pilot_routing::authorization_policy::AuthorizationPolicy;
use pilot_routing::envoy::clusters::Clusters;
use pilot_routing::envoy::listeners::Listeners;
use pilot_routing::envoy::routes::Routes;
use pilot_routing::peer_authentication::{PeerAuthentication, PeerAuthentications, without_effect};
use pilot_routing::view::{MeshView, ProxyView};
use serde_json::json;

use crate::consistency::problems;
use crate::headless::to_pod_of;
use crate::inbound::inbound;
use crate::pods::{APPLICATION, Held, Pods, exchange};
use crate::tables::endpoints_of;
use crate::world::{World, locality};

const CLIENT: &str = "10.99.0.10";
const SERVER: &str = "10.99.0.21";
const OUTSIDE: &str = "10.99.0.30";

/// The mesh of a file, for the proxy at an address.
fn world(file: &Path, address: &str) -> World {
    let text = fs::read_to_string(file).unwrap();
    let parsed = files::parse(&text, &ObjectDefaults::default()).unwrap();
    assert_eq!(parsed.warnings, [], "{}", file.display());
    let objects = parsed.objects;
    let own = objects.pods.values().map(|pod| &pod.workload);
    let own = own.clone().find(|it| it.addresses.iter().any(|ip| ip.to_string() == address));
    let (name, app) = own.map_or(("none", "none"), |it| (&*it.name, &*it.owner));
    let id = format!("sidecar~{address}~{name}.shop~shop.svc.cluster.local");
    let app = app.rsplit_once('-').map_or(app, |(app, _)| app);
    let metadata =
        json!({"INSTANCE_IPS": address, "HTTP_BY_METHOD": "true", "LABELS": {"app": app}});
    let metadata = metadata.as_object().unwrap();
    let of_kind = |kind: &'static str| {
        objects.istio.iter().filter(move |((name, _), _)| name == kind).map(|(_, object)| object)
    };
    let policies = of_kind(PEER_AUTHENTICATION.kind).map(PeerAuthentication::from_object);
    let policies = policies.collect::<Result<_, _>>().unwrap();
    let authorization = of_kind(AUTHORIZATION_POLICY.kind);
    let authorization = authorization.filter_map(AuthorizationPolicy::from_object).collect();
    World {
        services: objects.services.into_values().collect(),
        slices: objects.slices.into_values().collect(),
        pods: objects.pods.into_values().collect(),
        mesh: MeshView::new(&MeshConfig::parse("").unwrap()).unwrap(),
        policies,
        authorization,
        proxy: ProxyView::from_node(&id, locality("/"), metadata).unwrap(),
    }
}

/// The two pods of a file with their proxies.
fn pods(file: &Path) -> Pods {
    let account = "spiffe://cluster.local/ns/shop/sa/default";
    let worlds = [CLIENT, SERVER].map(|address| world(file, address));
    Pods::with_identities((&worlds[0], account), (&worlds[1], account)).unwrap()
}

/// Files of the folder `mesh`, by folder and name.
fn all() -> Option<BTreeMap<String, PathBuf>> {
    let folder = report_files::folder("objects of public reports").unwrap()?.join("mesh");
    let entries = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let files = entries(&folder).into_iter().flat_map(|folder| entries(&folder));
    let name = |path: &Path| path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned();
    Some(files.map(|path| (name(&path), path)).collect())
}

/// Runs a check of each file of a folder with the client's view; its name is without the folder.
fn each(folder: &str, check: impl Fn(&str, &Path)) {
    let Some(files) = all() else { return };
    let files: Vec<_> =
        files.iter().filter_map(|(name, path)| Some((name.strip_prefix(folder)?, path))).collect();
    assert!(!files.is_empty(), "{folder}");
    for (name, path) in files {
        check(&name[1..], path);
    }
}

fn listeners(world: &World) -> Vec<String> {
    world.names::<Listeners>()
}

#[test]
fn reported_meshes_are_consistent() {
    for (name, path) in all().into_iter().flatten() {
        for address in [CLIENT, SERVER] {
            let problems = problems(&world(&path, address).resources());
            assert!(problems.is_empty(), "{name} for {address}: {problems:#?}");
        }
    }
}

#[test]
fn reported_aliases_of_services_belong_to_their_targets() {
    each("alias_inside", |file, path| {
        let world = world(path, CLIENT);
        if file == "of_a_pod_strict.yaml" {
            // The name leads to the address of the pod, which has a listener.
            let host = "peers.shop.svc.cluster.local";
            assert_eq!(to_pod_of(&world, host, SERVER, 8080), "mutual TLS");
            return;
        }
        let is_headless = file == "of_a_headless_service_strict.yaml";
        let (port, target, alias) =
            if is_headless { ("8080", "peers", "primary") } else { ("80", "web", "front") };
        let routes = world.build::<Routes>(port);
        let name = format!("{target}.shop.svc.cluster.local:{port}");
        let host = routes.virtual_hosts.iter().find(|host| host.name == name);
        let domains = &host.unwrap_or_else(|| panic!("{file}: {routes:?}")).domains;
        for domain in [alias.to_owned(), format!("{alias}.shop.svc.cluster.local")] {
            assert!(domains.contains(&domain), "{file}: {domain}: {domains:?}");
        }
        let clusters = world.names::<Clusters>();
        assert!(!clusters.iter().any(|name| name.contains(alias)), "{file}: {clusters:?}");
    });
}

#[test]
fn reported_ports_of_external_aliases_have_no_listener() {
    each("alias_port", |file, path| {
        let listeners = listeners(&world(path, CLIENT));
        let has = |port: u16| listeners.contains(&format!("0.0.0.0_{port}"));
        assert_eq!([443, 587, 9000].map(has), [false, false, file == "http_9000.yaml"], "{file}");
    });
}

#[test]
fn reported_headless_services_use_mutual_tls_by_pod() {
    let host = "db.shop.svc.cluster.local";
    for folder in ["headless_http_by_address", "headless_partial", "headless_terminating"] {
        each(folder, |file, path| {
            let world = world(path, CLIENT);
            if file.starts_with("var_virtual_address") {
                let cluster = format!("outbound|9000||{host}");
                let ready =
                    if file.ends_with("_ready.yaml") { vec!["0 10.99.0.21 mtls"] } else { vec![] };
                assert_eq!(endpoints_of(&world, &cluster), ready, "{file}");
                return;
            }
            for pod in &world.pods {
                let address = pod.workload.addresses[0].to_string();
                let transport = match &*address {
                    CLIENT => "no listener",
                    OUTSIDE => "plaintext",
                    _ => "mutual TLS",
                };
                assert_eq!(to_pod_of(&world, host, &address, 9000), transport, "{file} {address}");
            }
        });
    }
}

/// Connections to a pod's address pass through, as docs/proxies.md says.
#[test]
fn reported_pods_behind_a_virtual_address_have_no_listener() {
    each("pod_address", |file, path| {
        let listeners = listeners(&world(path, CLIENT));
        assert!(!listeners.iter().any(|name| name.starts_with(SERVER)), "{file}: {listeners:?}");
    });
}

#[test]
fn reported_endpoints_wait_for_their_pods() {
    each("pod_later", |file, path| {
        let found = endpoints_of(&world(path, CLIENT), "outbound|8080||web.shop.svc.cluster.local");
        let expected: &[&str] = match file {
            "3_pod_of_same_name_with_new_address.yaml" => &["0 10.99.0.22 mtls"],
            file if file.contains("2_pod_arrives") => &["0 10.99.0.21 mtls", "0 10.99.0.22 mtls"],
            _ => &[],
        };
        assert_eq!(found, expected, "{file}");
    });
}

#[test]
fn reported_policies_without_effect_are_found() {
    each("port_level", |file, path| {
        let world = world(path, SERVER);
        let all = PeerAuthentications::new(ROOT, world.policies.clone());
        let found = without_effect(&world.policies, &all, ROOT, &world.snapshot());
        let found: Vec<_> =
            found.iter().map(|it| format!("{} {}", it.policy, it.reason.name())).collect();
        let expected: &[&str] = match file {
            "no_selector.yaml" | "no_selector_strict_port.yaml" => {
                &["shop/default ports_without_selector"]
            }
            "root_selector.yaml" => &["istio-system/web selector_in_root_namespace"],
            "service_port.yaml" => &["shop/web service_port"],
            "two_of_namespace.yaml" => &["shop/b older_policy"],
            _ => &[],
        };
        assert_eq!(found, expected, "{file}");
        if file == "headless_disable.yaml" {
            let client = self::world(path, CLIENT);
            let host = "webh.shop.svc.cluster.local";
            assert_eq!(to_pod_of(&client, host, SERVER, 9090), "plaintext");
        }
    });
}

#[test]
fn reported_services_on_ports_of_the_proxy_are_counted() {
    each("reserved_ports", |_, path| {
        let world = world(path, CLIENT);
        let listeners = listeners(&world);
        let taken = [15001, 15006].map(|port| format!("0.0.0.0_{port}"));
        assert!(!listeners.iter().any(|name| taken.contains(name)), "{listeners:?}");
        let hosts = world.with(|context| {
            let conflicts = context.outbound().conflicts().iter();
            conflicts.map(|conflict| conflict.hostname.to_string()).collect::<Vec<_>>()
        });
        for name in ["s0-http-15001", "s1-http-15006"] {
            assert!(hosts.contains(&format!("{name}.shop.svc.cluster.local")), "{hosts:?}");
        }
    });
}

#[test]
fn reported_protocols_in_which_servers_speak_first_are_tcp() {
    let Some(files) = all() else { return };
    for name in ["app_protocol_smtp_2525", "name_smtp_2525", "tcp_2525"] {
        let file = &files[&format!("server_first/{name}.yaml")];
        let server = world(file, SERVER);
        let chains = inbound(&server.build::<Listeners>("virtualInbound"), 2525);
        assert!(chains.lines().all(|chain| chain.ends_with("tcp")), "{name}: {chains}");
        let pods = pods(file);
        pods.server.speak_first("0.0.0.0", 2525).unwrap();
        let answer = exchange(&pods.client, APPLICATION, ("10.98.0.20", 2525), "").unwrap();
        assert_eq!(answer, "hello 127.0.0.6\n", "{name}");
    }
}

#[test]
fn reported_post_runs_once() {
    let Some(files) = all() else { return };
    let file = &files["retry_503_post/one_endpoint.yaml"];
    let pods = pods(file);
    let application = pods.server.answer(8080).unwrap();
    application.answers("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n");
    let request = "POST / HTTP/1.1\r\nhost: web\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let answer = exchange(&pods.client, APPLICATION, ("10.98.0.20", 8080), request).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert_eq!(application.requests(), 1);
}

#[test]
fn connections_are_held_through_reported_changes() {
    let Some(files) = all() else { return };
    for (first, to) in [("0", "10.98.0.21"), ("h0", SERVER), ("s0", "10.98.0.21")] {
        let kind = first.trim_end_matches('0');
        let is_of_kind = |name: &str| {
            let name = name.strip_prefix("held_connections/").and_then(|it| it.strip_prefix(kind));
            name.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
        };
        let mut sequence = files.iter().filter(|(name, _)| is_of_kind(name)).map(|(_, path)| path);
        let start = sequence.next().unwrap();
        let mut pods = pods(start);
        pods.server.echo("0.0.0.0", 9000).unwrap();
        let mut held = Held::open("to port 9000", &pods.client, APPLICATION, (to, 9000)).unwrap();
        for file in sequence {
            for (pod, address) in [(&mut pods.client, CLIENT), (&mut pods.server, SERVER)] {
                let updated = pod.proxy.update(&world(file, address).resources());
                updated.unwrap_or_else(|error| panic!("{address}, {}: {error:?}", file.display()));
            }
            held.check(file.to_str().unwrap()).unwrap();
        }
    }
}

const ROOT: &str = "istio-system";
