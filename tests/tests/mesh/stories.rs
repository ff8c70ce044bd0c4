//! Stories of the whole mesh.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Result, bail, ensure};
use e2e::cluster::Cluster;
use e2e::namespace::{Namespace, address_of, name_of};
use e2e::programs::repository;
use e2e::wait;

use crate::capture::Capture;

pub(crate) fn requests_between_sidecars_are_encrypted_on_the_wire(cluster: &Cluster) -> Result<()> {
    cluster.kubectl().must(["create", "namespace", "shop"])?;
    cluster.kubectl().must(["label", "namespace", "shop", "istio-injection=enabled"])?;
    let shop = ready(cluster, "shop")?;
    for example in ["web", "client"] {
        let path = repository().join(format!("manifests/examples/{example}.yaml"));
        shop.apply(&fs::read_to_string(path)?)?;
    }
    shop.wait_until_available("web")?;
    shop.wait_until_available("client")?;
    let (web, client) = (shop.pod("app=web")?, shop.pod("app=client")?);
    let IpAddr::V4(address) = address_of(&web)? else { bail!("the pod has no IPv4 address") };

    let (page, packets) = request(&shop, name_of(&client), "client", "web", address)?;
    ensure!(page == PAGE, "{page}");
    ensure!(packets.len() > 3, "{} packets were captured", packets.len());
    ensure!(!in_clear(&packets), "a request between sidecars was readable");

    // The capture does see plaintext, of a pod without a sidecar.
    cluster.kubectl().must(["create", "namespace", "outside"])?;
    let outside = ready(cluster, "outside")?;
    outside.kubectl(&["run", "outside", "--image=busybox:1.37", "--", "sleep", "3600"])?;
    outside.wait_for("condition=Ready", "pod/outside")?;
    let (page, packets) = request(&outside, "outside", "outside", "web.shop", address)?;
    ensure!(page == PAGE, "{page}");
    ensure!(in_clear(&packets), "a request without a sidecar was not captured");
    Ok(())
}

pub(crate) fn strict_mode_rejects_plaintext(cluster: &Cluster) -> Result<()> {
    // The pods of the story before.
    let (shop, outside) =
        (cluster.existing_namespace("shop"), cluster.existing_namespace("outside"));
    let client = shop.pod("app=client")?;
    let by_client =
        || shop.exec(name_of(&client), "client", &["wget", "-q", "-O", "-", "http://web"]);
    let by_outside = || {
        let command = ["wget", "-q", "-O", "-", "http://web.shop"];
        outside.exec("outside", "outside", &command)
    };
    ensure!(by_outside()? == PAGE, "plaintext is accepted by default");
    shop.apply(&policy("STRICT"))?;
    wait::until("plaintext is rejected", || match by_outside() {
        Ok(page) => Err(format!("answered with {page:?}")),
        Err(_) => Ok(()),
    })?;
    ensure!(by_client()? == PAGE, "mutual TLS is accepted");
    shop.apply(&policy("PERMISSIVE"))?;
    wait::until("plaintext is accepted", by_outside)?;
    Ok(())
}

fn policy(mode: &str) -> String {
    format!(
        "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {{name: default}}\n\
         spec: {{mtls: {{mode: {mode}}}}}\n"
    )
}

/// Requests the page of a host, and returns it with the packets of the server's pod.
fn request(
    namespace: &Namespace<'_>,
    pod: &str,
    container: &str,
    host: &str,
    server: Ipv4Addr,
) -> Result<(String, Vec<Vec<u8>>)> {
    let url = format!("http://{host}/?{MARKER}");
    wait::until("the host answers", || {
        let capture = Capture::start(server)?;
        let page = namespace.exec(pod, container, &["wget", "-q", "-O", "-", &url])?;
        anyhow::Ok((page, capture.packets()?))
    })
}

/// Waits until pods can start in a new namespace.
fn ready<'a>(cluster: &'a Cluster, name: &str) -> Result<Namespace<'a>> {
    let namespace = cluster.existing_namespace(name);
    wait::until("the default ServiceAccount exists", || namespace.get("serviceaccount/default"))?;
    Ok(namespace)
}

fn in_clear(packets: &[Vec<u8>]) -> bool {
    let marker = MARKER.as_bytes();
    packets.iter().any(|packet| packet.windows(marker.len()).any(|window| window == marker))
}

const PAGE: &str = "Hello from web.\n";
const MARKER: &str = "marker-of-the-request";
