//! Histories of objects.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde_json::json;

use crate::mesh::{Mesh, PODS, SERVICES, SLICES};

pub(crate) async fn service_scales_from_0_to_50_to_0(mesh: &mut Mesh) -> Result<()> {
    mesh.service(0, "web", 80).await?;
    mesh.until("the service is known", async |mesh| Ok(mesh.web().is_ok())).await?;
    ensure!(mesh.web()?.is_empty());
    for number in 0..50 {
        let address = format!("10.1.0.{number}");
        mesh.pod(0, &format!("web-{number}"), "web", &address, "Running").await?;
    }
    mesh.until("there are 50 endpoints", async |mesh| Ok(mesh.web()?.len() == 50)).await?;
    mesh.settled(0).await?;
    for number in 0..50 {
        mesh.delete(0, &format!("{PODS}/web-{number}")).await?;
    }
    mesh.until("there is no endpoint", async |mesh| Ok(mesh.web()?.is_empty())).await?;
    mesh.settled(0).await?;
    mesh.clear().await
}

pub(crate) async fn relabelled_node_moves_its_endpoints(mesh: &mut Mesh) -> Result<()> {
    mesh.service(0, "web", 80).await?;
    mesh.slice(0, "by-hand", &["10.1.0.1".to_owned()]).await?;
    mesh.pod(0, "web-1", "web", "10.1.0.1", "Running").await?;
    let zone = |zone: &str| vec![("10.1.0.1".to_owned(), zone.to_owned())];
    let here = zone("z1");
    mesh.until("the endpoint is in z1", async |mesh| Ok(mesh.web().is_ok_and(|it| it == here)))
        .await?;
    mesh.node("n1", "z3").await?;
    // The controller writes its slice anew some time; the one written by hand says no zone.
    mesh.settled(0).await?;
    mesh.node("n1", "z1").await?;
    mesh.settled(0).await?;
    mesh.clear().await
}

/// The API server takes slices with any number of a port.
pub(crate) async fn impossible_port_does_not_stop_the_watch(mesh: &mut Mesh) -> Result<()> {
    mesh.service(0, "web", 80).await?;
    for (index, port) in [0, -1, 70_000].into_iter().enumerate() {
        let name = format!("impossible-{index}");
        let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": "shop",
                "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
            "endpoints": [{"addresses": ["10.1.0.7"]}]});
        mesh.apply(0, &format!("{SLICES}/{name}"), &slice).await?;
    }
    mesh.slice(0, "by-hand", &["10.1.0.8".to_owned()]).await?;
    let possible = vec![("10.1.0.8".to_owned(), String::new())];
    mesh.until("the other slice counts", async |mesh| {
        Ok(mesh.web().is_ok_and(|found| found == possible))
    })
    .await?;
    mesh.clear().await
}

pub(crate) async fn reused_address_belongs_to_the_new_pod(mesh: &mut Mesh) -> Result<()> {
    mesh.service(0, "web", 80).await?;
    mesh.pod(0, "job-1", "job", "10.1.0.9", "Running").await?;
    mesh.pod(0, "job-1", "job", "10.1.0.9", "Succeeded").await?;
    mesh.pod(0, "web-2", "web", "10.1.0.9", "Running").await?;
    let owner = "10.1.0.9".parse()?;
    mesh.until("the address is the new pod's", async |mesh| {
        let snapshot = mesh.snapshot();
        Ok(snapshot.workload_at(owner).is_some_and(|workload| *workload.name == *"web-2"))
    })
    .await?;
    mesh.delete(0, &format!("{PODS}/web-2")).await?;
    mesh.pod(0, "web-3", "web", "10.1.0.9", "Running").await?;
    mesh.settled(0).await?;
    mesh.clear().await
}

