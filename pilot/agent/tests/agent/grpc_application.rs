//! gRPC's own xDS client and server, configured through an agent without Envoy.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use e2e::programs::Programs;
use e2e::wait;
use rustix::process::Signal;

use crate::control_plane::Configuration;
use crate::fixture::Pod;
use crate::grpc_pod::{self, BOOTSTRAP, CERTIFICATES};
use crate::tests;

tests![grpc_applications_speak_mtls_by_xds_of_the_agent];

fn grpc_applications_speak_mtls_by_xds_of_the_agent() -> Result<()> {
    let server = "127.0.0.1:7070";
    let configuration =
        Configuration { version: 1, grpc: Some(server.parse()?), ..Default::default() };
    let mut pod = grpc_pod::with_configuration(configuration)?.started()?;
    wait::until("the certificates are written", || {
        fs::metadata(pod.path(CERTIFICATES).join("cert-chain.pem"))
    })?;
    let server = start(&pod, "server", &["serve", server])?;
    let call = || {
        let mut client = start(&pod, "client", &["call", "xds:///greeter.shop:7070"])?;
        let status = client.0.wait()?;
        let output = fs::read_to_string(pod.path("client.log"))?;
        let log = || fs::read_to_string(pod.path("server.log")).unwrap_or_default();
        ensure!(status.success(), "{status}: {output}\nserver: {}\n{}", log(), pod.log());
        let peers = "client spiffe://cluster.local/ns/shop/sa/web, \
                     server spiffe://cluster.local/ns/shop/sa/web";
        ensure!(output.contains(peers), "{output}");
        Ok(())
    };
    call()?;
    pod.plane.stop();
    pod.wait_for_readiness(200, "control plane: ")?;
    pod.plane.resume();
    call()?;
    drop(server);
    pod.wait_for_no_condition()?;
    pod.signal(Signal::TERM)?;
    pod.ended()
}

/// A gRPC application. It ends with the value.
struct Application(Child);

impl Drop for Application {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(pod: &Pod, name: &str, arguments: &[&str]) -> Result<Application> {
    let log = File::create(pod.path(&format!("{name}.log")))?;
    let mut command = Command::new(Programs::find()?.grpc_application()?);
    command.args(arguments).current_dir(pod.path("")).env("GRPC_XDS_BOOTSTRAP", BOOTSTRAP);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let child = pod.namespace.run(|| command.spawn())?.context("starting the application")?;
    Ok(Application(child))
}
