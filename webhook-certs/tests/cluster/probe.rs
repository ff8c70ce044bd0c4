//! Trust probe of a webhook that cannot be called.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::port::free_port;
use e2e::wait;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use webhook_certs::authority::{Authority, Entropy, Lifetime};
use webhook_certs::bundle::Bundle;
use webhook_certs::secret::rotation_requests::{ROTATE, ROTATE_NOW};
use webhook_certs::status::Status;

use crate::deployer;
use crate::fixture::{Fixture, Replica};
use crate::reviewer::Reviewer;

pub(crate) async fn trust_probe_reports_why_the_webhook_is_not_called(
    mut fixture: Fixture<'_>,
) -> Result<()> {
    let parameters = &mut fixture.options.parameters;
    parameters.trust_probe = true;
    parameters.trust_probe_interval = Duration::from_millis(200);
    parameters.tick = Duration::from_millis(500);
    // Every change of the cause needs an Event.
    parameters.write_burst = 20;
    let mut replica = fixture.replica().await?;
    fixture.expose().await?;
    let reviewer = Reviewer::start(Arc::clone(&replica.certificate)).await?;
    fails(&fixture, &mut replica, "not_configured", "there is no webhook configuration").await?;

    // Only the right is missing.
    configure(&fixture, reviewer.port).await?;
    fails(&fixture, &mut replica, "forbidden", "cannot create resource").await?;
    fixture.allow_probes().await?;
    succeeds(&fixture, &mut replica).await?;

    let silent = TcpListener::bind("localhost:0").await?;
    configure(&fixture, silent.local_addr()?.port()).await?;
    fails(&fixture, &mut replica, "timeout", "deadline exceeded").await?;

    configure(&fixture, reviewer.port).await?;
    succeeds(&fixture, &mut replica).await?;

    drop(silent);
    configure(&fixture, free_port()?).await?;
    fails(&fixture, &mut replica, "no_endpoints", "connection refused").await?;

    configure(&fixture, reviewer.port).await?;
    succeeds(&fixture, &mut replica).await?;

    // The bundle stays broken because patches are forbidden.
    fixture.forbid_patches().await?;
    let lifetime = Lifetime::starting(Timestamp::now(), SignedDuration::from_hours(1));
    let other = Authority::create("sidecar-injector", 1, lifetime, Entropy::draw()?)?;
    apply_bundle(&fixture, &Bundle::new(other.ca().clone(), None)).await?;
    fails(&fixture, &mut replica, "untrusted", "x509: ").await?;
    apply_bundle(&fixture, &fixture.state().await?.bundle()).await?;
    succeeds(&fixture, &mut replica).await?;

    let services = Api::<Service>::namespaced(fixture.admin.clone(), &fixture.options.namespace);
    services.delete(&fixture.options.service, &DeleteParams::default()).await?;
    fails(&fixture, &mut replica, "no_endpoints", "not found").await?;
    ensure!(replica.certificate.is_loaded(), "nothing is served");
    let maps = Api::<ConfigMap>::namespaced(fixture.admin.clone(), &fixture.options.namespace);
    let left = maps.list(&kube::api::ListParams::default()).await?;
    let left: Vec<_> = left.iter().filter_map(|map| map.metadata.name.clone()).collect();
    ensure!(!left.iter().any(|name| name.contains("probe")), "left behind: {left:?}");
    Ok(())
}

