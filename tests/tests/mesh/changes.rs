//! Changes of the mesh while a pod makes requests without a pause.

use std::time::Instant;

use anyhow::{Result, ensure};
use e2e::cluster::Cluster;
use e2e::namespace::name_of;
use e2e::wait;

use crate::load::Load;

pub(crate) fn rolling_updates_and_scaling_lose_no_request(cluster: &Cluster) -> Result<()> {
    let load = Load::running(cluster)?;
    let shop = cluster.existing_namespace("shop");
    shop.kubectl(&["rollout", "restart", "deployment/server"])?;
    shop.wait_until_available("server")?;
    load.continues("after a rolling update")?;
    for replicas in [4, 2] {
        shop.kubectl(&["scale", "deployment/server", &format!("--replicas={replicas}")])?;
        shop.wait_until_available("server")?;
        wait::until("pods that are not wanted are gone", || {
            let pods = shop.kubectl(&["get", "pods", "-l", "app=server", "-o", "name"])?;
            ensure!(pods.lines().count() == replicas, "{pods}");
            anyhow::Ok(())
        })?;
        load.continues("after scaling")?;
    }
    Ok(())
}

pub(crate) fn killed_control_plane_loses_no_request(cluster: &Cluster) -> Result<()> {
    let load = Load::running(cluster)?;
    let (shop, system) =
        (cluster.existing_namespace("shop"), cluster.existing_namespace("istio-system"));
    let killed = ["delete", "pods", "-l", "app=pilot-discovery", "--force", "--grace-period=0"];
    system.kubectl(&killed)?;
    load.continues("without a control plane")?;
    // Endpoints that changed meanwhile arrive once it is back.
    shop.kubectl(&["rollout", "restart", "deployment/server"])?;
    system.wait_until_available("pilot-discovery")?;
    shop.wait_until_available("server")?;
    load.continues("with a new control plane")
}

pub(crate) fn labels_of_a_node_become_the_locality_of_its_endpoints(
    cluster: &Cluster,
) -> Result<()> {
    let load = Load::running(cluster)?;
    let is_local = |text: &str| text.contains("::region::eu\n") && text.contains("::zone::eu-1\n");
    ensure!(!is_local(&clusters(cluster)?), "the node has labels already");
    let label =
        |words: &[&str]| cluster.kubectl().must([&["label", "nodes", "--all"], words].concat());
    label(&["topology.kubernetes.io/region=eu", "topology.kubernetes.io/zone=eu-1"])?;
    wait::until("endpoints have the locality", || {
        let text = clusters(cluster)?;
        let endpoints = |what: &str| {
            text.lines().filter(|line| line.starts_with(SERVERS) && line.ends_with(what)).count()
        };
        ensure!(endpoints("::zone::eu-1") == 2 && endpoints("::region::eu") == 2, "{text}");
        anyhow::Ok(())
    })?;
    load.continues("with other labels of the node")
}

#[expect(clippy::print_stdout, reason = "the time is to be seen")]
pub(crate) fn absent_control_plane_changes_nothing_and_catches_up(cluster: &Cluster) -> Result<()> {
    let load = Load::running(cluster)?;
    let (outside, system) =
        (cluster.existing_namespace("outside"), cluster.existing_namespace("istio-system"));
    let plain = "outbound|8080||plain.outside.svc.cluster.local";
    let endpoints = || -> Result<usize> {
        let text = clusters(cluster)?;
        let is_one =
            |line: &&str| line.starts_with(plain) && line.ends_with("::health_flags::healthy");
        Ok(text.lines().filter(is_one).count())
    };
    wait::until("the service outside has one endpoint", || {
        let count = endpoints()?;
        ensure!(count == 1, "{count}");
        anyhow::Ok(())
    })?;
    let scale = |replicas: u32| {
        let replicas = format!("--replicas={replicas}");
        system.kubectl(&["scale", "deployment/pilot-discovery", &replicas])
    };
    scale(0)?;
    wait::until("the control plane is gone", || {
        let pods = system.kubectl(&["get", "pods", "-l", "app=pilot-discovery", "-o", "name"])?;
        ensure!(pods.is_empty(), "{pods}");
        anyhow::Ok(())
    })?;
    outside.kubectl(&["scale", "deployment/plain", "--replicas=2"])?;
    outside.wait_until_available("plain")?;
    load.continues_for(AWAY, "without a control plane")?;
    ensure!(endpoints()? == 1, "the control plane is away");
    scale(2)?;
    wait::until("a control plane is ready", || {
        let deployment = system.get("deployment/pilot-discovery")?;
        ensure!(deployment["status"]["readyReplicas"].as_u64() > Some(0), "none is ready");
        anyhow::Ok(())
    })?;
    let back = Instant::now();
    wait::until("the other endpoint is there", || {
        let count = endpoints()?;
        ensure!(count == 2, "{count}");
        anyhow::Ok(())
    })?;
    println!("endpoints caught up {} ms after the return", back.elapsed().as_millis());
    load.continues("with the control plane")
}

/// Endpoints of the load's Envoy.
fn clusters(cluster: &Cluster) -> Result<String> {
    let shop = cluster.existing_namespace("shop");
    let load = shop.pod("app=load")?;
    shop.exec(name_of(&load), "app", &["/app", "--call", "http://127.0.0.1:15000/clusters"])
}

const SERVERS: &str = "outbound|80||server.shop.svc.cluster.local::";
/// Answers of fifteen seconds.
const AWAY: u64 = 1_500;
