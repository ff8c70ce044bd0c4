//! Changes of the mesh while a pod makes requests without a pause.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::Cluster;
use e2e::namespace::Namespace;
use e2e::wait;

pub(crate) fn rolling_updates_and_scaling_lose_no_request(cluster: &Cluster) -> Result<()> {
    let load = Load::start(cluster)?;
    let shop = &load.shop;
    shop.kubectl(&["rollout", "restart", "deployment/web"])?;
    shop.wait_until_available("web")?;
    load.continues("after a rolling update")?;
    for replicas in [3, 1] {
        shop.kubectl(&["scale", "deployment/web", &format!("--replicas={replicas}")])?;
        shop.wait_until_available("web")?;
        wait::until("pods that are not wanted are gone", PATIENCE, || {
            let pods = shop.kubectl(&["get", "pods", "-l", "app=web", "-o", "name"])?;
            ensure!(pods.lines().count() == replicas, "{pods}");
            anyhow::Ok(())
        })?;
        load.continues("after scaling")?;
    }
    load.stop()
}

pub(crate) fn killed_control_plane_loses_no_request(cluster: &Cluster) -> Result<()> {
    let load = Load::start(cluster)?;
    let system = cluster.existing_namespace("istio-system");
    let killed = ["delete", "pods", "-l", "app=pilot-discovery", "--force", "--grace-period=0"];
    system.kubectl(&killed)?;
    load.continues("without a control plane")?;
    // Endpoints that changed meanwhile arrive once it is back.
    load.shop.kubectl(&["rollout", "restart", "deployment/web"])?;
    system.wait_until_available("pilot-discovery")?;
    load.shop.wait_until_available("web")?;
    load.continues("with a new control plane")?;
    load.stop()
}

/// A pod that requests the page of `web` one time after the other.
struct Load<'a> {
    shop: Namespace<'a>,
}

impl<'a> Load<'a> {
    fn start(cluster: &'a Cluster) -> Result<Self> {
        let shop = cluster.existing_namespace("shop");
        let words = ["run", "load", "--image=busybox:1.37", "--restart=Never", "--"];
        shop.kubectl(&[&words[..], &["sh", "-c", REQUESTS]].concat())?;
        shop.wait_for("condition=Ready", "pod/load")?;
        let load = Self { shop };
        wait::until("the first request is answered", PATIENCE, || load.count())?;
        load.continues("at the start")?;
        Ok(load)
    }

    /// Waits for further answers, and asserts that no request has failed.
    fn continues(&self, when: &str) -> Result<()> {
        let before = self.count()?;
        wait::until(&format!("requests {when} are answered"), PATIENCE, || {
            let answered = self.count()?;
            ensure!(answered >= before + ENOUGH, "{answered} answers, {before} before");
            anyhow::Ok(())
        })
    }

    /// Number of answers.
    fn count(&self) -> Result<u32> {
        let failed = self.shop.exec("load", "load", &["cat", "/tmp/failed"])?;
        ensure!(failed.is_empty(), "requests failed:\n{failed}");
        let count = self.shop.exec("load", "load", &["cat", "/tmp/answered"])?;
        count.trim().parse().with_context(|| format!("reading {count:?}"))
    }

    fn stop(self) -> Result<()> {
        let answered = self.count()?;
        self.shop.kubectl(&["delete", "pod", "load", "--grace-period=1"])?;
        ensure!(answered > ENOUGH, "only {answered} requests");
        Ok(())
    }
}

/// A request that fails leaves a line; the first ones wait until the sidecar and its route are there.
const REQUESTS: &str = "
    trap 'exit 0' TERM
    mkdir -p /tmp
    until wget -q -O - http://web > /dev/null 2>&1; do sleep 1; done
    : > /tmp/failed
    count=0
    while true; do
        if wget -q -O /tmp/page http://web 2> /tmp/error; then
            count=$((count + 1))
            echo $count > /tmp/new
            mv /tmp/new /tmp/answered
        else
            echo \"request $count: $(cat /tmp/error)\" >> /tmp/failed
        fi
    done";
/// Answers that show that requests go on.
const ENOUGH: u32 = 200;
const PATIENCE: Duration = Duration::from_secs(180);
