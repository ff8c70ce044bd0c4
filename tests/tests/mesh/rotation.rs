//! Rotation of certificates while a pod makes requests.

use std::net::IpAddr;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::Cluster;
use e2e::namespace::address_of;
use e2e::wait;

use crate::load::Load;

pub(crate) fn rotation_of_leaves_and_root_loses_no_request(cluster: &Cluster) -> Result<()> {
    let (shop, system) =
        (cluster.existing_namespace("shop"), cluster.existing_namespace("istio-system"));
    let load = Load::with_short_certificates(cluster)?;
    let mut pods = shop.pods("app=server")?;
    pods.extend(shop.pods("app=load")?);
    let addresses = pods.iter().map(address_of).collect::<Result<Vec<_>>>()?;
    let before: Vec<_> = addresses.iter().map(|pod| leaf(*pod)).collect::<Result<_>>()?;
    ensure!(before.iter().all(|leaf| leaf.issuer == before[0].issuer), "several CAs signed");
    system.kubectl(&["annotate", "secret", "pilot-discovery-ca", "outrigger.io/rotate=now"])?;
    let until = |what: &str, is_reached: fn(&Leaf, &Leaf) -> bool| {
        wait::until(what, || {
            for (pod, before) in addresses.iter().zip(&before) {
                let now = leaf(*pod)?;
                ensure!(is_reached(&now, before), "{pod}: {now:?}, before {before:?}");
            }
            anyhow::Ok(())
        })
    };
    until("each leaf is renewed", |now, before| now.serial != before.serial)?;
    load.continues("with renewed leaves")?;
    until("the new CA has signed each leaf", |now, before| now.issuer != before.issuer)?;
    load.continues("with leaves of the new CA")
}

#[derive(Debug)]
struct Leaf {
    issuer: String,
    serial: String,
}

/// Leaf that a pod's sidecar serves to other sidecars.
fn leaf(pod: IpAddr) -> Result<Leaf> {
    let connect = format!("{pod}:8080");
    let handshake = Command::new("openssl")
        .args(["s_client", "-connect", &connect, "-alpn", "istio", "-showcerts"])
        .stdin(Stdio::null())
        .output()
        .context("openssl s_client")?;
    // The server ends the connection later, since the client has no certificate.
    let mut show = Command::new("openssl")
        .args(["x509", "-noout", "-issuer", "-serial"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("openssl x509")?;
    std::io::Write::write_all(&mut show.stdin.take().context("no input")?, &handshake.stdout)?;
    let shown = String::from_utf8(show.wait_with_output()?.stdout)?;
    let value = |name: &str| {
        let mut lines = shown.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        value.with_context(|| format!("{pod} serves no certificate"))
    };
    Ok(Leaf { issuer: value("issuer=")?, serial: value("serial=")? })
}
