//! Control planes as processes.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use e2e::api_servers::ApiServers;
use e2e::http;
use e2e::port::free_port;
use e2e::process::Process;

/// Product whose control plane runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    Outrigger,
    Istio,
}

/// Running control plane. It ends with the value.
pub(crate) struct Server {
    process: Process,
    address: SocketAddr,
    ready_after: Duration,
}

impl Server {
    /// Starts a control plane, and waits until it is ready.
    pub(crate) fn start(product: Product, program: &Path, api: &ApiServers) -> Result<Self> {
        let [address, pages] =
            [free_port()?, free_port()?].map(|port| (Ipv4Addr::LOCALHOST, port).into());
        let mesh = api.folder().write("mesh", MESH)?;
        // istiod writes into its working directory.
        let folder = api.folder().folder("control-plane")?;
        let mut command = vec![
            format!("--chdir={}", folder.display()),
            "POD_NAMESPACE=istio-system".to_owned(),
            "POD_NAME=istiod-1".to_owned(),
            program.display().to_string(),
            "discovery".to_owned(),
            format!("--kubeconfig={}", api.admin_kubeconfig().display()),
            format!("--meshConfig={}", mesh.display()),
            format!("--grpcAddr={address}"),
            format!("--httpAddr={pages}"),
        ];
        let mut flags = vec!["secureGRPCAddr", "monitoringAddr"];
        if product == Product::Istio {
            flags.push("httpsAddr");
            command.push(format!("--ctrlz_port={}", free_port()?));
        }
        for flag in flags {
            command.push(format!("--{flag}=127.0.0.1:{}", free_port()?));
        }
        let begin = Instant::now();
        let env = Path::new("/usr/bin/env");
        let mut process = Process::start(api.folder(), "control-plane", env, command)?;
        wait_until_ready(&mut process, pages)?;
        Ok(Self { process, address, ready_after: begin.elapsed() })
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Address of xDS in plaintext.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Time from exec until the program was ready.
    pub(crate) fn ready_after(&self) -> Duration {
        self.ready_after
    }
}

fn wait_until_ready(process: &mut Process, pages: SocketAddr) -> Result<()> {
    let ready = || http::get(pages, "/ready")?.expect_ok();
    process.wait_until("the server is ready", ready).map(drop)
}

const MESH: &str = "defaultConfig: {discoveryAddress: 'istiod.istio-system.svc:15012'}\n";
