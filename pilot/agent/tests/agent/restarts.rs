//! Hot restarts after changes of the pod's files.

use anyhow::{Result, ensure};
use e2e::mesh_authority::MeshAuthority;
use e2e::wait;
use serde_json::json;

use crate::control_plane::Configuration;
use crate::control_plane::resources::Tls;
use crate::fixture::{BACKEND_PORT, Pod};
use crate::load::{Clients, Protocol, start_backend};
use crate::{slow_requests, tests};

tests![
    three_changed_files_lose_no_request,
    restarts_with_state_of_the_world_lose_no_request,
    rejected_configuration_prevents_a_restart,
    invalid_annotation_keeps_old_bootstrap,
    invalid_override_keeps_old_bootstrap,
    changed_bootstrap_drains_and_exits_if_chosen,
    changed_certificate_of_the_bootstrap_restarts_envoy,
];

fn three_changed_files_lose_no_request() -> Result<()> {
    restarts_lose_no_request("true", 10_000)
}

fn restarts_with_state_of_the_world_lose_no_request() -> Result<()> {
    restarts_lose_no_request("false", 1000)
}

/// Changes the annotation, the custom bootstrap, and the mesh file.
fn restarts_lose_no_request(delta: &str, requests: u64) -> Result<()> {
    let mut pod = Pod::new()?;
    start_backend(&pod.namespace)?;
    pod.environment.insert("ISTIO_DELTA_XDS", delta.to_owned());
    pod.environment.insert("ISTIO_BOOTSTRAP_OVERRIDE", OVERRIDE.to_owned());
    pod.write(OVERRIDE, &custom_bootstrap("first"))?;
    let mut pod = pod.started()?;
    pod.wait_for_answer(8080)?;
    let protocols = [Protocol::Http1, Protocol::Http2];
    let clients = Clients::start(&pod.namespace, 8080, &protocols, "/")?;

    pod.annotate(&[(CONFIG, r#"{"extraStatTags":["annotated"]}"#)])?;
    pod.wait_for_epoch(1)?;
    pod.wait_until_ready()?;
    pod.write(OVERRIDE, &custom_bootstrap("second"))?;
    pod.wait_for_epoch(2)?;
    pod.wait_until_ready()?;
    let mesh = "defaultConfig: {statusPort: 15020, extraStatTags: [mesh], \
                image: {imageType: debug}, proxyMetadata: {ISTIO_META_NETWORK: north}}\n";
    pod.write("etc/istio/config/mesh", mesh)?;
    pod.wait_for_epoch(3)?;
    pod.wait_until_ready()?;

    clients.wait_for(requests)?;
    for (protocol, report) in clients.finish()? {
        ensure!(report.lost.is_empty(), "{protocol:?}: {report:?}\n{}", pod.log());
        ensure!(report.connections >= 4, "{protocol:?} kept a connection: {report:?}");
    }
    let dump = pod.get(15000, "/config_dump")?.body;
    for text in ["annotated", "second", "north"] {
        ensure!(dump.contains(text), "no {text} in {dump}");
    }
    ensure!(pod.readiness()?.body == "ready\n");
    // The new Envoy still follows the control plane.
    let mut configuration = Configuration::http(8080, BACKEND_PORT);
    configuration.version = 2;
    configuration.ports.extend(Configuration::http(8081, BACKEND_PORT).ports);
    pod.plane.push(configuration);
    pod.wait_for_answer(8081)?;
    pod.stop()
}

fn invalid_annotation_keeps_old_bootstrap() -> Result<()> {
    let mut pod = Pod::new()?.started()?;
    pod.annotate(&[(CONFIG, "{concurrency: several}")])?;
    pod.wait_for_readiness(200, CONFIG)?;
    ensure!(pod.envoys().iter().map(|(epoch, _)| *epoch).eq([0]));
    pod.annotate(&[(CONFIG, "{concurrency: 2}")])?;
    pod.wait_for_epoch(1)?;
    let text = pod.readiness()?.body;
    ensure!(!text.contains(CONFIG), "{text}");
    pod.stop()
}

fn invalid_override_keeps_old_bootstrap() -> Result<()> {
    let mut pod = Pod::new()?;
    start_backend(&pod.namespace)?;
    pod.environment.insert("ISTIO_BOOTSTRAP_OVERRIDE", OVERRIDE.to_owned());
    pod.write(OVERRIDE, &custom_bootstrap("first"))?;
    let mut pod = pod.started()?;
    for invalid in [r#"{"static_resources": 7}"#, "{"] {
        pod.write(OVERRIDE, invalid)?;
        pod.wait_for_readiness(200, "Envoy keeps its old bootstrap: ")?;
        pod.wait_for_answer(8080)?;
        // The old override again needs no restart.
        pod.write(OVERRIDE, &custom_bootstrap("first"))?;
        pod.wait_for_no_condition()?;
    }
    pod.wait_for_epoch(0)?;
    pod.stop()
}

/// The serving Envoy keeps the listener of before. A new one would have none.
fn rejected_configuration_prevents_a_restart() -> Result<()> {
    let pod = Pod::new()?;
    start_backend(&pod.namespace)?;
    let mut pod = pod.started()?;
    pod.wait_for_answer(8080)?;
    let mut configuration = Configuration::http(8080, BACKEND_PORT);
    configuration.version = 2;
    configuration.ports[0].tls = Tls::Invalid;
    pod.plane.push(configuration);
    wait::until("Envoy rejects it", || {
        let stats = pod.get(15000, "/stats?filter=lds.update_rejected")?.body;
        ensure!(stats == "listener_manager.lds.update_rejected: 1\n", "{stats}");
        Ok::<_, anyhow::Error>(())
    })?;
    pod.wait_for_answer(8080)?;
    pod.annotate(&[(CONFIG, r#"{"extraStatTags":["changed"]}"#)])?;
    pod.wait_for_readiness(200, "Envoy keeps its old bootstrap: a new Envoy would lack them")?;
    pod.wait_for_answer(8080)?;

    let mut configuration = Configuration::http(8080, BACKEND_PORT);
    configuration.version = 3;
    pod.plane.push(configuration);
    pod.wait_for_epoch(1)?;
    pod.wait_for_no_condition()?;
    pod.wait_for_answer(8080)?;
    pod.stop()
}

/// Returns an override that adds a cluster.
fn custom_bootstrap(cluster: &str) -> String {
    let cluster = json!({ "name": cluster, "type": "STATIC" });
    json!({ "static_resources": { "clusters": [cluster] } }).to_string()
}

/// Without hot restart, the kubelet restarts the container, whose proxy has the new bootstrap.
fn changed_bootstrap_drains_and_exits_if_chosen() -> Result<()> {
    let mut pod = Pod::new()?;
    start_backend(&pod.namespace)?;
    pod.environment.extend(
        [
            ("OUTRIGGER_HOT_RESTART", "false"),
            ("OUTRIGGER_EXIT_ON_BOOTSTRAP_CHANGE", "true"),
            ("EXIT_ON_ZERO_ACTIVE_CONNECTIONS", "true"),
            ("MINIMUM_DRAIN_DURATION", "1s"),
        ]
        .map(|(name, value)| (name, value.to_owned())),
    );
    let mut pod = pod.started()?;
    pod.wait_for_answer(8080)?;
    let clients = slow_requests::start(&pod)?;
    pod.annotate(&[(CONFIG, r#"{"extraStatTags":["annotated"]}"#)])?;
    slow_requests::are_answered(clients)?;
    let status = pod.exited()?;
    ensure!(status.code() == Some(1), "{status}\n{}", pod.log());
    ensure!(pod.log().contains("the bootstrap changed, and a hot restart is not possible"));
    pod.start()?;
    pod.wait_until_ready()?;
    ensure!(pod.get(15000, "/config_dump")?.body.contains("annotated"));
    pod.stop()
}

/// Envoy reads the tracer's CA when it starts, and not again.
fn changed_certificate_of_the_bootstrap_restarts_envoy() -> Result<()> {
    let mut pod = Pod::new()?;
    start_backend(&pod.namespace)?;
    pod.proxy_config["tracing"] = json!({
        "zipkin": { "address": "127.0.0.1:9411" },
        "tlsSettings": { "mode": "SIMPLE", "caCertificates": pod.path(TRACER_CA) },
    });
    pod.write(TRACER_CA, pod.plane.authority.root())?;
    let mut pod = pod.started()?;
    pod.write(TRACER_CA, "no certificate")?;
    pod.wait_for_readiness(200, "Envoy keeps its old bootstrap: the new one failed: ")?;
    pod.write(TRACER_CA, MeshAuthority::create()?.root())?;
    // A repeated attempt may read the file before the agent sees its change, which restarts again.
    pod.wait_for_no_condition()?;
    let envoys = pod.envoys();
    ensure!(envoys.last().is_some_and(|(epoch, _)| *epoch > 0), "{envoys:?}");
    pod.wait_for_answer(8080)?;
    pod.stop()
}

const TRACER_CA: &str = "etc/tracer-ca.pem";
const CONFIG: &str = "proxy.istio.io/config";
const OVERRIDE: &str = "etc/istio/custom-bootstrap/custom_bootstrap.json";
