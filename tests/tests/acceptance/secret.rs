//! A Secret that is deleted, damaged or replaced while pods are created all the time.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use webhook_certs::authority::{Authority, Entropy, Lifetime};
use webhook_certs::secret::State;

use crate::load::Tally;
use crate::stage::{INSTALL, SECRET, Stage, eventually};

/// A6, A7
pub(crate) async fn a_deleted_emptied_damaged_or_foreign_secret_comes_back(
    stage: &mut Stage<'_>,
) -> Result<()> {
    // More than the number of consecutive faults, because a failed attempt of each of two replicas
    // counts.
    stage.flag("write-burst", "20");
    stage.install(2).await?;
    let original = stage.until_published().await?;
    let load = stage.load();
    let secrets = stage.secrets();
    let mut slowest = std::time::Duration::ZERO;
    for damage in ["deletion", "no data", "garbage", "another CA", "no annotations"] {
        load.until_admitted(50).await?;
        let mut secret = secrets.get(SECRET).await?;
        let before = stage.state().await?.generation;
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
        eventually("the Secret is back", async || {
            let state = stage.state().await.with_context(|| damage.to_owned())?;
            ensure!(state.active == original.active, "{damage}: another CA signs");
            ensure!(state.generation > before, "{damage}: generation {}", state.generation);
            Ok(())
        })
        .await?;
        slowest = slowest.max(begin.elapsed());
    }
    load.until_admitted(100).await?;
    let tally = load.stop().await?;
    stage.tell(&tally, &format!("back after {slowest:.1?} at most"))?;
    tally.expect_no_failure()?;
    let state = stage.until_published().await?;
    ensure!(state.active == original.active, "another CA signs");
    Ok(())
}

/// A11
pub(crate) async fn an_expired_ca_is_found_at_the_start(stage: &mut Stage<'_>) -> Result<()> {
    let past = Timestamp::now() - SignedDuration::from_hours(48);
    let lifetime = Lifetime::starting(past, SignedDuration::from_hours(24));
    let expired = Authority::create(INSTALL, 7, lifetime, Entropy::draw()?)?;
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": SECRET}}))?;
    let secret = State::new(expired.clone(), 7, past).write(secret);
    stage.secrets().create(&PostParams::default(), &secret).await?;
    stage.configure().await?;
    let begin = Instant::now();
    stage.start(2)?;
    stage.until_ready()?;
    stage.until_injected().await?;
    stage.tell(&Tally::default(), &format!("injecting after {:.1?}", begin.elapsed()))?;
    let signs = stage.state().await?.active.ca().clone();
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
