//! Capture by the rules of `istio-init`: connections pass through the agent's Envoy, probes do not.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::http::get;
use e2e::netns::{Namespace, Owner};
use serde_json::json;

use crate::control_plane::Configuration;
use crate::fixture::Pod;
use crate::istio_init::istio_init;
use crate::load::serve_backend;
use crate::tests;

tests![connections_are_captured_and_probes_are_not];

fn connections_are_captured_and_probes_are_not() -> Result<()> {
    let configuration = Configuration { version: 1, captures: true, ..Configuration::default() };
    let mut pod = Pod::with_configuration(configuration)?;
    let world = Namespace::create()?;
    pod.namespace.connect("eth0", &world, "eth0")?;
    pod.namespace.ip(&format!("address add {POD}/24 dev eth0"))?;
    world.ip(&format!("address add {WORLD}/24 dev eth0"))?;
    serve_backend(&pod.namespace, (POD, PORT))?;
    for port in [PORT, 15021, 15090] {
        serve_backend(&world, (WORLD, port))?;
    }
    let mut rules = Command::new(istio_init());
    rules.args(["istio-iptables", "--backend=nftables", "-p", "15001", "-z", "15006"]);
    rules.args(["-u", "1337", "-m", "REDIRECT", "-i", "*", "-x", "", "-b", "*"]);
    rules.args(["-d", "15090,15021,15020"]);
    pod.namespace.output(&mut rules, "").context("istio-init")?;
    let probe = json!({ "httpGet": { "path": "/", "port": PORT } });
    let probes = json!({ "/app-health/web/livez": probe });
    pod.environment.insert("INSTANCE_IP", POD.to_owned());
    pod.environment.insert("ISTIO_KUBE_APP_PROBERS", probes.to_string());
    pod.become_proxy_user()?;
    let mut pod = pod.started()?;

    let ask = |namespace: &Namespace, owner, address: &str, port: u16, path: &str| {
        let server = format!("{address}:{port}").parse()?;
        namespace.run_as(owner, || get(server, path))??.expect_ok()
    };
    let app = Owner { uid: 1000, gid: 1000 };
    let captured = |pod: &Pod| -> Result<[u64; 2]> {
        let stats = pod.get(15000, "/stats?filter=rbac.allowed")?.body;
        let count = |direction: &str| {
            let prefix = format!("{direction}.rbac.allowed: ");
            stats.lines().find_map(|line| line.strip_prefix(&prefix)?.parse().ok()).unwrap_or(0)
        };
        Ok([count("inbound"), count("outbound")])
    };
    ensure!(captured(&pod)? == [0, 0]);
    for _ in 0..2 {
        ask(&world, Owner::ROOT, POD, 15020, "/app-health/web/livez")?;
    }
    ensure!(captured(&pod)? == [0, 0], "a probe was captured: {:?}", captured(&pod)?);
    ask(&world, Owner::ROOT, POD, PORT, "/")?;
    ensure!(captured(&pod)? == [1, 0], "inbound: {:?}", captured(&pod)?);
    ask(&pod.namespace, app, WORLD, PORT, "/")?;
    ensure!(captured(&pod)? == [1, 1], "outbound: {:?}", captured(&pod)?);
    own_ports_of_other_hosts_are_theirs(&pod, &world)?;
    pod.stop()
}

/// Metrics of another pod or of a node agent on the proxy's ports are no metrics of this pod.
fn own_ports_of_other_hosts_are_theirs(pod: &Pod, world: &Namespace) -> Result<()> {
    let ask = |namespace: &Namespace, address: &str, port: u16, path: &str| {
        let server = format!("{address}:{port}").parse()?;
        let app = Owner { uid: 1000, gid: 1000 };
        namespace.run_as(app, || get(server, path))??.expect_ok()
    };
    for (port, path) in [(15021, "/healthz/ready"), (15090, "/stats/prometheus")] {
        let foreign = ask(&pod.namespace, WORLD, port, path)?;
        ensure!(foreign == ask(world, WORLD, port, path)?, "{port}: {foreign}");
        for address in [POD, "127.0.0.1"] {
            let own = ask(&pod.namespace, address, port, path)?;
            ensure!(own != foreign, "{address}:{port}: {own}");
        }
        let own = ask(world, POD, port, path)?;
        ensure!(own != foreign, "{port} from outside: {own}");
    }
    Ok(())
}

const POD: &str = "10.9.0.2";
const WORLD: &str = "10.9.0.1";
const PORT: u16 = 8000;