/// The label was once the same in all revisions, and any failure counted as that of our entry.
pub(crate) async fn trust_probe_counts_only_failures_of_its_own_entry(
    mut fixture: Fixture<'_>,
) -> Result<()> {
    let parameters = &mut fixture.options.parameters;
    parameters.trust_probe = true;
    parameters.trust_probe_interval = Duration::from_millis(200);
    parameters.leaf_lifetime = SignedDuration::from_secs(8);
    parameters.propagation_delay = SignedDuration::from_secs(2);
    parameters.retire_delay = SignedDuration::from_secs(12);
    parameters.tick = Duration::from_millis(200);
    parameters.write_burst = 20;
    fixture.allow_probes().await?;
    fixture.expose().await?;
    let mut replica = fixture.replica().await?;
    let reviewer = Reviewer::start(Arc::clone(&replica.certificate)).await?;

    // An entry of an earlier version beside this program reviews nothing.
    let (name, service) = (fixture.options.namespace.clone(), fixture.options.service.clone());
    let of_earlier = json!({"matchLabels": {"outrigger.io/probe": "true"}});
    apply_entry(&fixture, &name, ENTRY, (&service, reviewer.port), of_earlier).await?;
    fails(&fixture, &mut replica, "not_configured", "`outrigger.io/probe=true` does not match")
        .await?;
    rotated(&fixture).await?;
    configure(&fixture, reviewer.port).await?;
    succeeds(&fixture, &mut replica).await?;

    // Another revision has an entry of the same name, and no Service.
    let other = format!("{name}-canary");
    let selector = json!({"matchLabels": {"outrigger.io/probe": "canary"}});
    apply_entry(&fixture, &other, ENTRY, ("canary", 443), selector).await?;
    let refusal = wait::until_async("the other revision's probe fails", async || {
        let created = create_dry(&fixture, "canary").await;
        created.err().context("it was accepted")
    })
    .await?;
    ensure!(refusal.to_string().contains("service \"canary\" not found"), "{refusal}");
    create_dry(&fixture, "default").await?;
    let status = replica.status.borrow_and_update().clone();
    ensure!(status.probe.is_some_and(|probe| probe.cause.is_none()), "it is ours that fails");
    rotated(&fixture).await?;

    // If it reviews our probe too, its failure still says nothing about our entry.
    apply_entry(&fixture, &other, ENTRY, ("canary", 443), json!({})).await?;
    let named =
        format!("another webhook, `{ENTRY}` at canary.{name}.svc, made the trust probe fail");
    fails(&fixture, &mut replica, "other", &named).await?;
    fixture.configurations().delete(&other, &DeleteParams::default()).await?;
    succeeds(&fixture, &mut replica).await?;

    let foreign = format!("{name}-foreign");
    let closed = free_port()?;
    apply_entry(&fixture, &foreign, "foreign.example.com", (&service, closed), json!({})).await?;
    let named = format!("another webhook, `foreign.example.com` at {service}.{name}.svc, made");
    fails(&fixture, &mut replica, "other", &named).await?;
    rotated(&fixture).await
}

/// Requests a new CA, and waits until it signs.
async fn rotated(fixture: &Fixture<'_>) -> Result<()> {
    let before = wait::until_async("no rotation is under way", async || {
        let state = fixture.state().await?;
        ensure!(state.phase.word() == "steady", "{state:?}");
        Ok(state)
    })
    .await?;
    let annotations = json!({"metadata": {"annotations": {ROTATE: ROTATE_NOW}}});
    let (secret, how) = (&fixture.options.secret_name, PatchParams::default());
    fixture.secrets().patch(secret, &how, &Patch::Merge(annotations)).await?;
    wait::until_async("the next CA signs", async || {
        let state = fixture.state().await?;
        ensure!(!state.active.ca().is_same_signer(before.active.ca()), "{state:?}");
        Ok(())
    })
    .await
}

/// Creates the object of a revision's probe.
async fn create_dry(fixture: &Fixture<'_>, revision: &str) -> kube::Result<ConfigMap> {
    let maps = Api::<ConfigMap>::namespaced(fixture.admin.clone(), &fixture.options.namespace);
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
    fixture: &Fixture<'_>,
    replica: &mut Replica,
    cause: &'static str,
    part: &str,
) -> Result<()> {
    let wanted =
        |status: &Status| status.probe.as_ref().is_some_and(|probe| probe.cause == Some(cause));
    let status = replica.until(&format!("the probe reports {cause}"), wanted).await?;
    let message = status.probe.context("there was no probe")?.message;
    ensure!(message.contains("; hint: "), "{message}");
    fixture.wait_for_event(&["TrustProbeFailed: ", part]).await.context(message)?;
    Ok(())
}

async fn succeeds(fixture: &Fixture<'_>, replica: &mut Replica) -> Result<()> {
    let wanted = |status: &Status| status.probe.as_ref().is_some_and(|probe| probe.cause.is_none());
    replica.until("the probe succeeds", wanted).await?;
    fixture.wait_for_event(&["TrustProbeSucceeded: "]).await?;
    Ok(())
}

/// Applies a configuration of one entry that reviews the probe of the default revision.
async fn configure(fixture: &Fixture<'_>, port: u16) -> Result<()> {
    let object_selector = json!({"matchLabels": {"outrigger.io/probe": "default"}});
    let name = &fixture.options.namespace;
    apply_entry(fixture, name, ENTRY, (&fixture.options.service, port), object_selector).await
}

/// Applies a configuration of one entry that reviews `ConfigMaps` of the namespace.
async fn apply_entry(
    fixture: &Fixture<'_>,
    configuration: &str,
    entry: &str,
    (service, port): (&str, u16),
    object_selector: Value,
) -> Result<()> {
    let namespace = &fixture.options.namespace;
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
            "timeoutSeconds": 5,
        }],
    });
    let how = PatchParams::apply("installer").force();
    fixture.configurations().patch(configuration, &how, &Patch::Apply(object)).await?;
    Ok(())
}

async fn apply_bundle(fixture: &Fixture<'_>, bundle: &Bundle) -> Result<()> {
    deployer::apply_bundle_to(fixture, &fixture.options.namespace, &[ENTRY], bundle).await
}

const ENTRY: &str = "probe.outrigger.io";
