//! Envoy itself as the client of a session, in both variants of the protocol.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics has failed")]

mod backend;
mod resources;
mod server;

use std::net::SocketAddr;

use e2e::envoy::{self, Ads, Envoy};
use e2e::http;
use e2e::port::free_port;
use e2e::run_folder::RunFolder;
use e2e::wait::until;
use pilot_xds::service::Variant;
use serde_json::json;

use backend::{Backend, Load};
use resources::State;
use server::Server;

#[test]
fn envoy_follows_delta_changes_without_an_error() {
    follows(Variant::Delta);
}

#[test]
fn envoy_follows_sotw_changes_without_an_error() {
    follows(Variant::StateOfTheWorld);
}

fn follows(variant: Variant) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let (one, two) = (Backend::start("one"), Backend::start("two"));
    let listen = local(free_port().unwrap());
    let state = |used: &str| State::default().listener(listen).route("/", used);
    let first = state("a").cluster("a", 1).endpoints("a", &[one]);
    let server = Server::start(local(free_port().unwrap()), first);
    let folder = RunFolder::of_process().unwrap();
    let mut envoy = start_envoy(&folder, server.address, variant);
    let admin = envoy.admin();
    let answers = || answer(listen, "/", "one").map_err(anyhow::Error::msg);
    envoy.wait_until("the first answer", answers).unwrap();

    let load = Load::start(listen);
    // Another cluster, twice, the old one removed.
    server.publish(state("b").cluster("b", 1).endpoints("b", &[two]));
    wait_for("the new cluster", || answer(listen, "/", "two"));
    wait_for("the removal", || clusters(admin, &["b"]));
    server.publish(state("a").cluster("a", 1).endpoints("a", &[one]));
    wait_for("the old cluster", || answer(listen, "/", "one"));
    wait_for("the second removal", || clusters(admin, &["a"]));
    // Changed clusters, whose endpoints do not change.
    for content in 2..6 {
        server.publish(state("a").cluster("a", content).endpoints("a", &[one]));
        server.wait_until_settled();
    }
    // Endpoints replaced, and those of another route scaled to zero and back.
    let scaled = |endpoints: &[SocketAddr], used: &[SocketAddr]| {
        let state = state("a").route("/idle", "c").cluster("a", 5).cluster("c", 1);
        state.endpoints("a", used).endpoints("c", endpoints)
    };
    for _ in 0..3 {
        server.publish(scaled(&[two], &[one, two]));
        wait_for("the added endpoint", || answer(listen, "/idle", "two"));
        server.publish(scaled(&[], &[two]));
        wait_for("no endpoint", || match http::get(listen, "/idle").unwrap().status {
            503 => Ok(()),
            status => Err(format!("status {status}")),
        });
        wait_for("the replaced endpoint", || answer(listen, "/", "two"));
    }
    server.publish(scaled(&[one], &[two]));
    wait_for("endpoints again", || answer(listen, "/idle", "one"));
    server.wait_until_settled();
    is_at_rest(admin);

    // A server of the same state sends nothing.
    let successes = stat(admin, "update_success");
    let state = server.stop();
    let server = Server::start(server.address, state);
    wait_for("the new stream", || match server.view().len() {
        4 => Ok(()),
        types => Err(format!("{types} types")),
    });
    server.wait_until_settled();
    if variant == Variant::Delta {
        assert_eq!(server.sent(), 0, "resources sent again");
    } else {
        assert_eq!(stat(admin, "update_success"), successes, "updates of the same state");
    }
    is_at_rest(admin);
    let (answered, errors) = load.finish(&runtime);
    assert_eq!(errors, [""; 0]);
    assert!(answered > 0);
}

/// Checks that Envoy has rejected nothing and waits for nothing.
fn is_at_rest(admin: SocketAddr) {
    for (name, value) in stats(admin) {
        if name.ends_with("update_rejected") || name.contains("warming") {
            assert_eq!(value, "0", "{name}");
        }
    }
    let dump = http::get(admin, "/init_dump").unwrap().expect_ok().unwrap();
    assert!(!dump.contains("target_names"), "{dump}");
}

fn stat(admin: SocketAddr, suffix: &str) -> Vec<(String, String)> {
    stats(admin).into_iter().filter(|(name, _)| name.ends_with(suffix)).collect()
}

fn stats(admin: SocketAddr) -> Vec<(String, String)> {
    let page = http::get(admin, "/stats").unwrap().expect_ok().unwrap();
    let lines = page.lines().filter_map(|line| line.split_once(": "));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Checks the clusters that Envoy has besides the server's own.
fn clusters(admin: SocketAddr, names: &[&str]) -> Result<(), String> {
    let page = http::get(admin, "/clusters").and_then(http::Response::expect_ok);
    let page = page.map_err(|error| error.to_string())?;
    let mut found: Vec<_> = page.lines().filter_map(|line| line.split("::").next()).collect();
    found.dedup();
    found.retain(|name| *name != envoy::CONTROL_PLANE);
    found.sort_unstable();
    if found == names { Ok(()) } else { Err(format!("{found:?}")) }
}

fn answer(listen: SocketAddr, path: &str, body: &str) -> Result<(), String> {
    let response = http::get(listen, path).map_err(|error| error.to_string())?;
    if response.status == 200 && response.body == body {
        return Ok(());
    }
    Err(format!("status {}: {}", response.status, response.body))
}

fn wait_for(what: &str, probe: impl FnMut() -> Result<(), String>) {
    until(what, probe).unwrap();
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Starts Envoy with all resources from a server.
fn start_envoy(folder: &RunFolder, server: SocketAddr, variant: Variant) -> Envoy {
    let ads = match variant {
        Variant::Delta => Ads::Delta,
        Variant::StateOfTheWorld => Ads::StateOfTheWorld,
    };
    let node =
        json!({"id": "sidecar~127.0.0.1~web-1.shop~shop.svc.cluster.local", "cluster": "web"});
    let bootstrap = envoy::ads_bootstrap(&node, &envoy::socket_address(server), ads);
    Envoy::start(folder, "envoy", bootstrap).unwrap()
}
