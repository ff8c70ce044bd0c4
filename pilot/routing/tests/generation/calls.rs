//! Calls between two sidecars with generated configuration: protocol × mode × client.

use anyhow::{Context as _, Result, ensure};
use pilot_registry::protocol::Protocol::{Grpc, Http, Mysql, Undeclared};
use pilot_routing::peer_authentication::MtlsMode;
use serde_json::json;

use crate::pods::{APPLICATION, CLIENT, Pods, SERVER, UNCAPTURED, call_grpc, exchange};
use crate::world::World;

#[test]
fn calls_are_encrypted_in_permissive_mode() {
    calls(MtlsMode::Permissive).unwrap();
}

#[test]
fn plaintext_is_rejected_in_strict_mode() {
    calls(MtlsMode::Strict).unwrap();
}

#[test]
fn calls_are_plaintext_in_disabled_mode() {
    calls(MtlsMode::Disable).unwrap();
}

fn world(id: &str, address: &str, mode: MtlsMode) -> World {
    let mut world = World::of_proxy(id, address, json!({}));
    world.serve("web.shop", &[], "10.96.0.1", &[CLIENT]);
    let ports = [(80, Http), (81, Undeclared), (90, Grpc), (91, Undeclared), (3306, Mysql)];
    world.serve("api.shop", &ports, VIP, &[SERVER]);
    world.authenticate("shop", "", mode, &[]);
    world
}

fn calls(mode: MtlsMode) -> Result<()> {
    let domain = "shop.svc.cluster.local";
    let client = world(&format!("sidecar~{CLIENT}~web-1.shop~{domain}"), CLIENT, mode);
    let server = world(&format!("sidecar~{SERVER}~api-1.shop~{domain}"), SERVER, mode);
    let pods = Pods::start(&client, &server)?;
    for port in [8080, 8081, 8099] {
        pods.server.serve("0.0.0.0", port)?;
    }
    for port in [8090, 8091] {
        pods.server.serve_grpc("0.0.0.0", port)?;
    }
    pods.server.speak_first("0.0.0.0", 11306)?;

    let get = |host: &str| format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    let is_mutual = mode != MtlsMode::Disable;
    let source = "127.0.0.6";
    let identity = if is_mutual { "uri=spiffe://cluster.local/ns/shop/sa/web" } else { "none" };
    let mut handshakes = pods.server.handshakes()?;
    let mut encrypted = |what: &str, expected: bool| -> Result<()> {
        let now = pods.server.handshakes()?;
        ensure!((now > handshakes) == expected, "{what}: {handshakes} handshakes, then {now}");
        handshakes = now;
        Ok(())
    };

    for host in ["api", "api.shop.svc.cluster.local", "api:80", VIP] {
        let answer = exchange(&pods.client, APPLICATION, (VIP, 80), &get(host)).context("http")?;
        ensure!(answer.contains(&format!("http {source} ")), "{host}: {answer}");
        ensure!(answer.contains(identity), "{host}: {answer}");
    }
    encrypted("declared HTTP", is_mutual)?;
    let answer =
        exchange(&pods.client, APPLICATION, (VIP, 81), &get("api")).context("detected HTTP")?;
    ensure!(answer.contains(identity), "detected HTTP: {answer}");
    encrypted("detected HTTP", is_mutual)?;
    let answer =
        exchange(&pods.client, APPLICATION, (VIP, 81), "bytes\n").context("detected TCP")?;
    ensure!(answer == format!("echo {source} bytes\n"), "detected TCP: {answer}");
    encrypted("detected TCP", is_mutual)?;
    for port in [90, 91] {
        let answer = call_grpc(&pods.client, APPLICATION, (VIP, port), "api").context("gRPC")?;
        ensure!(answer == "delta only", "gRPC on {port}: {answer}");
        encrypted("gRPC", is_mutual)?;
    }
    let answer = exchange(&pods.client, APPLICATION, (VIP, 3306), "").context("server first")?;
    ensure!(answer == format!("hello {source}\n"), "server first: {answer}");
    encrypted("server first", is_mutual)?;

    // Plaintext: to a port that no service leads to, and from a client without a sidecar.
    let plain = [
        (APPLICATION, 8099, get(SERVER), "http"),
        (UNCAPTURED, 8080, get("api"), "none"),
        (UNCAPTURED, 8081, get("api"), "none"),
        (UNCAPTURED, 8081, "bytes\n".to_owned(), "echo"),
    ];
    for (owner, port, bytes, expected) in plain {
        let answer = exchange(&pods.client, owner, (SERVER, port), &bytes);
        let answered = answer.as_ref().is_ok_and(|answer| answer.contains(expected));
        // Envoy's own answer says that the server closed the connection.
        let is_expected = if mode == MtlsMode::Strict { !answered } else { answered };
        ensure!(is_expected, "plaintext to {port}: {answer:?}");
    }
    encrypted("plaintext", false)
}

const VIP: &str = "10.96.0.2";
