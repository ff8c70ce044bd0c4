//! Envoy as a child process.

use std::fs;
use std::path::Path;
use std::process::ExitStatus;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::arguments::Proxy;
use crate::bootstrap::bootstrap;
use crate::environment::Pod;

/// A running Envoy.
#[derive(Debug)]
pub(crate) struct Envoy(Child);

impl Envoy {
    /// Writes the bootstrap of a pod and starts Envoy with it.
    pub(crate) fn start(proxy: &Proxy, pod: &Pod) -> Result<Self> {
        let path = Path::new(FOLDER).join("envoy.json");
        fs::write(&path, format!("{:#}", bootstrap(pod, proxy.role)))
            .with_context(|| format!("writing {}", path.display()))?;
        let mut envoy = Command::new("envoy");
        envoy.arg("--config-path").arg(&path);
        envoy.args(["--disable-hot-restart", "--concurrency", "2"]);
        // The tests read the connection log soon after the connection.
        envoy.args(["--file-flush-interval-msec", "100"]);
        envoy.args(["--log-level", &proxy.log_level]);
        if !proxy.component_log_level.is_empty() {
            envoy.args(["--component-log-level", &proxy.component_log_level]);
        }
        envoy.kill_on_drop(true).spawn().map(Self).context("starting envoy")
    }

    /// Waits for the exit of Envoy.
    pub(crate) async fn end(&mut self) -> Result<ExitStatus> {
        self.0.wait().await.context("waiting for envoy")
    }

    /// Sends a termination signal.
    pub(crate) fn terminate(&self) -> Result<()> {
        // Without an id it has ended already.
        let id = self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let Some(id) = id else { return Ok(()) };
        kill_process(id, Signal::TERM).context("ending envoy")
    }
}

/// A mount of the injected container, so it is writable.
const FOLDER: &str = "/etc/istio/proxy";
