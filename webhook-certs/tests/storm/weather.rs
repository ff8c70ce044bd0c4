//! The replicas and the calls, and what they have to stand.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::SignedDuration;
use webhook_certs::secret::State;
use webhook_certs::status::Status;

use crate::calls::Tally;
use crate::deployer::apply_bundle;
use crate::dice::Dice;
use crate::faults::{DAMAGES, Revoked, add_foreign, ask, damage};
use crate::reviewer::Reviewer;
use crate::stage::{OURS, Replica, Stage, eventually};

/// Two replicas, each behind an entry of its own, so that every call goes to both.
struct Pair {
    replicas: [Replica; 2],
    reviewers: [Reviewer; 2],
}

impl Pair {
    async fn start(stage: &Stage<'_>) -> Result<Self> {
        let replicas = [stage.replica_of(0).await?, stage.replica_of(1).await?];
        let reviewers = [
            Reviewer::start(Arc::clone(&replicas[0].certificate)).await?,
            Reviewer::start(Arc::clone(&replicas[1].certificate)).await?,
        ];
        stage.expose().await?;
        stage.configure_each(reviewers[0].port, reviewers[1].port).await?;
        stage.published().await?;
        eventually("calls succeed", async || stage.create_reviewed("first").await).await?;
        Ok(Self { replicas, reviewers })
    }

    /// Ends one at whatever it is doing; the other one takes its calls until there is a new one
    /// that is ready.
    async fn replace(&mut self, stage: &Stage<'_>, index: usize) -> Result<()> {
        self.reviewers[index].show(Arc::clone(&self.replicas[1 - index].certificate));
        self.replicas[index] = stage.replica_of(index).await?;
        let ready = |status: &Status| status.trusted && status.entries == OURS.len();
        self.replicas[index].until("the new one is ready", ready).await?;
        // Until endpoints are known, a while goes by.
        tokio::time::sleep(ENDPOINTS_TAKE).await;
        self.reviewers[index].show(Arc::clone(&self.replicas[index].certificate));
        Ok(())
    }
}

/// Steps in an order that the seed gives.
#[expect(clippy::print_stderr, reason = "whoever repeats it needs the steps and the figures")]
pub(crate) async fn storm(mut stage: Stage<'_>, seed: u64, steps: u64) -> Result<()> {
    let mut dice = Dice::of(seed);
    hasten(&mut stage, SignedDuration::from_secs(dice.pick(&[60, 90, 36_000])));
    let mut pair = Pair::start(&stage).await?;
    let work = async |tally: &Tally| {
        let mut copies: Vec<State> = vec![stage.state().await?];
        for step in 0..steps {
            let begin = Instant::now();
            let what = take_step(&stage, &mut pair, &mut dice, &copies).await;
            let what = what.with_context(|| format!("step {step}"))?;
            tokio::time::sleep(Duration::from_millis(dice.roll(2500))).await;
            tally.expect_no_failure(begin).with_context(|| {
                let before = copies.last().map(|state| state.phase.word());
                format!(
                    "seed {seed}, step {step}: {what}, begun {:?} ago in {before:?}",
                    begin.elapsed()
                )
            })?;
            if let Ok(state) = stage.state().await {
                eprintln!("storm {seed}: {step} {what}: {} {}", state.generation, state.phase);
                copies.push(state);
            }
        }
        let end = Instant::now();
        for replica in &mut pair.replicas {
            let calm = |status: &Status| status.trusted && status.last_error.is_none();
            replica.until("everything is right", calm).await?;
        }
        stage.published().await?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        tally.expect_no_failure(end).context("in the calm after it")
    };
    let tally = under_calls(&stage, work).await.with_context(|| format!("seed {seed}"))?;
    eprintln!("storm {seed}: {steps} steps, {} calls, none failed", tally.admitted());
    Ok(())
}

async fn take_step(
    stage: &Stage<'_>,
    pair: &mut Pair,
    dice: &mut Dice,
    copies: &[State],
) -> Result<String> {
    let which = usize::try_from(dice.roll(2))?;
    Ok(match dice.roll(10) {
        0 | 1 => {
            let (rotate, revoke) = dice.pick(&[
                (true, Revoked::Nobody),
                (false, Revoked::Active),
                (true, Revoked::Active),
                (false, Revoked::Other),
                (true, Revoked::Other),
                (false, Revoked::Both),
            ]);
            // A Secret that is damaged at this moment is asked for nothing.
            let asked = ask(stage, rotate, revoke).await.is_ok();
            format!("rotate {rotate}, revoke {revoke:?}, asked {asked}")
        }
        2 | 3 => {
            pair.replace(stage, which).await?;
            format!("replica {which} replaced")
        }
        4..=6 => {
            let kind = dice.pick(&DAMAGES);
            let copy = &copies[usize::try_from(dice.roll(copies.len() as u64))?];
            let done = damage(stage, kind, copy).await.is_ok();
            let both = dice.roll(3) == 0;
            if both {
                pair.replace(stage, which).await?;
            }
            format!("Secret {kind:?}, done {done}, replica {which} replaced {both}")
        }
        7 => {
            let count = 1 + dice.roll(8);
            add_foreign(stage, count).await?;
            format!("{count} foreign CAs")
        }
        8 => {
            let pause = Duration::from_millis(200 + dice.roll(1000));
            if dice.roll(3) == 0 {
                stage.server.pause_store()?;
                tokio::time::sleep(pause).await;
                stage.server.resume_store()?;
                format!("the store stopped for {pause:?}")
            } else {
                stage.server.pause(which)?;
                tokio::time::sleep(pause).await;
                stage.server.resume(which)?;
                format!("API server {which} stopped for {pause:?}")
            }
        }
        _ => {
            add_foreign(stage, 0).await?;
            "bundles owned by somebody else too".to_owned()
        }
    })
}

