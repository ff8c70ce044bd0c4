//! Layouts of pods: two agents in one pod, no Envoy, mounted certificates, a full disk.

use std::fs;
use std::io::Write as _;
use std::rc::Rc;

use anyhow::{Context as _, Result, ensure};
use e2e::wait;
use pilot_xds::messages::{DiscoveryRequest, DiscoveryResponse};
use pilot_xds::service::Variant;
use pilot_xds::type_urls::LISTENER;
use prost::Message;
use rustix::process::Signal;
use serde_json::Value;

use crate::client::Client;
use crate::fixture::Pod;
use crate::grpc_pod::{self, BOOTSTRAP, CERTIFICATES};
use crate::load::start_backend;
use crate::tests;

tests![
    two_agents_share_a_network_namespace,
    agent_without_envoy_serves_grpc_applications,
    mounted_certificates_need_no_certificate_service,
    read_only_root_is_enough_for_hot_restarts,
    full_disk_is_reported_at_the_start,
    full_disk_keeps_old_bootstrap,
];

fn two_agents_share_a_network_namespace() -> Result<()> {
    let pod = Pod::new()?;
    start_backend(&pod.namespace)?;
    let mut other = Pod::prepare(Rc::clone(&pod.namespace), Rc::clone(&pod.plane), "web")?;
    // Both have the listener of port 8080, which the kernel shares between them.
    let mut pod = pod.started()?;
    other.status_port = 15120;
    other.proxy_config["statusPort"] = 15120.into();
    other.proxy_config["proxyAdminPort"] = 15100.into();
    other.environment.insert("ENVOY_STATUS_PORT", "15121".to_owned());
    other.environment.insert("ENVOY_PROMETHEUS_PORT", "15190".to_owned());
    // Their pods have one UID, as two containers of a pod do.
    other.environment.insert("POD_UID", pod.environment["POD_UID"].clone());
    let mut other = other.started()?;
    ensure!(pod.get(15121, "/healthz/ready")?.status == 200);
    for agent in [&mut pod, &mut other] {
        agent.annotate(&[("proxy.istio.io/config", r#"{"extraStatTags":["changed"]}"#)])?;
        agent.wait_for_epoch(1)?;
    }
    pod.stop()?;
    other.wait_until_ready()?;
    other.wait_for_answer(8080)?;
    other.stop()
}

fn agent_without_envoy_serves_grpc_applications() -> Result<()> {
    let mut pod = grpc_pod::new()?.started()?;
    ensure!(pod.envoys().is_empty());
    let bootstrap: Value = serde_json::from_str(&fs::read_to_string(pod.path(BOOTSTRAP))?)?;
    let server = bootstrap["xds_servers"][0]["server_uri"].as_str().context("no server")?;
    let socket = server.strip_prefix("unix://").context("no socket")?;
    wait::until("the certificates are written", || {
        for name in ["cert-chain.pem", "key.pem", "root-cert.pem"] {
            ensure!(pod.path(CERTIFICATES).join(name).exists(), "no {name}");
        }
        Ok(())
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listeners = runtime.block_on(async {
        let mut client = Client::open(socket.as_ref(), Variant::StateOfTheWorld).await?;
        let request = DiscoveryRequest { type_url: LISTENER.to_owned(), ..Default::default() };
        client.requests.send(request.encode_to_vec().into()).await?;
        let frame = client.receive().await?.context("the stream ended")?;
        anyhow::Ok(DiscoveryResponse::decode(frame)?.resources.len())
    })?;
    ensure!(listeners == 1);
    pod.signal(Signal::TERM)?;
    pod.ended()
}

fn mounted_certificates_need_no_certificate_service() -> Result<()> {
    let mut pod = Pod::new()?;
    pod.environment.insert("FILE_MOUNTED_CERTS", "true".to_owned());
    pod.environment.insert("CA_ADDR", "127.0.0.1:1".to_owned());
    let mut pod = pod.started()?;
    pod.wait_for_no_condition()?;
    ensure!(!pod.log().contains("workload certificate for"), "{}", pod.log());
    pod.stop()
}

/// Writable are the volumes of the injected container, and nothing else.
fn read_only_root_is_enough_for_hot_restarts() -> Result<()> {
    let mut pod = Pod::new()?;
    let mount = "mount --bind . . && cd \"$PWD\" \
        && for volume in etc/istio/proxy var/lib/istio/data \
            var/run/secrets/workload-spiffe-uds var/run/secrets/credential-uds; \
        do mount -t tmpfs tmpfs $volume || exit 1; done \
        && mount -o remount,bind,ro . && ! touch x && exec \"$0\" \"$@\"";
    pod.wrapper = ["unshare", "--mount", "sh", "-c", mount].map(str::to_owned).into();
    let mut pod = pod.started()?;
    pod.annotate(&[("proxy.istio.io/config", r#"{"extraStatTags":["changed"]}"#)])?;
    pod.wait_for_epoch(1)?;
    pod.wait_for_no_condition()?;
    pod.stop()
}

fn full_disk_is_reported_at_the_start() -> Result<()> {
    let mut pod = with_disk("4k")?;
    pod.start()?;
    let reason = "Envoy did not start: writing its bootstrap in ./etc/istio/proxy: \
                  No space left on device";
    pod.wait_for_readiness(503, reason)?;
    // The kubelet starts it again under `restartPolicy: OnFailure`.
    pod.signal(Signal::TERM)?;
    let status = pod.exited()?;
    ensure!(status.code() == Some(1), "{status}");
    Ok(())
}

fn full_disk_keeps_old_bootstrap() -> Result<()> {
    let mut pod = with_disk("256k")?.started()?;
    let folder = pod.disk()?;
    let mut file = fs::File::create(folder.join("fill"))?;
    while file.write_all(&[0; 4096]).is_ok() {}
    drop(file);
    pod.annotate(&[("proxy.istio.io/config", r#"{"extraStatTags":["changed"]}"#)])?;
    pod.wait_for_readiness(200, "writing it in ./etc/istio/proxy: No space left on device")?;
    fs::remove_file(folder.join("fill"))?;
    pod.wait_for_epoch(1)?;
    pod.wait_for_no_condition()?;
    pod.stop()
}

/// Returns a pod whose folder for bootstraps has this size.
fn with_disk(size: &str) -> Result<Pod> {
    let mut pod = Pod::new()?;
    let mount =
        format!("mount -t tmpfs -o size={size} tmpfs etc/istio/proxy && exec \"$0\" \"$@\"");
    pod.wrapper = ["unshare", "--mount", "sh", "-c", &mount].map(str::to_owned).into();
    Ok(pod)
}
