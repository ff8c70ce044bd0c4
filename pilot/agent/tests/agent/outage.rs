//! A control plane that is gone while traffic flows.

use anyhow::{Result, ensure};

use crate::control_plane::Configuration;
use crate::fixture::{BACKEND_PORT, Pod};
use crate::load::{Clients, Protocol, start_backend};
use crate::tests;

tests![lost_control_plane_changes_nothing_for_traffic, outage_longer_than_a_certificate_heals];

fn lost_control_plane_changes_nothing_for_traffic() -> Result<()> {
    let pod = Pod::new()?;
    start_backend(&pod.namespace)?;
    let mut pod = pod.started()?;
    pod.wait_for_answer(8080)?;
    let protocols = [Protocol::Http1, Protocol::Http2];
    let clients = Clients::start(&pod.namespace, 8080, &protocols, "/")?;
    pod.plane.stop();
    pod.wait_for_readiness(200, "control plane: no connection to the control plane")?;
    clients.wait_for(2000)?;
    // A changed bootstrap waits: a new Envoy would have no listeners.
    pod.annotate(&[("proxy.istio.io/config", r#"{"extraStatTags":["changed"]}"#)])?;
    pod.wait_for_readiness(200, "Envoy keeps its old bootstrap")?;
    clients.wait_for(4000)?;

    pod.plane.resume();
    pod.wait_for_epoch(1)?;
    pod.wait_for_no_condition()?;
    let mut configuration = Configuration::http(8080, BACKEND_PORT);
    configuration.version = 2;
    configuration.ports.extend(Configuration::http(8081, BACKEND_PORT).ports);
    pod.plane.push(configuration);
    pod.wait_for_answer(8081)?;
    for (protocol, report) in clients.finish()? {
        ensure!(report.lost.is_empty(), "{protocol:?}: {report:?}\n{}", pod.log());
    }
    pod.stop()
}

/// Certificates live for seconds here, for a day otherwise.
fn outage_longer_than_a_certificate_heals() -> Result<()> {
    let mut pod = Pod::with_configuration(Configuration::mtls("web", BACKEND_PORT))?;
    start_backend(&pod.namespace)?;
    pod.environment.insert("SECRET_TTL", "8s".to_owned());
    let mut pod = pod.started()?;
    pod.wait_for_answer(8080)?;
    let envoys = pod.envoys();
    pod.plane.stop();
    // The token expires meanwhile.
    pod.write_token(Some(1))?;
    pod.wait_for_readiness(200, "control plane: no connection to the control plane")?;
    pod.wait_for_readiness(200, "cannot be renewed: ")?;
    pod.wait_for_readiness(200, "the workload certificate expired at ")?;
    ensure!(pod.envoys() == envoys, "{:?}", pod.envoys());

    pod.plane.resume();
    pod.wait_for_readiness(200, "rejects this pod's token, which may have expired")?;
    pod.write_token(None)?;
    pod.wait_for_no_condition()?;
    pod.wait_for_answer(8080)?;
    ensure!(pod.envoys() == envoys, "{:?}", pod.envoys());
    let mut configuration = Configuration::mtls("web", BACKEND_PORT);
    configuration.version = 2;
    configuration.ports.extend(Configuration::http(8081, BACKEND_PORT).ports);
    pod.plane.push(configuration);
    pod.wait_for_answer(8081)?;
    pod.stop()
}
