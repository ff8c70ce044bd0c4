//! A Secret that is deleted, damaged or replaced while pods are created all the time.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use e2e::wait;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use webhook_certs::authority::{Authority, Entropy, Lifetime};
use webhook_certs::secret::State;

use crate::fixture::{Fixture, INSTALL, SECRET};
use crate::load::Tally;

/// A6, A7
pub(crate) async fn deleted_or_damaged_secret_is_restored(fixture: &mut Fixture<'_>) -> Result<()> {
    // More than the number of consecutive faults, because a failed attempt of each of two replicas
    // counts.
    fixture.flag("write-burst", "20");
    fixture.install(2).await?;
    let original = fixture.until_published().await?;
    let load = fixture.load();
    let secrets = fixture.secrets();
    let mut slowest = std::time::Duration::ZERO;
    for damage in ["deletion", "no data", "garbage", "another CA", "no annotations"] {
        load.until_admitted(50).await?;
        let mut secret = secrets.get(SECRET).await?;
        let before = fixture.state().await?.generation;
        match damage {
            "no data" => secret.data = None,
            "garbage" => {
                let data = secret.data.as_mut().context("the Secret is empty")?;
                for value in data.values_mut() {
                    *value = ByteString(b"garbage".to_vec());
                }
            }
            "another CA" => secret = other(before)?.write(secret),
            "no annotations" => secret.metadata.annotations = None,
            _ => {}
        }
        let begin = Instant::now();
        if damage == "deletion" {
            secrets.delete(SECRET, &DeleteParams::default()).await?;
        } else {
            secrets.replace(SECRET, &PostParams::default(), &secret).await?;
        }
        wait::until_async("the Secret is back", async || {
            let state = fixture.state().await.with_context(|| damage.to_owned())?;
            ensure!(state.active == original.active, "{damage}: another CA signs");
            ensure!(state.generation > before, "{damage}: generation {}", state.generation);
            Ok(())
        })
        .await?;
        slowest = slowest.max(begin.elapsed());
    }
    load.until_admitted(100).await?;
    let tally = load.stop().await?;
    fixture.tell(&tally, &format!("back after {slowest:.1?} at most"))?;
    tally.expect_no_failure()?;
    let state = fixture.until_published().await?;
    ensure!(state.active == original.active, "another CA signs");
    Ok(())
}

/// A11
pub(crate) async fn expired_ca_is_replaced_at_startup(fixture: &mut Fixture<'_>) -> Result<()> {
    let past = Timestamp::now() - SignedDuration::from_hours(48);
    let lifetime = Lifetime::starting(past, SignedDuration::from_hours(24));
    let expired = Authority::create(INSTALL, 7, lifetime, Entropy::draw()?)?;
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": SECRET}}))?;
    let secret = State::new(expired.clone(), 7, past).write(secret);
    fixture.secrets().create(&PostParams::default(), &secret).await?;
    fixture.configure().await?;
    let begin = Instant::now();
    fixture.start(2)?;
    fixture.until_ready()?;
    fixture.until_injected().await?;
    fixture.tell(&Tally::default(), &format!("injecting after {:.1?}", begin.elapsed()))?;
    let signs = fixture.state().await?.active.ca().clone();
    ensure!(signs.is_valid_at(Timestamp::now()), "the expired CA signs");
    Ok(())
}

/// Returns the state of a Secret from another installation.
fn other(generation: u64) -> Result<State> {
    let now = Timestamp::now();
    let lifetime = Lifetime::starting(now, SignedDuration::from_hours(24));
    let authority = Authority::create("somebody", generation, lifetime, Entropy::draw()?)?;
    Ok(State::new(authority, generation, now))
}
