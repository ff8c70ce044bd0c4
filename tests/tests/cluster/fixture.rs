//! Fixture of all tests: the node, and the injector installed on it.

use std::path::Path;
use std::sync::OnceLock;
use std::{env, fs, io};

use anyhow::{Context, Result, anyhow, bail};
use e2e::cluster::Cluster;
use e2e::programs::{Programs, repository};
use e2e::{images, wait};

use crate::control_plane::ControlPlane;

/// Starts the node and installs the injector once, when a test first needs them.
#[derive(Default)]
pub(crate) struct Fixture {
    node: OnceLock<Result<(Cluster, ControlPlane), String>>,
    installed: OnceLock<Result<(), String>>,
}

impl Fixture {
    /// Returns the cluster without the injector.
    pub(crate) fn cluster(&self) -> Result<&Cluster> {
        self.node().map(|(cluster, _)| cluster)
    }

    /// Returns the control plane of the mesh.
    pub(crate) fn control_plane(&self) -> Result<&ControlPlane> {
        self.node().map(|(_, control_plane)| control_plane)
    }

    fn node(&self) -> Result<&(Cluster, ControlPlane)> {
        once(&self.node, || {
            let programs = Programs::find()?;
            let app = Path::new(env!("CARGO_BIN_EXE_app"));
            let cluster = Cluster::start(&programs, &images::all(&programs, app)?)?;
            let control_plane =
                ControlPlane::start(&cluster).context("starting the control plane of the mesh")?;
            Ok((cluster, control_plane))
        })
    }

    /// Returns the cluster with `manifests/install.yaml` applied and the webhook serving.
    pub(crate) fn cluster_with_injector(&self) -> Result<&Cluster> {
        let cluster = self.cluster()?;
        once(&self.installed, || install(cluster))?;
        Ok(cluster)
    }

    /// Stops the node. If `OUTRIGGER_HOLD` is set, it first waits after a failure, for the
    /// investigation.
    pub(crate) fn take_down(self, failed: bool) -> Result<()> {
        let Some(Ok((cluster, _))) = self.node.into_inner() else {
            return Ok(());
        };
        if failed && env::var_os("OUTRIGGER_HOLD").is_some() {
            hold(&cluster)?;
        }
        cluster.stop().context("taking the cluster down")
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
    cluster.existing_namespace("istio-system").wait_until_available("sidecar-injector")?;
    let configuration = "mutatingwebhookconfiguration/istio-sidecar-injector";
    let bundles = "--output=jsonpath={.webhooks[*].clientConfig.caBundle}";
    wait::until("every entry of the webhook has its caBundle", || {
        let found = cluster.kubectl().must(["get", configuration, bundles])?;
        let count = found.split_whitespace().count();
        if count == ENTRIES { Ok(()) } else { bail!("{count} of {ENTRIES} have one") }
    })
}

fn once<T>(cell: &OnceLock<Result<T, String>>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    let made = cell.get_or_init(|| make().map_err(|error| format!("{error:#}")));
    made.as_ref().map_err(|error| anyhow!("{error}"))
}

/// Number of Istio's entries for the default revision.
const ENTRIES: usize = 4;
