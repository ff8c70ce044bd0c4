//! A25: what the trust probe says about a webhook that cannot be called.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::port::free_port;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use webhook_certs::authority::{Authority, Entropy, Lifetime};
use webhook_certs::bundle::Bundle;
use webhook_certs::requests::{ROTATE, ROTATE_NOW};
use webhook_certs::status::Status;

use crate::deployer;
use crate::reviewer::Reviewer;
use crate::stage::{Replica, Stage, eventually};

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

    drop(silent);
    configure(&stage, free_port()?).await?;
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
    let maps = Api::<ConfigMap>::namespaced(stage.admin.clone(), &stage.options.namespace);
    let left = maps.list(&kube::api::ListParams::default()).await?;
    let left: Vec<_> = left.iter().filter_map(|map| map.metadata.name.clone()).collect();
    ensure!(!left.iter().any(|name| name.contains("probe")), "left behind: {left:?}");
    Ok(())
}

/// The label used to be the same in all revisions, and any failure counted as that of the own entry.
pub(crate) async fn the_probe_counts_only_what_its_own_entry_fails_at(
    mut stage: Stage<'_>,
) -> Result<()> {
    let parameters = &mut stage.options.parameters;
    parameters.trust_probe = true;
    parameters.trust_probe_interval = Duration::from_millis(200);
    parameters.leaf_lifetime = SignedDuration::from_secs(4);
    parameters.propagation_delay = SignedDuration::from_secs(1);
    parameters.retire_delay = SignedDuration::from_secs(8);
    parameters.tick = Duration::from_millis(200);
    parameters.write_burst = 20;
    stage.allow_probes().await?;
    stage.expose().await?;
    let mut replica = stage.replica().await?;
    let reviewer = Reviewer::start(Arc::clone(&replica.certificate)).await?;

    // An entry of an earlier version beside this program reviews nothing.
    let (name, service) = (stage.options.namespace.clone(), stage.options.service.clone());
    let of_earlier = json!({"matchLabels": {"outrigger.io/probe": "true"}});
    apply_entry(&stage, &name, ENTRY, (&service, reviewer.port), of_earlier).await?;
    fails(&stage, &mut replica, "not_configured", "`outrigger.io/probe=true` leaves out").await?;
    rotated(&stage).await?;
    configure(&stage, reviewer.port).await?;
    succeeds(&stage, &mut replica).await?;

    // Another revision has an entry of the same name, and no Service.
    let other = format!("{name}-canary");
    let selector = json!({"matchLabels": {"outrigger.io/probe": "canary"}});
    apply_entry(&stage, &other, ENTRY, ("canary", 443), selector).await?;
    let refusal = eventually("the other revision's probe fails", async || {
        let created = create_dry(&stage, "canary").await;
        created.err().context("it was accepted")
    })
    .await?;
    ensure!(refusal.to_string().contains("service \"canary\" not found"), "{refusal}");
    create_dry(&stage, "default").await?;
    let status = replica.status.borrow_and_update().clone();
    ensure!(status.probe.is_some_and(|probe| probe.cause.is_none()), "it is ours that fails");
    rotated(&stage).await?;

    // Were it to review ours too, that would still say nothing of ours.
    apply_entry(&stage, &other, ENTRY, ("canary", 443), json!({})).await?;
    let named = format!("another webhook, `{ENTRY}` at canary.{name}.svc, kept the probe");
    fails(&stage, &mut replica, "other", &named).await?;
    stage.configurations().delete(&other, &DeleteParams::default()).await?;
    succeeds(&stage, &mut replica).await?;

    let foreign = format!("{name}-foreign");
    let closed = free_port()?;
    apply_entry(&stage, &foreign, "foreign.example.com", (&service, closed), json!({})).await?;
    let named = format!("another webhook, `foreign.example.com` at {service}.{name}.svc, kept");
    fails(&stage, &mut replica, "other", &named).await?;
    rotated(&stage).await
}

/// Asks for a new CA, and waits until it signs.
async fn rotated(stage: &Stage<'_>) -> Result<()> {
    let before = eventually("no rotation is under way", async || {
        let state = stage.state().await?;
        ensure!(state.phase.word() == "steady", "{state:?}");
        Ok(state)
    })
    .await?;
    let annotations = json!({"metadata": {"annotations": {ROTATE: ROTATE_NOW}}});
    let (secret, how) = (&stage.options.secret_name, PatchParams::default());
    stage.secrets().patch(secret, &how, &Patch::Merge(annotations)).await?;
    eventually("the next CA signs", async || {
        let state = stage.state().await?;
        ensure!(!state.active.ca().is_same_signer(before.active.ca()), "{state:?}");
        Ok(())
    })
    .await
}

/// Creates what the probe of a revision creates.
async fn create_dry(stage: &Stage<'_>, revision: &str) -> kube::Result<ConfigMap> {
    let maps = Api::<ConfigMap>::namespaced(stage.admin.clone(), &stage.options.namespace);
    let labels = [("outrigger.io/probe".to_owned(), revision.to_owned())].into();
    let map = ConfigMap {
        metadata: ObjectMeta {
            generate_name: Some("probe-".to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    maps.create(&PostParams { dry_run: true, ..PostParams::default() }, &map).await
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

/// Applies a configuration of one entry that reviews the probe of the default revision.
async fn configure(stage: &Stage<'_>, port: u16) -> Result<()> {
    let object_selector = json!({"matchLabels": {"outrigger.io/probe": "default"}});
    let name = &stage.options.namespace;
    apply_entry(stage, name, ENTRY, (&stage.options.service, port), object_selector).await
}

/// Applies a configuration of one entry that reviews `ConfigMaps` of the namespace.
async fn apply_entry(
    stage: &Stage<'_>,
    configuration: &str,
    entry: &str,
    (service, port): (&str, u16),
    object_selector: Value,
) -> Result<()> {
    let namespace = &stage.options.namespace;
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": configuration},
        "webhooks": [{
            "name": entry,
            "clientConfig": {"service": {"namespace": namespace, "name": service,
                                         "path": "/inject", "port": port}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                       "resources": ["configmaps"], "scope": "Namespaced"}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "objectSelector": object_selector,
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 1,
        }],
    });
    let how = PatchParams::apply("installer").force();
    stage.configurations().patch(configuration, &how, &Patch::Apply(object)).await?;
    Ok(())
}

async fn apply_bundle(stage: &Stage<'_>, bundle: &Bundle) -> Result<()> {
    deployer::apply_bundle_to(stage, &stage.options.namespace, &[ENTRY], bundle).await
}

const ENTRY: &str = "probe.outrigger.io";
