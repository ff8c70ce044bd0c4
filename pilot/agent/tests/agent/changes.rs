//! Settings of the agent that change while it runs.

use std::fs;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, Result, ensure};
use e2e::mesh_authority::MeshAuthority;
use e2e::wait;
use pilot_agent::secrets::certificate::WorkloadCertificate;
use pilot_agent::secrets::trust::parse_roots;
use rustix::process::Signal;
use zeroize::Zeroizing;

use crate::control_plane::{Configuration, ControlPlane};
use crate::fixture::{BACKEND_PORT, Pod};
use crate::grpc_pod::{self, BOOTSTRAP, CERTIFICATES};
use crate::load::{Clients, Protocol, start_backend};
use crate::tests;

tests![
    changed_address_moves_to_another_control_plane,
    changed_scrape_targets_apply_to_the_next_scrape,
    changed_drain_duration_applies_to_the_next_drain,
    changes_that_need_a_new_container_are_refused,
    agent_without_envoy_follows_changes,
];

fn changed_address_moves_to_another_control_plane() -> Result<()> {
    let mut pod = Pod::new()?;
    start_backend(&pod.namespace)?;
    let authority = Arc::new(MeshAuthority::create()?);
    let configuration = Configuration::http(8080, BACKEND_PORT);
    let second =
        ControlPlane::start_at(&pod.namespace, 15013, Arc::clone(&authority), configuration)?;
    second.stop();
    pod.environment.remove("CA_ADDR");
    pod.environment.insert("OUTPUT_CERTS", CERTIFICATES.to_owned());
    let roots = format!("{}{}", pod.plane.authority.root(), authority.root());
    pod.write(ROOTS, &roots)?;
    let mut pod = pod.started()?;
    pod.wait_for_answer(8080)?;
    let protocols = [Protocol::Http1, Protocol::Http2];
    let clients = Clients::start(&pod.namespace, 8080, &protocols, "/")?;

    // Envoy keeps its stream, as long as there is nothing at the new address.
    pod.annotate(&[SECOND])?;
    let reason = "Envoy keeps its old bootstrap: a new Envoy would wait for the control plane \
                  (connecting to 127.0.0.1:15013: ";
    pod.wait_for_readiness(200, reason)?;
    pod.plane.push(with_port(8081));
    pod.wait_for_answer(8081)?;
    pod.annotate(&[])?;
    pod.wait_for_no_condition()?;
    ensure!(pod.envoys().iter().map(|(epoch, _)| *epoch).eq([0]));

    pod.annotate(&[SECOND])?;
    pod.wait_for_readiness(200, reason)?;
    second.resume();
    pod.wait_for_epoch(1)?;
    pod.wait_for_no_condition()?;
    pod.plane.stop();
    second.push(with_port(8082));
    pod.wait_for_answer(8082)?;
    ensure!(pod.readiness()?.body == "ready\n", "{:?}", pod.readiness());
    let answer = pod.get(15004, "/debug/syncz")?;
    ensure!(answer.status == 200, "{answer:?}");
    ensure!(signer(&pod, pod.plane.authority.root()).is_ok(), "the first certificate remains");

    // The certificate of the first root is renewed at once.
    pod.write(ROOTS, authority.root())?;
    wait::until("the second control plane signs", || signer(&pod, authority.root()))
        .with_context(|| pod.log())?;
    clients.wait_for(2000)?;
    for (protocol, report) in clients.finish()? {
        ensure!(report.lost.is_empty(), "{protocol:?}: {report:?}\n{}", pod.log());
    }
    pod.stop()
}

/// Fails unless this root has signed the workload certificate.
fn signer(pod: &Pod, root: &str) -> Result<()> {
    let read = |name: &str| fs::read_to_string(pod.path(CERTIFICATES).join(name));
    let now = SystemTime::now();
    let key = Zeroizing::new(read("key.pem")?);
    let certificate = WorkloadCertificate::from_pem(read("cert-chain.pem")?.as_bytes(), key, now)?;
    Ok(certificate.verify_chain(&parse_roots(root.as_bytes())?, now)?)
}

