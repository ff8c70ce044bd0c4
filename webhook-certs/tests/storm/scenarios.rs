//! Scenarios of two replicas under continuous calls.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use e2e::random::Random;
use e2e::wait;
use jiff::SignedDuration;
use webhook_certs::secret::State;
use webhook_certs::status::Status;

use crate::calls::Tally;
use crate::faults::{DAMAGES, Revoked, add_foreign, ask, damage};
use crate::fixture::{Fixture, OURS, Replica};
use crate::reviewer::Reviewer;

/// Two replicas, each behind its own entry, so that every call reaches both.
struct Pair {
    replicas: [Replica; 2],
    reviewers: [Reviewer; 2],
}

impl Pair {
    async fn start(fixture: &Fixture<'_>) -> Result<Self> {
        let replicas = [fixture.replica_of(0).await?, fixture.replica_of(1).await?];
        let reviewers = [
            Reviewer::start(Arc::clone(&replicas[0].certificate)).await?,
            Reviewer::start(Arc::clone(&replicas[1].certificate)).await?,
        ];
        fixture.expose().await?;
        fixture.configure_each(reviewers[0].port, reviewers[1].port).await?;
        fixture.published().await?;
        wait::until_async("calls succeed", async || fixture.create_reviewed("first").await).await?;
        Ok(Self { replicas, reviewers })
    }

    /// Stops a replica at any point; the other one takes its calls until the new one is ready.
    async fn replace(&mut self, fixture: &Fixture<'_>, index: usize) -> Result<()> {
        self.reviewers[index].show(Arc::clone(&self.replicas[1 - index].certificate));
        self.replicas[index] = fixture.replica_of(index).await?;
        let ready = |status: &Status| status.trusted && status.entries == OURS.len();
        self.replicas[index].until("the new one is ready", ready).await?;
        // Endpoints are updated with a delay.
        tokio::time::sleep(ENDPOINTS_TAKE).await;
        self.reviewers[index].show(Arc::clone(&self.replicas[index].certificate));
        Ok(())
    }
}

/// Random steps; the seed determines their order.
#[expect(clippy::print_stderr, reason = "needed to repeat a failure")]
pub(crate) async fn storm(mut fixture: Fixture<'_>, seed: u64, steps: usize) -> Result<()> {
    let mut random = Random::new(seed, "storm");
    hasten(&mut fixture, SignedDuration::from_secs(random.pick(&[20, 30, 36_000])));
    let mut pair = Pair::start(&fixture).await?;
    let work = async |tally: &Tally| {
        let mut copies: Vec<State> = vec![fixture.state().await?];
        for step in 0..steps {
            let begin = Instant::now();
            let what = take_step(&fixture, &mut pair, &mut random, &copies).await;
            let what = what.with_context(|| format!("step {step}"))?;
            tokio::time::sleep(Duration::from_millis(random.roll(2500))).await;
            tally.expect_no_failure(begin).with_context(|| {
                let before = copies.last().map(|state| state.phase.word());
                format!(
                    "seed {seed}, step {step}: {what}, begun {:?} ago in {before:?}",
                    begin.elapsed()
                )
            })?;
            if let Ok(state) = fixture.state().await {
                eprintln!("storm {seed}: {step} {what}: {} {}", state.generation, state.phase);
                copies.push(state);
            }
        }
        let end = Instant::now();
        for replica in &mut pair.replicas {
            let calm = |status: &Status| status.trusted && status.last_error.is_none();
            replica.until("everything is right", calm).await?;
        }
        fixture.published().await?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        tally.expect_no_failure(end).context("in the calm after it")
    };
    let tally = under_calls(&fixture, work).await.with_context(|| format!("seed {seed}"))?;
    eprintln!("storm {seed}: {steps} steps, {} calls, none failed", tally.admitted());
    Ok(())
}

async fn take_step(
    fixture: &Fixture<'_>,
    pair: &mut Pair,
    random: &mut Random,
    copies: &[State],
) -> Result<String> {
    let which = usize::try_from(random.roll(2))?;
    Ok(match random.roll(10) {
        0 | 1 => {
            let (rotate, revoke) = random.pick(&[
                (true, Revoked::None),
                (false, Revoked::Active),
                (true, Revoked::Active),
                (false, Revoked::Other),
                (true, Revoked::Other),
                (false, Revoked::Both),
            ]);
            // A damaged Secret cannot be annotated.
            let asked = ask(fixture, rotate, revoke).await.is_ok();
            format!("rotate {rotate}, revoke {revoke:?}, asked {asked}")
        }
        2 | 3 => {
            pair.replace(fixture, which).await?;
            format!("replica {which} replaced")
        }
        4..=6 => {
            let kind = random.pick(&DAMAGES);
            let copy = &copies[usize::try_from(random.roll(copies.len() as u64))?];
            let done = damage(fixture, kind, copy).await.is_ok();
            let both = random.roll(3) == 0;
            if both {
                pair.replace(fixture, which).await?;
            }
            format!("Secret {kind:?}, done {done}, replica {which} replaced {both}")
        }
        7 => {
            let count = 1 + random.roll(8);
            add_foreign(fixture, count).await?;
            format!("{count} foreign CAs")
        }
        8 => {
            let pause = Duration::from_millis(200 + random.roll(1000));
            if random.roll(3) == 0 {
                fixture.server.pause_store()?;
                tokio::time::sleep(pause).await;
                fixture.server.resume_store()?;
                format!("the store stopped for {pause:?}")
            } else {
                fixture.server.pause(which)?;
                tokio::time::sleep(pause).await;
                fixture.server.resume(which)?;
                format!("API server {which} stopped for {pause:?}")
            }
        }
        _ => {
            add_foreign(fixture, 0).await?;
            "bundles owned by another writer too".to_owned()
        }
    })
}

async fn under_calls(
    fixture: &Fixture<'_>,
    work: impl AsyncFnOnce(&Tally) -> Result<()>,
) -> Result<Tally> {
    let tally = Tally::default();
    let admins = [fixture.server.admin(0).await?, fixture.server.admin(1).await?];
    let [one, two] = admins;
    let namespace = &fixture.options.namespace;
    wait::until_async("the second API server calls too", async || {
        let namespace = namespace.clone();
        fixture.create_reviewed_by(two.clone(), &namespace).await
    })
    .await?;
    {
        let one = tally.call(0, one, namespace);
        let two = tally.call(1, two.clone(), namespace);
        let (one, two, work) = (pin!(one), pin!(two), pin!(work(&tally)));
        // The calls never end by themselves.
        tokio::select! {
            done = work => done?,
            never = one => match never {},
            never = two => match never {},
        }
    }
    Ok(tally)
}

/// Shortens days to seconds.
fn hasten(fixture: &mut Fixture<'_>, authority_lifetime: SignedDuration) {
    let parameters = &mut fixture.options.parameters;
    parameters.authority_lifetime = authority_lifetime;
    parameters.leaf_lifetime = SignedDuration::from_secs(8);
    parameters.propagation_delay = SignedDuration::from_secs(2);
    parameters.retire_delay = SignedDuration::from_secs(12);
    parameters.tick = Duration::from_millis(200);
    parameters.write_burst = 200;
    parameters.write_interval = SignedDuration::from_secs(1);
}

const ENDPOINTS_TAKE: Duration = Duration::from_millis(500);
