//! A workload that an `AuthorizationPolicy` of the files selects. The ports of a proxy that captures
//! connections are fixed, so each story has a network namespace.

use std::collections::BTreeSet;

use e2e::netns::Namespace;
use e2e::port::free_port;
use serde_json::{Value, json};

use crate::fixture::{Fixture, wait_for};
use crate::objects::Mesh;

const POLICY: &str = "AuthorizationPolicy shop/deny";

pub(crate) fn unenforced_policy_closes_its_workload_until_it_is_gone() {
    let story = || {
        let mesh = mesh();
        let fixture = start(&with_policies(&mesh), &[]);
        wait_for("the closed listener", || has_chains(&fixture, CLOSED));
        assert_eq!(fixture.page("/debug/syncz").unwrap()[0]["closed_by"], POLICY);
        let metrics = fixture.metrics();
        for line in [
            "outrigger_closed_proxies 1",
            "outrigger_objects_without_effect{kind=\"AuthorizationPolicy\"} 2",
            "outrigger_objects_without_effect{kind=\"VirtualService\"} 1",
            "outrigger_objects_without_effect{kind=\"Sidecar\"} 0",
        ] {
            assert!(metrics.contains(&format!("\n{line}\n")), "{line}: {metrics}");
        }
        let why = "/debug/why?proxy=client-1.shop&resource=virtualInbound";
        let why = fixture.page(why).unwrap();
        assert!(why[0]["objects"].as_array().unwrap().contains(&json!(POLICY)), "{why}");

        // Another change names no object again.
        fixture.write(&with_policies(&mesh).service("other", 80, &[]));
        wait_for("the other change", || {
            let services = fixture.page("/debug/registry")?;
            if services[0].is_object() { Ok(()) } else { Err(services.to_string()) }
        });
        let log = fixture.log();
        for said in [
            "AuthorizationPolicy shop/deny has no effect: it is not enforced, so the workloads",
            "AuthorizationPolicy shop/other has no effect",
            "VirtualService shop/web has no effect: requests are routed by Service alone",
            "no inbound connection is taken: AuthorizationPolicy shop/deny is not enforced",
        ] {
            assert_eq!(log.matches(said).count(), 1, "{said}: {log}");
        }

        fixture.write(&mesh);
        wait_for("the open listener", || has_chains(&fixture, OPEN));
        assert!(fixture.page("/debug/syncz").unwrap()[0]["closed_by"].is_null());
        assert!(fixture.metrics().contains("\noutrigger_closed_proxies 0\n"));
        fixture.is_at_rest();
    };
    Namespace::create().unwrap().run(story).unwrap();
}

pub(crate) fn flag_opens_workloads_of_unenforced_policies() {
    let story = || {
        let fixture = start(&with_policies(&mesh()), &["--allow-unenforced-policies"]);
        wait_for("the open listener", || has_chains(&fixture, OPEN));
        let counted = "\noutrigger_objects_without_effect{kind=\"AuthorizationPolicy\"} 2\n";
        assert!(fixture.metrics().contains(counted), "{}", fixture.metrics());
        let log = fixture.log();
        assert!(
            log.contains("AuthorizationPolicy shop/deny has no effect: it is not enf"),
            "{log}"
        );
        assert!(log.contains("--allow-unenforced-policies: workloads that an"), "{log}");
    };
    Namespace::create().unwrap().run(story).unwrap();
}

/// A mesh without certificates, for which an open listener would wait.
fn mesh() -> Mesh {
    Mesh::default().authenticate("DISABLE")
}

fn with_policies(mesh: &Mesh) -> Mesh {
    let authorization = |mesh: Mesh, name: &str, app: &str| {
        mesh.istio("security.istio.io/v1", "AuthorizationPolicy", name, app)
    };
    let mesh = authorization(authorization(mesh.clone(), "deny", "client"), "other", "other");
    mesh.istio("networking.istio.io/v1beta1", "VirtualService", "web", "client")
}

fn start(mesh: &Mesh, flags: &[&str]) -> Fixture {
    let mut fixture = Fixture::start_with(free_port().unwrap(), mesh, flags);
    let metadata = json!({"INTERCEPTION_MODE": "REDIRECT", "LABELS": {"app": "client"}});
    fixture.start_envoy_with("sidecar", &metadata);
    fixture
}

/// Checks the names of the filter chains in Envoy's active inbound listener.
fn has_chains(fixture: &Fixture, expected: &[&str]) -> Result<(), String> {
    let page = fixture.admin("/config_dump?resource=dynamic_listeners")?;
    let page: Value = serde_json::from_str(&page).map_err(|error| error.to_string())?;
    let mut listeners = page["configs"].as_array().into_iter().flatten();
    let inbound = listeners.find(|listener| listener["name"] == "virtualInbound");
    let chains = &inbound.ok_or("no listener")?["active_state"]["listener"]["filter_chains"];
    let names = chains.as_array().into_iter().flatten().map(|chain| &chain["name"]);
    let names: BTreeSet<_> = names.filter_map(Value::as_str).collect();
    if names.iter().eq(expected) { Ok(()) } else { Err(page.to_string()) }
}

const CLOSED: &[&str] = &["closed by AuthorizationPolicy shop/deny"];
const OPEN: &[&str] =
    &["virtualInbound", "virtualInbound-blackhole", "virtualInbound-catchall-http"];
