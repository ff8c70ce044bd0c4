//! Fixture of all tests: the node, and the injector installed on it.

use std::path::Path;
use std::sync::OnceLock;
use std::{env, fs, io};

use anyhow::{Context, Result, anyhow};
use e2e::cluster::Cluster;
use e2e::images;
use e2e::programs::{Programs, repository};

use crate::control_plane::ControlPlane;

/// The node, with the injector once a story needs it.
pub(crate) struct Fixture {
    cluster: Cluster,
    control_plane: ControlPlane,
    installed: OnceLock<Result<(), String>>,
}

impl Fixture {
    /// Starts the node and the control plane of the mesh.
    pub(crate) fn start() -> Result<Self> {
        let programs = Programs::find()?;
        let app = Path::new(env!("CARGO_BIN_EXE_app"));
        let cluster = Cluster::start(&programs, &images::all(&programs, app)?)?;
        let control_plane =
            ControlPlane::start(&cluster).context("starting the control plane of the mesh")?;
        Ok(Self { cluster, control_plane, installed: OnceLock::new() })
    }

    /// Returns the cluster, which may be without the injector.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns the control plane of the mesh.
    pub(crate) fn control_plane(&self) -> &ControlPlane {
        &self.control_plane
    }

    /// Returns the cluster with `manifests/install.yaml` applied and the webhook serving.
    pub(crate) fn cluster_with_injector(&self) -> Result<&Cluster> {
        let install = || install(&self.cluster).map_err(|error| format!("{error:#}"));
        let installed = self.installed.get_or_init(install);
        installed.as_ref().map_err(|error| anyhow!("{error}"))?;
        Ok(&self.cluster)
    }

    /// Stops the node. If `OUTRIGGER_HOLD` is set, it first waits after a failure, for the
    /// investigation.
    pub(crate) fn take_down(self, failed: bool) -> Result<()> {
        if failed && env::var_os("OUTRIGGER_HOLD").is_some() {
            hold(&self.cluster)?;
        }
        self.cluster.stop().context("taking the cluster down")
    }
}

#[expect(clippy::print_stderr, reason = "talk with whoever asked for it")]
fn hold(cluster: &Cluster) -> Result<()> {
    let kubeconfig = cluster.kubectl().kubeconfig().display();
    eprintln!("the node is held: export KUBECONFIG={kubeconfig}; Enter takes it down");
    io::stdin().read_line(&mut String::new()).context("waiting for Enter").map(drop)
}

/// Returns the text of a file in `manifests`.
pub(crate) fn manifest(path: &str) -> Result<String> {
    let path = repository().join("manifests").join(path);
    fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}

fn install(cluster: &Cluster) -> Result<()> {
    cluster.apply(&manifest("install.yaml")?)?;
    cluster.wait_until_injector_serves()
}
