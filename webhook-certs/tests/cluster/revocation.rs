//! Revocations in each phase of a rotation, while an API server calls the webhook all the time.
//!
//! The retire delay is an hour, so that nothing but a revocation drops a CA.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::wait;
use jiff::SignedDuration;
use kube::api::{DeleteParams, PostParams};
use webhook_certs::authority::Authority;
use webhook_certs::bundle::{Bundle, TrustedCa};
use webhook_certs::secret::State;
use webhook_certs::secret::ca_numbers::CaNumbers;
use webhook_certs::secret::rotation_requests::{REVOKE, RotationRequests};
use webhook_certs::status::Status;

use crate::deployer::apply_bundle;
use crate::fixture::{Fixture, OURS, Replica};
use crate::reviewer::Reviewer;
use crate::rotation::{ask_for_rotation, hasten, in_service, shrunk, under_load, until_phase};

pub(crate) async fn revocation_in_each_phase_fails_no_call(mut fixture: Fixture<'_>) -> Result<()> {
    hasten(&mut fixture);
    let parameters = &mut fixture.options.parameters;
    parameters.propagation_delay = SignedDuration::from_secs(3);
    parameters.retire_delay = SignedDuration::from_hours(1);
    let (mut one, mut two) = (fixture.replica().await?, fixture.replica().await?);
    let reviewers = [
        Reviewer::start(Arc::clone(&one.certificate)).await?,
        Reviewer::start(Arc::clone(&two.certificate)).await?,
    ];
    fixture.expose().await?;
    fixture.configure_each(reviewers[0].port, reviewers[1].port).await?;
    in_service(&fixture).await?;
    let (revoked, calls) = under_load(&fixture, async {
        let mut revoked = in_steady_and_prepared(&fixture).await?;
        revoked.extend(of_the_one_that_retires(&fixture, [&mut one, &mut two]).await?);
        revoked.extend(in_activated(&fixture).await?);
        anyhow::Ok(revoked)
    })
    .await?;
    ensure!(calls > 50, "only {calls} calls");
    let secret = fixture.secrets().get(&fixture.options.secret_name).await?;
    let asked = secret.metadata.annotations.unwrap_or_default();
    ensure!(!asked.contains_key(REVOKE), "a request stands");

    // A bundle reverted to one with a revoked CA gets no grace period.
    let state = shrunk(&fixture).await?;
    ensure!(revoked.iter().all(|ca| state.revoked.holds(ca)), "{:?}", state.revoked);
    let back = revoked.last().context("nothing was revoked")?;
    apply_bundle(&fixture, &state.bundle().with([back.clone()])).await?;
    shrunk(&fixture).await?;
    Ok(())
}

type Cas = Vec<TrustedCa>;

async fn in_steady_and_prepared(fixture: &Fixture<'_>) -> Result<Cas> {
    let steady = revoke(fixture, "steady", |state| vec![&state.active]).await?;
    gone(fixture, &steady).await?;
    until_phase(fixture, "steady").await?;

    ask_for_rotation(fixture).await?;
    let next =
        revoke(fixture, "prepared", |state| state.phase.other().into_iter().collect()).await?;
    gone(fixture, &next).await?;
    fixture
        .wait_for_event(&["CARotation: the CA ", next[0].name(), " is trusted no longer, as it is"])
        .await?;
    // The requested rotation continues with another CA.
    let state = until_phase(fixture, "activated").await?;
    ensure!(!state.active.ca().is_same_signer(&next[0]), "the revoked one signs");
    Ok([steady, next].concat())
}

async fn of_the_one_that_retires(
    fixture: &Fixture<'_>,
    replicas: [&mut Replica; 2],
) -> Result<Cas> {
    let retiring = revoke(fixture, "activated", |state| state.phase.other().into_iter().collect());
    let retiring = retiring.await?;
    // Requests outlive the Secret.
    let knows = |status: &Status| !status.revocations.is_empty() || status.phase == Some("steady");
    for replica in replicas {
        replica.until("it knows of the revocation", knows).await?;
    }
    fixture.secrets().delete(&fixture.options.secret_name, &DeleteParams::default()).await?;
    gone(fixture, &retiring).await?;
    let what = " (retiring) is revoked: it is dropped when all replicas have known of it for 3s";
    fixture.wait_for_event(&["CARevocation: the CA ", retiring[0].name(), what]).await?;
    until_phase(fixture, "steady").await?;

    ask_for_rotation(fixture).await?;
    let active = revoke(fixture, "prepared", |state| vec![&state.active]).await?;
    gone(fixture, &active).await?;
    until_phase(fixture, "steady").await?;
    Ok([retiring, active].concat())
}

async fn in_activated(fixture: &Fixture<'_>) -> Result<Cas> {
    ask_for_rotation(fixture).await?;
    let before = until_phase(fixture, "activated").await?;
    let old = before.phase.other().context("nothing retires")?.ca().clone();
    let active = revoke(fixture, "activated", |state| vec![&state.active]).await?;
    fixture.wait_for_event(&["CARotation: the CA ", old.name(), " signs again, as "]).await?;
    gone(fixture, &active).await?;
    // The first request is carried out after all.
    let both = revoke(fixture, "activated", |state| {
        state.phase.other().into_iter().chain([&state.active]).collect()
    })
    .await?;
    ensure!(both.contains(&old), "{both:?}");
    gone(fixture, &both).await?;
    until_phase(fixture, "steady").await?;
    Ok([active, both].concat())
}

/// Revokes CAs while the Secret is in the phase, and returns them.
async fn revoke(
    fixture: &Fixture<'_>,
    phase: &str,
    which: impl Fn(&State) -> Vec<&Authority>,
) -> Result<Cas> {
    let (secrets, name) = (fixture.secrets(), &fixture.options.secret_name);
    wait::until_async(&format!("it is {phase} and revoked"), async || {
        let mut secret = secrets.get(name).await?;
        let state = State::parse(&secret)?;
        ensure!(state.phase.word() == phase, "{state:?}");
        let cas: Cas = which(&state).into_iter().map(|it| it.ca().clone()).collect();
        let numbers: CaNumbers = cas.iter().filter_map(TrustedCa::generation).collect();
        let annotations = secret.metadata.annotations.get_or_insert_default();
        annotations.insert(REVOKE.to_owned(), numbers.to_string());
        // Fails on a conflict, and is repeated.
        let written = secrets.replace(name, &PostParams::default(), &secret).await?;
        ensure!(RotationRequests::revoked_at(&written).is_some(), "its instant is unknown");
        Ok(cas)
    })
    .await
}

/// Waits until neither the Secret nor any entry holds the CAs.
async fn gone(fixture: &Fixture<'_>, cas: &Cas) -> Result<()> {
    wait::until_async(&format!("{cas:?} have gone"), async || {
        let state = fixture.state().await?;
        let bundles = fixture.bundles().await?;
        for ca in cas {
            ensure!(!state.knows(ca), "the Secret holds it: {state:?}");
            ensure!(state.revoked.holds(ca), "it is not noted: {state:?}");
            for entry in OURS {
                let bundle = bundles.get(entry).cloned().flatten().unwrap_or_default();
                let bundle = Bundle::observed(&bundle);
                ensure!(!bundle.certificates().contains(ca), "{entry}: {bundle:?}");
            }
        }
        Ok(())
    })
    .await
}
