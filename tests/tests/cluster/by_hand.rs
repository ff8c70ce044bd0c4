//! `istioctl kube-inject -f FILE | kubectl apply -f -`.

use std::process::Command;

use anyhow::{Result, ensure};
use e2e::namespace::Namespace;
use e2e::programs::{Programs, repository};
use serde_json::Value;

use crate::stage::{Stage, manifest};

pub(crate) fn by_hand_equals_automatic(stage: &Stage) -> Result<()> {
    let cluster = stage.cluster_with_injector()?;
    let automatic = cluster.namespace("automatic", &["istio-injection=enabled"])?;
    automatic.apply(&manifest("examples/web.yaml")?)?;
    automatic.wait_until_available("web")?;

    let by_hand = cluster.namespace("by-hand", &[])?;
    by_hand.apply(&kube_inject("manifests/examples/web.yaml")?)?;
    by_hand.wait_until_available("web")?;

    assert_eq!(comparable(&by_hand)?, comparable(&automatic)?);
    automatic.delete()?;
    by_hand.delete()
}

fn kube_inject(path: &str) -> Result<String> {
    let mut istioctl = Command::new(Programs::find()?.own("istioctl")?);
    let output = istioctl
        .env("ENABLE_NATIVE_SIDECARS", "true")
        .args(["kube-inject", "-f"])
        .arg(repository().join(path))
        .output()?;
    ensure!(output.status.success(), "istioctl: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// The pod specification without what differs for a reason.
fn comparable(namespace: &Namespace<'_>) -> Result<String> {
    let mut pod = namespace.pod("app=web")?;
    let spec = &mut pod["spec"];
    // The volume of the ServiceAccount token has a random name.
    let random = spec["volumes"].as_array().and_then(|volumes| {
        let names = volumes.iter().filter_map(|volume| volume["name"].as_str());
        names.into_iter().find(|name| name.starts_with("kube-api-access-")).map(str::to_owned)
    });
    // By hand the namespace is not known yet: the file does not say it.
    let owner = proxy_variable(spec, "ISTIO_META_OWNER");
    if let Some(owner) = owner {
        let at = format!("/namespaces/{}/", namespace.name());
        let text = owner.as_str().unwrap_or_default().replace(&at, "/namespaces/default/");
        *owner = Value::from(text);
    }
    let text = format!("{spec:#}");
    Ok(random.map_or(text.clone(), |random| text.replace(&random, "kube-api-access")))
}

fn proxy_variable<'a>(spec: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    let containers = spec["initContainers"].as_array_mut()?;
    let proxy = containers.iter_mut().find(|container| container["name"] == "istio-proxy")?;
    let variables = proxy["env"].as_array_mut()?;
    variables.iter_mut().find(|variable| variable["name"] == name)?.get_mut("value")
}
