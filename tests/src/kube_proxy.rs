//! kube-proxy, which makes Services reachable from this machine and from its pods.

use anyhow::{Result, ensure};

use crate::bridge::Bridge;
use crate::http;
use crate::identity::{Identity, NODE_NAME, Server};
use crate::port::free_port;
use crate::process::Process;
use crate::programs::Programs;
use crate::run_folder::RunFolder;
use crate::tool::run;

/// A running kube-proxy in `nf_tables` mode.
#[derive(Debug)]
pub(crate) struct KubeProxy {
    process: Process,
}

impl KubeProxy {
    /// Starts kube-proxy and waits until it has written its rules.
    pub(crate) fn start(
        folder: &RunFolder,
        programs: &Programs,
        bridge: &Bridge,
        server: &Server,
    ) -> Result<Self> {
        let health_port = free_port()?;
        let kubeconfig = Identity::KubeProxy.kubeconfig(folder, server)?;
        let mut process = Process::start(
            folder,
            "kube-proxy",
            &programs.kubernetes("kube-proxy")?,
            [
                format!("--kubeconfig={}", kubeconfig.display()),
                "--proxy-mode=nftables".to_owned(),
                format!("--cluster-cidr={}", bridge.range()),
                format!("--hostname-override={NODE_NAME}"),
                format!("--healthz-bind-address=127.0.0.1:{health_port}"),
                format!("--metrics-bind-address=127.0.0.1:{}", free_port()?),
                // The zeros keep it from changing the machine's conntrack settings.
                "--conntrack-max-per-core=0".to_owned(),
                "--conntrack-tcp-timeout-established=0".to_owned(),
                "--conntrack-tcp-timeout-close-wait=0".to_owned(),
            ],
        )?;
        process.wait_until("kube-proxy has written its rules", || {
            http::get(([127, 0, 0, 1], health_port).into(), "/livez")?.expect_ok()?;
            ensure!(!tables()?.is_empty(), "there is no table yet");
            Ok(())
        })?;
        Ok(Self { process })
    }

    pub(crate) fn stop(&mut self) -> Result<()> {
        self.process.stop()
    }
}

/// Returns the families in which kube-proxy's table exists on this machine.
pub(crate) fn tables() -> Result<Vec<&'static str>> {
    let tables = run("nft", ["list", "tables"])?;
    let exists =
        |family: &&str| tables.lines().any(|line| line == format!("table {family} {TABLE}"));
    Ok(["ip", "ip6"].into_iter().filter(exists).collect())
}

/// Deletes the tables that kube-proxy leaves when it ends.
pub(crate) fn delete_tables() -> Result<()> {
    for family in tables()? {
        run("nft", ["delete", "table", family, TABLE])?;
    }
    Ok(())
}

const TABLE: &str = "kube-proxy";