pub(crate) async fn restarted_api_server_is_caught_up_with(mesh: &mut Mesh) -> Result<()> {
    mesh.service(0, "web", 80).await?;
    mesh.pod(0, "web-1", "web", "10.1.0.1", "Running").await?;
    mesh.pod(0, "web-2", "web", "10.1.0.2", "Running").await?;
    mesh.settled(0).await?;
    let slices = mesh.get(1, SLICES).await?;
    let old = slices["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    mesh.servers.kill(0)?;
    // What is deleted and made now is in no watch: the versions in between are compacted.
    mesh.delete(1, &format!("{PODS}/web-1")).await?;
    mesh.delete(1, &format!("{SERVICES}/web")).await?;
    mesh.service(1, "db", 5432).await?;
    mesh.pod(1, "db-1", "db", "10.1.0.1", "Running").await?;
    mesh.until("the old version is compacted", async |mesh| {
        // Each try is a write, since compaction needs newer versions.
        mesh.slice(1, "by-hand", &["10.1.0.7".to_owned()]).await?;
        mesh.delete(1, &format!("{SLICES}/by-hand")).await?;
        let exact = format!("{SLICES}?resourceVersion={old}&resourceVersionMatch=Exact");
        Ok(mesh.get(1, &exact).await.is_err())
    })
    .await?;
    mesh.servers.start_again(0)?;
    mesh.settled(1).await?;
    ensure!(mesh.web().is_err(), "the deleted service is gone");
    mesh.clear().await
}

pub(crate) async fn restarted_store_is_caught_up_with(mesh: &mut Mesh) -> Result<()> {
    mesh.service(0, "web", 80).await?;
    mesh.settled(0).await?;
    mesh.servers.restart_store()?;
    mesh.until("the API server writes again", async |mesh| {
        Ok(mesh.pod(0, "web-1", "web", "10.1.0.1", "Running").await.is_ok())
    })
    .await?;
    mesh.until("there is one endpoint", async |mesh| Ok(mesh.web()?.len() == 1)).await?;
    mesh.settled(0).await?;
    mesh.clear().await
}

pub(crate) async fn random_histories_end_as_the_lists_say(mesh: &mut Mesh) -> Result<()> {
    let mut random = Random(7);
    for round in 0..8 {
        for _ in 0..40 {
            step(mesh, 0, &mut random).await?;
        }
        if round % 3 == 2 {
            mesh.servers.kill(0)?;
            for _ in 0..20 {
                step(mesh, 1, &mut random).await?;
            }
            mesh.servers.start_again(0)?;
        }
        mesh.settled(0).await?;
    }
    mesh.clear().await
}

/// The comparisons during the stories before this one have found nothing.
pub(crate) async fn watchdog_finds_and_repairs_lost_changes(mesh: &mut Mesh) -> Result<()> {
    ensure!(mesh.drift().is_empty(), "no change was lost: {:?}", mesh.drift());
    // No API server restarts in this story.
    mesh.watch_again(Duration::from_secs(2)).await?;
    mesh.service(0, "web", 80).await?;
    mesh.pod(0, "web-1", "web", "10.1.0.1", "Running").await?;
    mesh.settled(0).await?;
    mesh.lose_changes(true);
    until_repaired(mesh, "Pod", async |mesh, round| match round % 2 {
        0 => mesh.delete(0, &format!("{PODS}/web-1")).await,
        _ => mesh.pod(0, "web-1", "web", "10.1.0.1", "Running").await,
    })
    .await?;
    until_repaired(mesh, "Service", async |mesh, round| mesh.service(0, "web", 81 + round).await)
        .await?;
    until_repaired(mesh, "Node", async |mesh, round| mesh.node("n2", &format!("z9-{round}")).await)
        .await?;
    mesh.lose_changes(false);
    mesh.node("n2", "z2").await?;
    mesh.settled(0).await?;
    mesh.clear().await
}

/// Makes changes, which are lost, until the watchdog has found one. A watch that begins again, as all do after
/// a drift, lists its objects: such a list brings a change that the watchdog then cannot find.
async fn until_repaired(
    mesh: &Mesh,
    kind: &str,
    mut change: impl AsyncFnMut(&Mesh, u16) -> Result<()>,
) -> Result<()> {
    for round in 0..ROUNDS {
        let lists = mesh.lists(kind);
        change(mesh, round).await?;
        mesh.until("the lost change is found or listed", async |mesh| {
            Ok(mesh.drift().contains_key(kind) || mesh.lists(kind) > lists)
        })
        .await?;
        if mesh.drift().contains_key(kind) {
            return mesh.settled(0).await;
        }
    }
    bail!("lists brought all {ROUNDS} changes of a {kind}: the watchdog found none")
}

async fn step(mesh: &Mesh, server: usize, random: &mut Random) -> Result<()> {
    let app = ["web", "db"][random.below(2)];
    let pod = format!("{app}-{}", random.below(4));
    let address = format!("10.1.0.{}", random.below(5));
    match random.below(12) {
        0 | 1 => mesh.service(server, app, [80, 81][random.below(2)]).await,
        2 => mesh.delete(server, &format!("{SERVICES}/{app}")).await,
        3..=6 => {
            let phase = ["Running", "Running", "Pending", "Failed"][random.below(4)];
            // A finished pod stays so; a pod of this name is a new one.
            mesh.delete(server, &format!("{PODS}/{pod}")).await?;
            mesh.pod(server, &pod, app, &address, phase).await
        }
        7 | 8 => mesh.delete(server, &format!("{PODS}/{pod}")).await,
        9 => mesh.slice(server, "by-hand", &[address]).await,
        10 => mesh.delete(server, &format!("{SLICES}/by-hand")).await,
        _ if server == 0 => mesh.node("n1", ["z1", "z3"][random.below(2)]).await,
        _ => Ok(()),
    }
}

/// Numbers that are the same in every run (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end as u64).unwrap_or_default()
    }
}

/// Rounds of which one is not disturbed by a list, or the watchdog does not work.
const ROUNDS: u16 = 20;