/// A deployment tool that writes the bundle of before a rotation, ten times a second and for ever.
#[expect(clippy::print_stderr, reason = "figures are for people")]
pub(crate) async fn siege(mut stage: Stage<'_>) -> Result<()> {
    hasten(&mut stage, SignedDuration::from_hours(10));
    stage.options.parameters.write_burst = 5;
    stage.options.parameters.write_interval = SignedDuration::from_secs(5);
    let _pair = Pair::start(&stage).await?;
    let old = stage.state().await?;
    let work = async |tally: &Tally| {
        let begin = Instant::now();
        ask(&stage, true, Revoked::Nobody).await?;
        // While it is published, it is never published for long enough.
        until_phase(&stage, "prepared").await?;
        let besieged = Instant::now();
        while besieged.elapsed() < Duration::from_secs(6) {
            apply_bundle(&stage, &old.bundle()).await?;
            tokio::time::sleep(BETWEEN_REVERTS).await;
        }
        tally.expect_no_failure(begin).context("before the activation")?;
        ensure!(stage.state().await?.phase.word() == "prepared", "the next CA signs");
        until_phase(&stage, "activated").await?;
        // This takes the CA that signs away, so that calls may fail until the replicas know it.
        apply_bundle(&stage, &old.bundle()).await?;
        tokio::time::sleep(REPLICAS_LOOK).await;
        let begin = Instant::now();
        let retire = stage.options.parameters.retire_delay.unsigned_abs();
        while begin.elapsed() < retire.mul_f64(2.2) {
            apply_bundle(&stage, &old.bundle()).await?;
            tokio::time::sleep(BETWEEN_REVERTS).await;
        }
        tally.expect_no_failure(begin).context("after the activation")?;
        let state = stage.state().await?;
        ensure!(state.phase.word() == "activated", "{:?}", state.phase);
        // When they give up, the rotation comes to its end.
        until_phase(&stage, "steady").await?;
        stage.published().await?;
        tally.expect_no_failure(begin).context("when it was over")
    };
    let tally = under_calls(&stage, work).await?;
    eprintln!("siege: {} calls, none failed", tally.admitted());
    Ok(())
}

async fn under_calls(
    stage: &Stage<'_>,
    work: impl AsyncFnOnce(&Tally) -> Result<()>,
) -> Result<Tally> {
    let tally = Tally::default();
    let admins = [stage.server.admin(0).await?, stage.server.admin(1).await?];
    let [one, two] = admins;
    let namespace = &stage.options.namespace;
    eventually("the second API server calls too", async || {
        let namespace = namespace.clone();
        stage.create_reviewed_by(two.clone(), &namespace).await
    })
    .await?;
    {
        let one = tally.call(0, one, namespace);
        let two = tally.call(1, two.clone(), namespace);
        let (one, two, work) = (pin!(one), pin!(two), pin!(work(&tally)));
        // Calls never end.
        tokio::select! {
            done = work => done?,
            never = one => match never {},
            never = two => match never {},
        }
    }
    Ok(tally)
}

async fn until_phase(stage: &Stage<'_>, phase: &str) -> Result<State> {
    eventually(phase, async || {
        let state = stage.state().await?;
        ensure!(state.phase.word() == phase, "{:?}", state.phase);
        Ok(state)
    })
    .await
}

/// Days become seconds.
fn hasten(stage: &mut Stage<'_>, authority_lifetime: SignedDuration) {
    let parameters = &mut stage.options.parameters;
    parameters.authority_lifetime = authority_lifetime;
    parameters.leaf_lifetime = SignedDuration::from_secs(8);
    parameters.propagation_delay = SignedDuration::from_secs(2);
    parameters.retire_delay = SignedDuration::from_secs(12);
    parameters.tick = Duration::from_millis(200);
    parameters.write_burst = 200;
    parameters.write_interval = SignedDuration::from_secs(1);
}

const ENDPOINTS_TAKE: Duration = Duration::from_millis(500);
const BETWEEN_REVERTS: Duration = Duration::from_millis(100);
/// A look at every event, and one each tick.
const REPLICAS_LOOK: Duration = Duration::from_secs(2);
