//! `istioctl` on the mesh.

use std::process::Command;

use anyhow::{Result, bail, ensure};
use e2e::cluster::Cluster;
use e2e::namespace::{address_of, name_of};
use e2e::programs::{Programs, repository};
use e2e::wait;

pub(crate) fn istioctl_shows_proxies_and_their_configuration(cluster: &Cluster) -> Result<()> {
    // The pods of the stories before.
    let shop = cluster.existing_namespace("shop");
    let (web, client) = (shop.pod("app=web")?, shop.pod("app=client")?);
    let (web_proxy, proxy) =
        (format!("{}.shop", name_of(&web)), format!("{}.shop", name_of(&client)));
    // STRICT and PERMISSIVE were sent a moment ago.
    wait::until("each proxy is up to date", || {
        let status = istioctl(cluster, &["proxy-status"])?;
        for name in [&web_proxy, &proxy] {
            let row = status.lines().find(|line| line.starts_with(name.as_str()));
            let states: Vec<_> = row.into_iter().flat_map(str::split_whitespace).collect();
            ensure!(states.get(1..5) == Some(&["SYNCED"; 4]), "{status}");
        }
        anyhow::Ok(())
    })?;

    let cluster_name = "outbound|80||web.shop.svc.cluster.local";
    let clusters = istioctl(cluster, &["proxy-config", "cluster", &proxy, "--fqdn", "web.shop"])?;
    ensure!(clusters.lines().any(|line| line.contains("outbound   EDS")), "{clusters}");
    let words = ["pc", "endpoint", &proxy, "--cluster", cluster_name];
    let endpoints = istioctl(cluster, &words)?;
    let address = format!("{}:8080 ", address_of(&web)?);
    ensure!(endpoints.contains(&address) && endpoints.contains("HEALTHY"), "{endpoints}");
    let secrets = istioctl(cluster, &["pc", "secret", &proxy])?;
    ensure!(secrets.contains("spiffe://cluster.local/ns/shop/sa/default"), "{secrets}");

    let why = istioctl(cluster, &["x", "why", cluster_name, "--proxy", &proxy])?;
    ensure!(why.contains("\n  Service shop/web\n"), "{why}");
    // PERMISSIVE is the last mode of the stories before.
    let graph = istioctl(cluster, &["x", "graph", "-n", "shop"])?;
    let row = graph.lines().find(|line| line.split_whitespace().nth(1) == Some("web"));
    ensure!(row.is_some_and(|row| row.contains("mutual TLS or plain text")), "{graph}");
    let described = istioctl(cluster, &["x", "describe", "pod", &web_proxy])?;
    ensure!(described.contains("captured by the sidecar, port 15006"), "{described}");
    match istioctl(cluster, &["proxy-status", "nothing.shop"]) {
        Ok(status) => bail!("a proxy that does not exist: {status}"),
        Err(error) => {
            let said = format!("{error:#}");
            ensure!(said.contains("nothing.shop is not connected"), "{said}");
        }
    }
    Ok(())
}

/// Output of `istioctl` with the administrator's rights.
pub(crate) fn istioctl(cluster: &Cluster, words: &[&str]) -> Result<String> {
    let mut istioctl = Command::new(Programs::find()?.own("istioctl")?);
    istioctl.current_dir(repository()).args(words);
    let output = istioctl.arg("--kubeconfig").arg(cluster.kubectl().kubeconfig()).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "istioctl {words:?}: {}", text(&output.stderr));
    Ok(text(&output.stdout))
}