fn with_port(port: u16) -> Configuration {
    let mut configuration = Configuration::http(8080, BACKEND_PORT);
    configuration.version = 2;
    configuration.ports.extend(Configuration::http(port, BACKEND_PORT).ports);
    configuration
}

fn changed_scrape_targets_apply_to_the_next_scrape() -> Result<()> {
    let pod = Pod::new()?;
    start_backend(&pod.namespace)?;
    let mut pod = pod.started()?;
    let target = format!("{BACKEND_PORT}:/metrics");
    for (annotations, expected) in [(&[(TARGETS, &*target)][..], true), (&[], false)] {
        pod.annotate(annotations)?;
        wait::until(&format!("the application's metrics: {expected}"), || {
            let page = pod.get(15020, "/stats/prometheus")?.body;
            ensure!(page.contains("\norders_total 7") == expected, "{page}");
            Ok::<_, anyhow::Error>(())
        })?;
    }
    pod.annotate(&[(TARGETS, "15020")])?;
    pod.wait_for_readiness(200, "annotation prometheus.istio.io/scrape-targets: 15020 is a port")?;
    ensure!(pod.envoys().iter().map(|(epoch, _)| *epoch).eq([0]));
    pod.stop()
}

fn changed_drain_duration_applies_to_the_next_drain() -> Result<()> {
    let mut pod = Pod::new()?;
    pod.proxy_config["terminationDrainDuration"] = "3600s".into();
    pod.environment.insert("MINIMUM_DRAIN_DURATION", "3600s".to_owned());
    let mut pod = pod.started()?;
    pod.annotate(&[(CONFIG, r#"{"terminationDrainDuration": "1s"}"#)])?;
    // The control plane learns the changed ProxyConfig by the node of a new Envoy.
    pod.wait_for_epoch(1)?;
    pod.signal(Signal::TERM)?;
    pod.ended()
}

fn changes_that_need_a_new_container_are_refused() -> Result<()> {
    let mut pod = Pod::new()?.started()?;
    for (layer, name) in [
        (r#"{"proxyAdminPort": 15100}"#, "proxyAdminPort"),
        (r#"{"statusPort": 15120, "discoveryAddress": "other:15012"}"#, "statusPort"),
        (r#"{"configPath": "/other", "binaryPath": "/envoy"}"#, "binaryPath, configPath"),
        (
            r#"{"proxyMetadata": {"ISTIO_META_DNS_CAPTURE": "true"}}"#,
            "proxyMetadata.ISTIO_META_DNS_CAPTURE",
        ),
    ] {
        pod.annotate(&[(CONFIG, layer)])?;
        let text = format!(
            "is not applied: {name} changed since the start of the agent, which needs a new container"
        );
        pod.wait_for_readiness(200, &text)?;
        ensure!(pod.envoys().iter().map(|(epoch, _)| *epoch).eq([0]));
    }
    pod.annotate(&[])?;
    pod.wait_for_no_condition()?;
    pod.stop()
}

fn agent_without_envoy_follows_changes() -> Result<()> {
    let mut pod = grpc_pod::new()?.started()?;
    pod.annotate(&[(CONFIG, r#"{"meshId": "north"}"#)])?;
    wait::until("applications that start later present the changed node", || {
        let bootstrap = fs::read_to_string(pod.path(BOOTSTRAP))?;
        ensure!(bootstrap.contains("north"), "{bootstrap}");
        Ok::<_, anyhow::Error>(())
    })?;
    pod.annotate(&[(CONFIG, r#"{"statusPort": 15120}"#)])?;
    pod.wait_for_readiness(200, "is not applied: statusPort changed")?;
    pod.signal(Signal::TERM)?;
    pod.ended()
}

const CONFIG: &str = "proxy.istio.io/config";
const TARGETS: &str = "prometheus.istio.io/scrape-targets";
const SECOND: (&str, &str) = ("sidecar.istio.io/discoveryAddress", "127.0.0.1:15013");
const ROOTS: &str = "var/run/secrets/istio/root-cert.pem";
