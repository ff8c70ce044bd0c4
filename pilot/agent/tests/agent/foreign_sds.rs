//! Another program that serves the SDS socket, such as SPIRE's agent.

use anyhow::{Context as _, Result, ensure};
use e2e::mesh_authority::MeshAuthority;
use e2e::wait;

use crate::control_plane::Configuration;
use crate::fixture::{BACKEND_PORT, Pod};
use crate::load::{Clients, Protocol, start_backend};
use crate::sds_server::SdsServer;
use crate::tests;

tests![
    foreign_sds_server_provides_mtls_and_may_restart,
    named_sds_socket_may_appear_after_the_agent,
    sds_socket_may_appear_later_in_a_read_only_folder,
    replaced_sds_socket_is_reported,
];

fn foreign_sds_server_provides_mtls_and_may_restart() -> Result<()> {
    let (pod, authority) = prepare()?;
    let socket = pod.path(FOLDER).join("socket");
    let server = SdsServer::start(&socket, &authority, ACCOUNT)?;
    let mut pod = pod.started()?;
    pod.wait_for_answer(8080)?;
    pod.wait_for_no_condition()?;
    ensure!(!pod.log().contains("workload certificate for"), "{}", pod.log());
    let first = serials(&pod)?;
    ensure!(first.len() == 1, "{first:?}");

    let clients = Clients::start(&pod.namespace, 8080, &[Protocol::Http1], "/")?;
    drop(server);
    pod.wait_for_readiness(200, "socket, where Envoy gets the workload certificate")?;
    clients.wait_for(500)?;
    let _server = SdsServer::start(&socket, &authority, ACCOUNT)?;
    wait::until("Envoy has the new certificate", || match serials(&pod)? {
        serials if serials != first => Ok(()),
        serials => Err(anyhow::anyhow!("{serials:?}")),
    })?;
    pod.wait_for_no_condition()?;
    for (protocol, report) in clients.finish()? {
        ensure!(report.lost.is_empty(), "{protocol:?}: {report:?}\n{}", pod.log());
    }
    pod.stop()
}

fn named_sds_socket_may_appear_after_the_agent() -> Result<()> {
    let (mut pod, authority) = prepare()?;
    pod.environment.insert("WORKLOAD_IDENTITY_SOCKET_FILE", "spire.sock".to_owned());
    appears_later(pod, &authority, "spire.sock")
}

fn sds_socket_may_appear_later_in_a_read_only_folder() -> Result<()> {
    let (mut pod, authority) = prepare()?;
    // As SPIRE's CSI driver mounts the folder.
    let mount = format!(
        "mount --bind {FOLDER} {FOLDER} && mount -o remount,bind,ro {FOLDER} && exec \"$0\" \"$@\""
    );
    pod.wrapper = ["unshare", "--mount", "sh", "-c", &mount].map(str::to_owned).into();
    appears_later(pod, &authority, "socket")
}

fn appears_later(mut pod: Pod, authority: &MeshAuthority, name: &str) -> Result<()> {
    pod.start()?;
    // Envoy waits for secrets before it takes clusters and listeners.
    pod.wait_for_readiness(503, &format!("{name}, where Envoy gets the workload certificate"))?;
    let _server = SdsServer::start(&pod.path(FOLDER).join(name), authority, ACCOUNT)?;
    pod.wait_for_answer(8080)?;
    pod.wait_for_no_condition()?;
    ensure!(!pod.log().contains("workload certificate for"), "{}", pod.log());
    pod.stop()
}

/// Envoy keeps its connection to the agent, so the certificate in use stays.
fn replaced_sds_socket_is_reported() -> Result<()> {
    let pod = Pod::with_configuration(Configuration::mtls("web", BACKEND_PORT))?;
    start_backend(&pod.namespace)?;
    let mut pod = pod.started()?;
    pod.wait_for_answer(8080)?;
    let first = serials(&pod)?;
    let authority = MeshAuthority::create()?;
    let _server = SdsServer::start(&pod.path(FOLDER).join("socket"), &authority, ACCOUNT)?;
    pod.wait_for_readiness(200, "another program has removed or replaced the agent's SDS socket")?;
    pod.wait_for_answer(8080)?;
    ensure!(serials(&pod)? == first);
    pod.stop()
}

/// Prepares a pod whose control plane expects another identity than the agent would request.
fn prepare() -> Result<(Pod, MeshAuthority)> {
    let pod = Pod::with_configuration(Configuration::mtls(ACCOUNT, BACKEND_PORT))?;
    start_backend(&pod.namespace)?;
    Ok((pod, MeshAuthority::create()?))
}

/// Returns the serial numbers of the certificates that Envoy uses, each once.
fn serials(pod: &Pod) -> Result<Vec<String>> {
    let page: serde_json::Value = serde_json::from_str(&pod.get(15000, "/certs")?.body)?;
    let chains = page["certificates"].as_array().context("no certificates")?.iter();
    let leaves = chains.filter_map(|it| it["cert_chain"].as_array()?.first());
    let mut serials: Vec<_> =
        leaves.filter_map(|leaf| Some(leaf["serial_number"].as_str()?.to_owned())).collect();
    serials.sort_unstable();
    serials.dedup();
    Ok(serials)
}

const ACCOUNT: &str = "spire";
const FOLDER: &str = "var/run/secrets/workload-spiffe-uds";
