//! Programs that are killed without a warning while a pod makes requests.

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::Cluster;
use e2e::namespace::{Namespace, name_of};
use e2e::{pod_processes, wait};
use serde_json::Value;

use crate::commands::istioctl;
use crate::load::Load;

pub(crate) fn killed_sidecars_lose_only_requests_in_flight(cluster: &Cluster) -> Result<()> {
    let load = Load::running(cluster)?;
    let shop = cluster.existing_namespace("shop");
    let mut servers = shop.pods("app=server")?;
    servers.sort_by(|one, other| name_of(one).cmp(name_of(other)));
    ensure!(servers.len() == 2, "{} servers", servers.len());
    let client = shop.pod("app=client")?;
    for (server, program) in servers.iter().zip(["pilot-agent", "envoy"]) {
        let client_restarts = restarts(&shop, &client)?;
        pod_processes::kill(&client, program)?;
        load.excuse(pod_processes::kill(server, program)?);
        load.continues(&format!("after {program} of a server was killed"))?;
        wait::until("the sidecar of the server is ready again", || {
            let now = shop.get(&format!("pod/{}", name_of(server)))?;
            let proxy = proxy_status(&now)?;
            ensure!(proxy["restartCount"] == 1 && proxy["ready"] == true, "{proxy}");
            anyhow::Ok(())
        })?;
        wait::until("the killed sidecar of the client serves again", || {
            ensure!(restarts(&shop, &client)? > client_restarts, "it has not started again");
            shop.exec(name_of(&client), "client", &["wget", "-q", "-O", "-", "http://web"])
        })?;
        load.continues(&format!("with a new {program} of the server"))?;
    }
    Ok(())
}

pub(crate) fn killed_api_server_and_etcd_lose_no_request(cluster: &Cluster) -> Result<()> {
    let load = Load::running(cluster)?;
    cluster.without_api_server(|| load.continues("without an API server"))?;
    changed_endpoints_arrive(cluster, &load, 3)?;
    cluster.without_etcd(|| load.continues("without etcd"))?;
    changed_endpoints_arrive(cluster, &load, 2)
}

/// Scales the servers, and waits until the client's Envoy has as many endpoints.
fn changed_endpoints_arrive(cluster: &Cluster, load: &Load, replicas: usize) -> Result<()> {
    let shop = cluster.existing_namespace("shop");
    shop.kubectl(&["scale", "deployment/server", &format!("--replicas={replicas}")])?;
    shop.wait_until_available("server")?;
    let client = name_of(&shop.pod("app=load")?).to_owned();
    let words = ["pc", "endpoint", &format!("{client}.shop"), "--cluster", SERVERS];
    wait::until("the client has as many endpoints", || {
        let endpoints = istioctl(cluster, &words)?;
        let healthy = endpoints.lines().filter(|line| line.contains("HEALTHY")).count();
        ensure!(healthy == replicas, "{endpoints}");
        anyhow::Ok(())
    })?;
    load.continues("with other endpoints")
}

fn restarts(shop: &Namespace<'_>, pod: &Value) -> Result<u64> {
    let pod = shop.get(&format!("pod/{}", name_of(pod)))?;
    proxy_status(&pod)?["restartCount"].as_u64().context("no number of restarts")
}

/// Returns the status of a pod's sidecar, which is an init container or not.
fn proxy_status(pod: &Value) -> Result<&Value> {
    let lists = ["containerStatuses", "initContainerStatuses"];
    let mut all = lists.iter().filter_map(|list| pod["status"][list].as_array()).flatten();
    all.find(|status| status["name"] == "istio-proxy").context("the pod has no istio-proxy")
}

const SERVERS: &str = "outbound|80||server.shop.svc.cluster.local";
