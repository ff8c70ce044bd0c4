//! Workloads that an `AuthorizationPolicy` selects: it is not enforced, so they take no connection.

use std::collections::BTreeSet;

use pilot_routing::envoy::Generator as _;
use pilot_routing::envoy::listeners::Listeners;
use serde_json::json;

use crate::calls::{V4, get};
use crate::held::Mesh;
use crate::pods::{APPLICATION, Held, UNCAPTURED, exchange};
use crate::world::World;

/// Checks that no call gets a byte of the application, and that the connections end.
fn assert_closed(mesh: &Mesh, when: &str) {
    let client = &mesh.pods.client;
    for (owner, to, bytes) in [
        (APPLICATION, (V4.vip, 80), get("api")),
        (APPLICATION, (V4.vip, 81), "bytes\n".to_owned()),
        (UNCAPTURED, (V4.server, 8080), get("api")),
        (UNCAPTURED, (V4.server, 8081), "bytes\n".to_owned()),
        // No service leads here.
        (UNCAPTURED, (V4.server, 8099), get("api")),
    ] {
        let answer = exchange(client, owner, to, &bytes);
        let error = answer.as_ref().err().map_or_else(String::new, |error| format!("{error:#}"));
        assert!(!error.contains("timed out"), "{when}, {to:?}: the connection stays open");
        // The client's own proxy may answer in HTTP.
        let answer = answer.unwrap_or_default();
        let is_answered = answer.contains("http ") || answer.contains("echo ");
        assert!(!is_answered, "{when}, {to:?}: {answer}");
    }
}

fn assert_open(mesh: &Mesh, when: &str) {
    let answer = exchange(&mesh.pods.client, APPLICATION, (V4.vip, 80), &get("api")).unwrap();
    assert!(answer.contains("uri=spiffe://cluster.local/ns/shop/sa/web"), "{when}: {answer}");
    let answer = exchange(&mesh.pods.client, UNCAPTURED, (V4.server, 8099), &get("api")).unwrap();
    assert!(answer.contains("http "), "{when}: {answer}");
}

fn workload_opens_and_closes(interception: &str) {
    let mut mesh = Mesh::start_with(interception, |world| world.authorize("api")).unwrap();
    for port in [8080, 8099] {
        mesh.pods.server.serve("0.0.0.0", port).unwrap();
    }
    mesh.pods.server.echo("0.0.0.0", 8081).unwrap();
    assert_closed(&mesh, "from the start");
    mesh.change(|world| world.authorization.clear()).unwrap();
    assert_open(&mesh, "without the policy");
    let open = |name, owner, to| Held::open(name, &mesh.pods.client, owner, to).unwrap();
    let mut held = [
        open("mutual TLS", APPLICATION, (V4.vip, 81)),
        open("plaintext", UNCAPTURED, (V4.server, 8081)),
    ];
    // One for another workload.
    mesh.change(|world| world.authorize("web")).unwrap();
    assert_open(&mesh, "with a policy of the client");
    for held in &mut held {
        held.check("with a policy of the client").unwrap();
    }
    mesh.change(|world| world.authorize("api")).unwrap();
    assert_closed(&mesh, "with the policy");
    for held in &mut held {
        assert!(held.check("with the policy").is_err(), "connections in use end");
    }
}

#[test]
fn selected_workload_takes_no_connection() {
    workload_opens_and_closes("REDIRECT");
}

#[test]
fn selected_workload_with_tproxy_takes_no_connection() {
    workload_opens_and_closes("TPROXY");
}

#[test]
fn refusal_names_the_policy() {
    let mut world = World::new("10.0.0.1", json!({}));
    world.authorize("web");
    let chains = world.build::<Listeners>("virtualInbound").filter_chains;
    let names: Vec<_> = chains.iter().map(|chain| chain.name.as_str()).collect();
    assert_eq!(names, ["closed by AuthorizationPolicy shop/deny"]);
    world.with(|context| {
        let origins: BTreeSet<_> =
            Listeners::why(context, "virtualInbound").iter().map(ToString::to_string).collect();
        assert!(origins.contains("AuthorizationPolicy shop/deny"), "{origins:?}");
    });
}

#[test]
fn proxy_without_capture_has_nothing_to_close() {
    let mut world = World::new("10.0.0.1", json!({"INTERCEPTION_MODE": "NONE"}));
    world.authorize("web");
    world.with(|context| assert_eq!(context.closed_by(), None));
    assert!(!world.names::<Listeners>().contains(&"virtualInbound".to_owned()));
}
