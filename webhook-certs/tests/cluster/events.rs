//! Kubernetes Events on the CA Secret.

use anyhow::{Context, Result, ensure};
use e2e::wait;
use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use webhook_certs::authority::{Authority, Entropy, Lifetime};
use webhook_certs::bundle::Bundle;
use webhook_certs::secret::rotation_requests::{ROTATE, ROTATE_NOW};
use webhook_certs::status::Status;

use crate::fixture::{Fixture, OURS, Replica};

pub(crate) async fn each_event_is_written_once_and_names_the_writer(
    mut fixture: Fixture<'_>,
) -> Result<()> {
    // Events have a write budget of the same size.
    fixture.options.parameters.write_burst = 20;
    fixture.configure(443).await?;
    let (mut one, mut two) = (fixture.replica().await?, fixture.replica().await?);
    fixture.published().await?;
    let trusted = |status: &Status| status.trusted && status.entries == OURS.len();
    one.until("the first is trusted", trusted).await?;
    two.until("the second is trusted", trusted).await?;
    fixture
        .wait_for_event(&["CACreated: the CA CN=sidecar-injector-ca 1 was made, valid until 20"])
        .await?;

    let (secrets, name) = (fixture.secrets(), &fixture.options.secret_name);
    let mut secret = secrets.get(name).await?;
    let garbage = k8s_openapi::ByteString(b"garbage".to_vec());
    secret.data = Some([("active.crt".to_owned(), garbage)].into());
    let argocd = PostParams { field_manager: Some("argocd".to_owned()), ..PostParams::default() };
    secrets.replace(name, &argocd, &secret).await?;
    let hint = format!("hint: to replace the CA, `kubectl annotate secret {name} ");
    fixture
        .wait_for_event(&["CASecretRestored: the Secret cannot be used: ", "`argocd`", &hint])
        .await?;

    let wanted = fixture.published().await?;
    for round in 0..6 {
        overwrite(&fixture, &Bundle::default()).await?;
        fixture.published().await?;
        // The replica that repairs it has seen it; the other may find it repaired.
        wait::until_async("one of them has seen it", async || {
            let of = |replica: &Replica| replica.status.borrow().overwrites.get("flux").copied();
            let most = of(&one).max(of(&two)).unwrap_or_default();
            ensure!(2 * most > round, "{most} in round {round}");
            Ok(())
        })
        .await?;
    }
    fixture
        .wait_for_event(&["CABundleContended: ", "was overwritten repeatedly within 10m by flux"])
        .await?;

    let lifetime = Lifetime::starting(Timestamp::now(), SignedDuration::from_hours(1));
    let foreign = Authority::create("other", 7, lifetime, Entropy::draw()?)?;
    overwrite(&fixture, &wanted.with([foreign.ca().clone()])).await?;
    fixture
        .wait_for_event(&["ForeignCA: ", "`CN=other-ca 7`, which neither the Secret nor "])
        .await?;
    one.until("it is counted", |status| status.foreign == 1).await?;

    let patch = json!({"metadata": {"annotations": {ROTATE: ROTATE_NOW}}});
    secrets.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    fixture
        .wait_for_event(&["CARotation: the CA CN=sidecar-injector-ca 3 is published beside "])
        .await?;

    // Both replicas saw all of it; each Event was written once.
    let events = fixture.events().await?;
    for reason in ["CACreated", "CASecretRestored", "CABundleContended", "ForeignCA", "CARotation"]
    {
        let count = events.iter().filter(|event| event.starts_with(reason)).count();
        ensure!(count == 1, "{reason} was written {count} times: {events:#?}");
    }
    Ok(())
}

pub(crate) async fn without_the_right_to_write_events_the_rest_works(
    fixture: Fixture<'_>,
) -> Result<()> {
    fixture.forbid_events().await?;
    fixture.configure(443).await?;
    let mut replica = fixture.replica().await?;
    fixture.published().await?;
    let denied = format!("create events in namespace {}", fixture.options.namespace);
    let status = replica
        .until("it reports the forbidden write", |status| {
            status.denied == [denied.clone()] && status.trusted && status.entries == OURS.len()
        })
        .await?;
    ensure!(status.last_error.is_none(), "{status:?}");
    let (secrets, name) = (fixture.secrets(), &fixture.options.secret_name);
    let mut secret = secrets.get(name).await?;
    secret.data = None;
    secrets.replace(name, &PostParams::default(), &secret).await?;
    replica.until("the Secret is restored", |status| status.generation == Some(2)).await?;
    ensure!(fixture.events().await?.is_empty(), "an Event was written");
    // There is no retry for a while.
    ensure!(fixture.denied_requests()? == 1, "{} requests", fixture.denied_requests()?);
    Ok(())
}

/// Writes the bundle of the first entry as a deployment tool does.
async fn overwrite(fixture: &Fixture<'_>, bundle: &Bundle) -> Result<()> {
    let pem = match bundle.to_pem() {
        empty if empty.is_empty() => "garbage".to_owned(),
        pem => pem,
    };
    let bundle = k8s_openapi::ByteString(pem.into_bytes());
    let patch = Patch::Apply(json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "webhooks": [{"name": OURS[0], "clientConfig": {"caBundle": bundle}}],
    }));
    let name = fixture.options.webhook_configurations.first().context("no configuration")?;
    fixture.configurations().patch(name, &PatchParams::apply("flux").force(), &patch).await?;
    Ok(())
}
