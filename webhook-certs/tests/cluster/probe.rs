//! A25: what the trust probe says about a webhook that cannot be called.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::net::TcpListener;
use webhook_certs::authority::{Authority, Entropy, Lifetime};
use webhook_certs::bundle::Bundle;
use webhook_certs::status::Status;

use crate::deployer;
use crate::reviewer::Reviewer;
use crate::stage::{Replica, Stage};

pub(crate) async fn the_probe_tells_why_the_api_server_does_not_call_the_webhook(
    mut stage: Stage<'_>,
) -> Result<()> {
    let parameters = &mut stage.options.parameters;
    parameters.trust_probe = true;
    parameters.trust_probe_interval = Duration::from_millis(200);
    parameters.tick = Duration::from_millis(500);
    // Every change of the cause is told.
    parameters.write_burst = 20;
    let mut replica = stage.replica().await?;
    stage.expose().await?;
    let reviewer = Reviewer::start(Arc::clone(&replica.certificate)).await?;
    fails(&stage, &mut replica, "not_configured", "there is no webhook configuration").await?;

    // Everything is in order but the right.
    configure(&stage, reviewer.port).await?;
    fails(&stage, &mut replica, "forbidden", "cannot create resource").await?;
    stage.allow_probes().await?;
    succeeds(&stage, &mut replica).await?;

    let silent = TcpListener::bind("localhost:0").await?;
    configure(&stage, silent.local_addr()?.port()).await?;
    fails(&stage, &mut replica, "timeout", "deadline exceeded").await?;

    configure(&stage, reviewer.port).await?;
    succeeds(&stage, &mut replica).await?;

    // Nobody listens on a port that was bound and closed.
    drop(silent);
    let closed = TcpListener::bind("localhost:0").await?.local_addr()?.port();
    configure(&stage, closed).await?;
    fails(&stage, &mut replica, "no_endpoints", "connection refused").await?;

    configure(&stage, reviewer.port).await?;
    succeeds(&stage, &mut replica).await?;

    // A bundle that is not repaired, because that is forbidden.
    stage.forbid_patches().await?;
    let lifetime = Lifetime::starting(Timestamp::now(), SignedDuration::from_hours(1));
    let other = Authority::create("sidecar-injector", 1, lifetime, Entropy::draw()?)?;
    apply_bundle(&stage, &Bundle::new(other.ca().clone(), None)).await?;
    fails(&stage, &mut replica, "untrusted", "x509: ").await?;
    apply_bundle(&stage, &stage.state().await?.bundle()).await?;
    succeeds(&stage, &mut replica).await?;

    let services = Api::<Service>::namespaced(stage.admin.clone(), &stage.options.namespace);
    services.delete(&stage.options.service, &DeleteParams::default()).await?;
    fails(&stage, &mut replica, "no_endpoints", "not found").await?;
    ensure!(replica.certificate.is_loaded(), "nothing is served");
    let maps = Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(
        stage.admin.clone(),
        &stage.options.namespace,
    );
    let left = maps.list(&kube::api::ListParams::default()).await?;
    let left: Vec<_> = left.iter().filter_map(|map| map.metadata.name.clone()).collect();
    ensure!(!left.iter().any(|name| name.contains("probe")), "left behind: {left:?}");
    Ok(())
}

/// Waits until the status and an Event name the cause.
async fn fails(
    stage: &Stage<'_>,
    replica: &mut Replica,
    cause: &'static str,
    part: &str,
) -> Result<()> {
    let wanted =
        |status: &Status| status.probe.as_ref().is_some_and(|probe| probe.cause == Some(cause));
    let status = replica.until(&format!("the probe tells {cause}"), wanted).await?;
    let message = status.probe.context("there was no probe")?.message;
    ensure!(message.contains("; hint: "), "{message}");
    stage.told(&["TrustProbeFailed: ", part]).await.context(message)?;
    Ok(())
}

async fn succeeds(stage: &Stage<'_>, replica: &mut Replica) -> Result<()> {
    let wanted = |status: &Status| status.probe.as_ref().is_some_and(|probe| probe.cause.is_none());
    replica.until("the probe succeeds", wanted).await?;
    stage.told(&["TrustProbeSucceeded: "]).await?;
    Ok(())
}

/// Applies a configuration of one entry that reviews the probe.
async fn configure(stage: &Stage<'_>, port: u16) -> Result<()> {
    let namespace = &stage.options.namespace;
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": namespace},
        "webhooks": [{
            "name": ENTRY,
            "clientConfig": {"service": {"namespace": namespace, "name": stage.options.service,
                                         "path": "/inject", "port": port}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                       "resources": ["configmaps"], "scope": "Namespaced"}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "objectSelector": {"matchLabels": {"outrigger.io/probe": "true"}},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 1,
        }],
    });
    let how = PatchParams::apply("installer");
    stage.configurations().patch(namespace, &how, &Patch::Apply(configuration)).await?;
    Ok(())
}

async fn apply_bundle(stage: &Stage<'_>, bundle: &Bundle) -> Result<()> {
    deployer::apply_bundle_to(stage, &stage.options.namespace, &[ENTRY], bundle).await
}

const ENTRY: &str = "probe.outrigger.io";
