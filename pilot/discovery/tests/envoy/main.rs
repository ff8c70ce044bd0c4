//! Envoy served from a directory of files: the program, one Envoy, backends, and an agent.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics has failed")]

mod agent;
mod closed;
mod fixture;
mod objects;

use std::env;
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;

use fixture::{Backend, Fixture, expect, get, wait_for};
use objects::Mesh;

/// Runs the tests, or the agent that one of them has started: cargo does not name the programs of
/// other packages to a test.
fn main() -> ExitCode {
    if env::args().nth(1).is_some_and(|first| ["proxy", "envoy-child"].contains(&&*first)) {
        return pilot_agent::cli::main(env::args_os(), env::vars_os());
    }
    macro_rules! trials {
        ($($test:path),+ $(,)?) => { vec![$(
            Trial::test(stringify!($test), || {
                $test();
                Ok(())
            })
        ),+] };
    }
    let trials = trials![
        files_configure_envoy_and_changes_reach_it,
        pages_show_proxy_resources_and_their_objects,
        rejected_listener_is_shown_and_others_work,
        policies_and_settings_of_files_apply_at_run_time,
        router_without_listeners_becomes_ready,
        agent::traffic_follows_files_and_outlives_discovery,
        closed::unenforced_policy_closes_its_workload_until_it_is_gone,
        closed::flag_opens_workloads_of_unenforced_policies,
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn files_configure_envoy_and_changes_reach_it() {
    let (one, two) = (Backend::start("one"), Backend::start("two"));
    let port = e2e::port::free_port().unwrap();
    let mut fixture = Fixture::start(&Mesh::default().service("web", port, &[one.address]));
    fixture.start_envoy();
    wait_for("the first answer", || expect(port, "web.shop.svc.cluster.local", "one"));
    // Short names of the proxy's namespace.
    expect(port, "web", "one").unwrap();

    fixture.write(&Mesh::default().service("web", port, &[two.address]));
    wait_for("the changed endpoint", || expect(port, "web", "two"));

    // A service comes and goes.
    let both = Mesh::default().service("web", port, &[two.address]);
    fixture.write(&both.clone().service("api", port, &[one.address]));
    wait_for("the new service", || expect(port, "api.shop", "one"));
    fixture.write(&both);
    wait_for("the removal", || match get(port, "api.shop") {
        Ok((200, body)) => Err(format!("still answers {body}")),
        _ => Ok(()),
    });
    fixture.is_at_rest();

    // A restarted server has nothing to send.
    fixture.restart();
    wait_for("the new stream", || {
        let line = fixture.page("/debug/syncz")?[0].clone();
        let keys = ["cluster_acked", "endpoint_acked", "listener_acked", "route_acked"];
        if keys.iter().all(|key| line[*key].is_string()) { Ok(()) } else { Err(line.to_string()) }
    });
    assert_eq!(fixture.sent_resources(), 0, "{}", fixture.metrics());
    expect(port, "web", "two").unwrap();
    fixture.is_at_rest();
}

fn pages_show_proxy_resources_and_their_objects() {
    let one = Backend::start("one");
    let port = e2e::port::free_port().unwrap();
    let mut fixture = Fixture::start(&Mesh::default().service("web", port, &[one.address]));
    fixture.start_envoy();
    wait_for("the first answer", || expect(port, "web", "one"));
    let cluster = format!("outbound|{port}||web.shop.svc.cluster.local");

    let page = |path: &str| fixture.page(path).unwrap();
    assert_eq!(page("/debug/registry")[0]["hostname"], "web.shop.svc.cluster.local");
    assert_eq!(page("/debug/endpoints")[0]["endpoints"][0]["port"], one.address.port());
    assert_eq!(page("/debug/endpoints")[0]["endpoints"][0]["mutualTlsMode"], Value::Null);
    assert_eq!(page("/debug/registry")[0]["exportedTo"], Value::Null);
    assert_eq!(page("/debug/connections")[0]["proxy"], "client-1.shop");
    assert_eq!(page("/debug/config")["mesh"]["rootNamespace"], "istio-system");
    wait_for("the ACKs", || {
        let line = fixture.page("/debug/syncz")?[0].clone();
        assert_eq!(line["proxy_type"], "sidecar");
        let is_synced =
            line["cluster_sent"] == line["cluster_acked"] && line["route_acked"].is_string();
        if is_synced { Ok(()) } else { Err(line.to_string()) }
    });
    let why = page(&format!("/debug/why?proxy=client-1.shop&resource={cluster}"));
    assert_eq!(why[0]["objects"][0], "Service shop/web", "{why}");
    let dump = page("/debug/config_dump?proxyID=client-1.shop");
    let types = dump["configs"].as_array().unwrap();
    let mut resources = types.iter().flat_map(|it| it["resources"].as_array().unwrap());
    let found = resources.find(|it| it["name"] == cluster.as_str()).unwrap();
    assert_eq!(found["version"], found["acknowledged"], "{found}");
    let pushes = page("/debug/pushes");
    assert_eq!(pushes[0]["triggers"][0], "service", "{pushes}");
    let metrics = fixture.metrics();
    for line in
        ["pilot_push_triggers{type=\"service\"} 1", "pilot_eds_no_instances 0", "pilot_no_ip 1"]
    {
        assert!(metrics.contains(&format!("\n{line}\n")), "{line}: {metrics}");
    }
    let error = fixture.page("/debug/config_dump?proxyID=other.shop").unwrap_err();
    assert!(error.contains("other.shop is not connected"), "{error}");
}

fn rejected_listener_is_shown_and_others_work() {
    let one = Backend::start("one");
    let port = e2e::port::free_port().unwrap();
    // Envoy cannot bind this port.
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().port();
    let mesh = Mesh::default().service("web", port, &[one.address]);
    let mut fixture = Fixture::start(&mesh);
    fixture.start_envoy();
    wait_for("the first answer", || expect(port, "web", "one"));
    fixture.write(&mesh.clone().service("api", taken, &[one.address]));
    let name = format!("127.0.0.1_{taken}");
    let rejected = || -> Result<Value, String> {
        let dump = fixture.page("/debug/config_dump?proxy=client-1.shop")?;
        let types = dump["configs"].as_array().unwrap();
        let mut resources = types.iter().flat_map(|it| it["resources"].as_array().unwrap());
        let found = resources.find(|it| it["name"] == name.as_str());
        let found = found.map(|it| it["rejected"].clone()).unwrap_or_default();
        if found.is_object() { Ok(found) } else { Err(dump.to_string()) }
    };
    wait_for("the rejection", || rejected().map(drop));
    let reason = rejected().unwrap()["reason"].to_string();
    assert!(reason.contains("ddress already in use"), "{reason}");
    let metrics = fixture.metrics();
    assert!(metrics.contains("pilot_total_xds_rejects{type=\"lds\"} "));
    // A rejected change has arrived too.
    for name in ["pilot_proxy_convergence_time_count", "pilot_proxy_queue_time_count"] {
        let count = metrics.lines().find_map(|line| line.strip_prefix(name));
        assert!(count.is_some_and(|count| count.trim() != "0"), "{name}: {metrics}");
    }
    assert!(fixture.log().contains("the proxy rejected a resource"), "{}", fixture.log());
    expect(port, "web", "one").unwrap();
    drop(holder);
}

fn policies_and_settings_of_files_apply_at_run_time() {
    let port = e2e::port::free_port().unwrap();
    let mesh = Mesh::default().service("web", port, &[]);
    let fixture = Fixture::start(&mesh);
    let config = || fixture.page("/debug/config").unwrap();
    assert_eq!(config()["peerAuthentications"], serde_json::json!([]));
    fixture.write(&mesh.clone().authenticate("STRICT"));
    wait_for("the policy", || match config()["peerAuthentications"][0]["mode"].as_str() {
        Some("Strict") => Ok(()),
        _ => Err(config().to_string()),
    });
    fixture.write(&mesh);
    wait_for("the end of the policy", || {
        let is_gone = config()["peerAuthentications"][0].is_null();
        if is_gone { Ok(()) } else { Err(config().to_string()) }
    });
    fixture.settings("outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n");
    wait_for("the settings", || match config()["mesh"]["outboundTrafficPolicy"].as_str() {
        Some("RegistryOnly") => Ok(()),
        _ => Err(config().to_string()),
    });
    // An invalid document leaves the settings as they are.
    fixture.settings("outboundTrafficPolicy: [\n");
    wait_for("the warning", || {
        let is_logged = fixture.log().contains("the last valid settings stay");
        if is_logged { Ok(()) } else { Err(fixture.log()) }
    });
    // As is one with a format that every Envoy would reject.
    fixture.settings("{accessLogFile: /dev/stdout, accessLogFormat: '%NOPE%'}\n");
    wait_for("the warning about the format", || {
        let warning = "accessLogFormat: %NOPE%: unknown or unsupported operator";
        if fixture.log().contains(warning) { Ok(()) } else { Err(fixture.log()) }
    });
    assert_eq!(config()["mesh"]["outboundTrafficPolicy"], "RegistryOnly");
    let rejected = "pilot_total_rejected_configs{kind=\"MeshConfig\"} 2";
    assert!(fixture.metrics().contains(rejected), "{}", fixture.metrics());
}

/// Without resources Gateway a router has no listener. Its agent is ready once Envoy is live and
/// has an answer about clusters and one about listeners.
fn router_without_listeners_becomes_ready() {
    let port = e2e::port::free_port().unwrap();
    let mesh = Mesh::default().service("web", port, &[SocketAddr::from(([127, 0, 0, 1], port))]);
    let mut fixture = Fixture::start(&mesh);
    fixture.start_envoy_as("router");
    wait_for("readiness", || match fixture.admin("/ready")?.as_str() {
        "LIVE\n" => Ok(()),
        state => Err(state.to_owned()),
    });
    let stats = fixture.admin("/stats").unwrap();
    for kind in ["cluster_manager.cds", "listener_manager.lds"] {
        assert!(stats.contains(&format!("{kind}.update_success: 1\n")), "{kind}: {stats}");
    }
    assert_eq!(fixture.admin("/listeners").unwrap(), "");
    let clusters = fixture.admin("/clusters").unwrap();
    let endpoint = format!("outbound|{port}||web.shop.svc.cluster.local::127.0.0.1:{port}::");
    assert!(clusters.contains(&endpoint), "{clusters}");
    fixture.is_at_rest();
}
