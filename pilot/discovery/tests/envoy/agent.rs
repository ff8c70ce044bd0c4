//! The agent and its Envoy with the program, in a network namespace: ports of the agent are fixed.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use e2e::http;
use e2e::netns::Namespace;
use e2e::process::Process;
use e2e::programs::Programs;
use e2e::run_folder::RunFolder;
use serde_json::json;
use tempfile::TempDir;

use crate::fixture::{Backend, Fixture, expect, wait_for};
use crate::objects::Mesh;

#[expect(clippy::print_stdout, reason = "the measured time")]
pub(crate) fn traffic_follows_files_and_outlives_discovery() {
    let namespace = Namespace::create().unwrap();
    let story = || {
        let [one, two, three] = ["one", "two", "three"].map(Backend::start);
        let mesh = |web: &Backend| {
            let web = Mesh::default().service("web", PORT, &[web.address]);
            web.service("api", PORT, &[three.address])
        };
        let mut fixture = Fixture::start_at(GRPC_PORT, &mesh(&one));
        let mut agent = Agent::start();
        agent.wait_until_ready();
        wait_for("the first answer", || expect(PORT, "web", "one"));
        wait_for("the other service", || expect(PORT, "api.shop", "three"));

        fixture.write(&mesh(&two));
        wait_for("the changed endpoint", || expect(PORT, "web", "two"));
        expect(PORT, "api.shop", "three").unwrap();

        fixture.kill();
        agent.wait_for_condition("no connection to the control plane");
        fixture.write(&mesh(&one));
        for _ in 0..100 {
            expect(PORT, "web", "two").unwrap();
            expect(PORT, "api.shop", "three").unwrap();
        }
        fixture.start_again();
        let ready = Instant::now();
        wait_for("the change made meanwhile", || expect(PORT, "web", "one"));
        println!("a change reached Envoy {:?} after discovery was back", ready.elapsed());
        expect(PORT, "api.shop", "three").unwrap();
    };
    namespace.run(story).unwrap();
}

/// An agent without certificates. Ends with the value.
struct Agent {
    process: Process,
    _container: TempDir,
    _folder: RunFolder,
}

impl Agent {
    fn start() -> Self {
        let folder = RunFolder::of_process().unwrap();
        let container = tempfile::tempdir().unwrap();
        for name in ["etc/istio/proxy", "etc/istio/pod", "var/run/secrets/workload-spiffe-uds"] {
            fs::create_dir_all(container.path().join(name)).unwrap();
        }
        let config = json!({
            "binaryPath": Programs::find().unwrap().envoy().unwrap(),
            "discoveryAddress": format!("127.0.0.1:{GRPC_PORT}"),
            "concurrency": 1,
            "drainDuration": "1s",
        });
        let own = std::env::current_exe().unwrap().display().to_string();
        let arguments = [
            format!("--chdir={}", container.path().display()),
            "POD_NAME=client-1".to_owned(),
            "POD_NAMESPACE=shop".to_owned(),
            "INSTANCE_IP=127.0.0.1".to_owned(),
            "SERVICE_ACCOUNT=client".to_owned(),
            "TRUST_DOMAIN=cluster.local".to_owned(),
            "ISTIO_META_CLUSTER_ID=Kubernetes".to_owned(),
            "ISTIO_META_INTERCEPTION_MODE=NONE".to_owned(),
            "FILE_MOUNTED_CERTS=true".to_owned(),
            format!("PROXY_CONFIG={config}"),
            own,
            "proxy".to_owned(),
            "sidecar".to_owned(),
            "--domain=shop.svc.cluster.local".to_owned(),
            "--parentShutdownDuration=2s".to_owned(),
        ];
        let process =
            Process::start(&folder, "pilot-agent", Path::new("/usr/bin/env"), arguments).unwrap();
        Self { process, _container: container, _folder: folder }
    }

    fn wait_until_ready(&mut self) {
        let probe = || readiness()?.expect_ok();
        self.process.wait_until("the agent's readiness", probe).unwrap();
    }

    /// Waits until the page of readiness has a text.
    fn wait_for_condition(&mut self, text: &str) {
        let probe = || {
            let answer = readiness()?;
            anyhow::ensure!(answer.body.contains(text), "{answer:?}");
            Ok(())
        };
        self.process.wait_until(text, probe).unwrap();
    }
}

fn readiness() -> anyhow::Result<http::Response> {
    http::get(SocketAddr::from(([127, 0, 0, 1], STATUS_PORT)), "/healthz/ready")
}

/// Port of the services.
const PORT: u16 = 8000;
/// Port on which agents expect plaintext.
const GRPC_PORT: u16 = 15010;
const STATUS_PORT: u16 = 15020;
