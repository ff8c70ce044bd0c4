//! Rotations of the CA within seconds, while an API server calls the webhook all the time.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use webhook_certs::bundle::Bundle;
use webhook_certs::requests::{ROTATE, ROTATE_NOW};
use webhook_certs::secret::State;
use webhook_certs::status::Status;

use crate::deployer::apply_bundle;
use crate::reviewer::Reviewer;
use crate::stage::{OURS, Stage, eventually};

pub(crate) async fn a_whole_rotation_goes_by_without_a_failed_call(
    mut stage: Stage<'_>,
) -> Result<()> {
    hasten(&mut stage);
    let (mut one, mut two) = (stage.replica().await?, stage.replica().await?);
    let reviewers = [
        Reviewer::start(Arc::clone(&one.certificate)).await?,
        Reviewer::start(Arc::clone(&two.certificate)).await?,
    ];
    stage.expose().await?;
    // Each call goes to both replicas, by an entry each.
    stage.configure_each(reviewers[0].port, reviewers[1].port).await?;
    let before = in_service(&stage).await?;
    let (after, calls) = under_load(&stage, async {
        ask_for_rotation(&stage).await?;
        for phase in ["prepared", "activated", "steady"] {
            until_phase(&stage, phase).await?;
        }
        shrunk(&stage).await
    })
    .await?;
    ensure!(!after.active.ca().is_same_signer(before.active.ca()), "the key is the same");
    ensure!(after.generation == before.generation + 3, "generation {}", after.generation);
    ensure!(calls > 20, "only {calls} calls");
    let rotated = |status: &Status| status.trusted && status.last_error.is_none();
    one.until("the first is trusted", rotated).await?;
    two.until("the second is trusted", rotated).await?;
    let asked = stage.secrets().get(&stage.options.secret_name).await?.metadata.annotations;
    ensure!(!asked.unwrap_or_default().contains_key(ROTATE), "the request stands");
    Ok(())
}

pub(crate) async fn a_replica_that_is_killed_in_each_phase_does_no_harm(
    mut stage: Stage<'_>,
) -> Result<()> {
    hasten(&mut stage);
    let (one, mut two) = (stage.replica().await?, stage.replica().await?);
    let reviewer = Reviewer::start(Arc::clone(&one.certificate)).await?;
    stage.expose().await?;
    stage.configure(reviewer.port).await?;
    let before = in_service(&stage).await?;
    let (after, _) = under_load(&stage, async {
        ask_for_rotation(&stage).await?;
        for phase in ["prepared", "activated", "steady"] {
            until_phase(&stage, phase).await?;
            drop(two);
            two = stage.replica().await?;
            two.until("the new one serves", |status| status.leaf_not_after.is_some()).await?;
        }
        shrunk(&stage).await
    })
    .await?;
    ensure!(!after.active.ca().is_same_signer(before.active.ca()), "the key is the same");
    // The one that was killed serves on its own, too.
    let mut two = stage.replica().await?;
    let reviewer = Reviewer::start(Arc::clone(&two.certificate)).await?;
    two.until("it is trusted", |status| status.trusted && status.entries == 2).await?;
    stage.configure(reviewer.port).await?;
    eventually("it is called", async || stage.create_reviewed("by-two").await).await?;
    Ok(())
}

pub(crate) async fn a_bundle_that_is_reverted_in_mid_rotation_only_delays_it(
    mut stage: Stage<'_>,
) -> Result<()> {
    hasten(&mut stage);
    let mut replica = stage.replica().await?;
    let reviewer = Reviewer::start(Arc::clone(&replica.certificate)).await?;
    stage.expose().await?;
    stage.configure(reviewer.port).await?;
    let before = in_service(&stage).await?;
    let old = before.bundle();
    under_load(&stage, async {
        ask_for_rotation(&stage).await?;
        until_phase(&stage, "prepared").await?;
        stage.published().await?;
        apply_bundle(&stage, &old).await?;
        // Its own leaf is of the old CA still, so not one call fails.
        stage.published().await?;
        let reverted = Timestamp::now();
        let activated = until_phase(&stage, "activated").await?;
        let delay = activated.phase_since.duration_since(reverted);
        ensure!(delay + TICK >= PROPAGATION, "activated {delay:?} after the revert");
        Ok(())
    })
    .await?;
    // This one takes the CA that signs away, so that calls may fail until it is undone.
    apply_bundle(&stage, &old).await?;
    stage.published().await?;
    eventually("calls succeed", async || stage.create_reviewed("after-revert").await).await?;
    let (after, _) = under_load(&stage, async {
        until_phase(&stage, "steady").await?;
        shrunk(&stage).await
    })
    .await?;
    ensure!(!after.active.ca().is_same_signer(before.active.ca()), "the key is the same");
    replica.until("it is trusted", |status| status.trusted).await?;
    Ok(())
}

pub(crate) async fn without_the_right_to_patch_a_rotation_waits_for_whoever_publishes(
    mut stage: Stage<'_>,
) -> Result<()> {
    hasten(&mut stage);
    stage.configure(443).await?;
    stage.forbid_patches().await?;
    let mut replica = stage.replica().await?;
    let patch = format!("patch mutatingwebhookconfigurations/{}", stage.options.namespace);
    let status = replica
        .until("it tells what it may not do", |status| status.denied == [patch.clone()])
        .await?;
    ensure!(status.last_error.is_some_and(|error| error.contains("hint: ")), "no hint");
    apply_bundle(&stage, &stage.state().await?.bundle()).await?;
    replica.until("it is trusted", |status| status.trusted && status.entries == 2).await?;
    ask_for_rotation(&stage).await?;
    let prepared = until_phase(&stage, "prepared").await?;
    apply_bundle(&stage, &prepared.bundle()).await?;
    until_phase(&stage, "activated").await?;
    until_phase(&stage, "steady").await?;
    let denied = stage.denied_requests()?;
    ensure!(denied < 5, "{denied} requests were denied");
    Ok(())
}

pub(crate) async fn the_program_rotates_and_revokes_and_tells_how_far_it_is(
    stage: Stage<'_>,
) -> Result<()> {
    let kubeconfig = stage.server.admin_kubeconfig();
    let namespace = &stage.options.namespace;
    let program = |command: &[&str]| {
        let mut program = tokio::process::Command::new(env!("CARGO_BIN_EXE_webhook-certs"));
        program.args(command);
        program.args(["--namespace", namespace, "--webhook-configuration", namespace]);
        program.arg("--kubeconfig").arg(&kubeconfig).kill_on_drop(true);
        program
    };
    let tell = async || {
        let output = program(&["status", "-o", "json"]).output().await?;
        let status: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        anyhow::Ok((output.status.success(), status))
    };
    stage.configure(443).await?;
    let times = ["--leaf-lifetime=1s", "--propagation-delay=1s", "--retire-delay=1h"];
    let quick = ["--tick=200ms", "--write-interval=1s", "--log=off"];
    let mut serving = program(&["serve"]).args(times).args(quick).spawn()?;
    stage.published().await?;
    let (is_healthy, status) = tell().await?;
    ensure!(is_healthy, "{status}");
    ensure!(status["phase"] == "steady" && status["problems"] == json!([]), "{status}");
    ensure!(status["authorities"][0]["name"] == "CN=sidecar-injector-ca 1", "{status}");
    ensure!(status["entries"][1]["trusts"] == json!(["active"]), "{status}");

    let output = program(&["rotate"]).output().await?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(said.starts_with("CN=sidecar-injector-ca 1 is to be replaced; hint: "), "{said}");
    until_phase(&stage, "activated").await?;
    let (_, status) = tell().await?;
    ensure!(status["authorities"][0]["name"] == "CN=sidecar-injector-ca 2", "{status}");
    ensure!(status["authorities"][1]["role"] == "retiring", "{status}");

    // The old one would stay for an hour, unless trust in it is withdrawn.
    for (revoke, message) in [
        ("--revoke", "either CA may be the one that is meant\nhint: --revoke=NUMBER says which; "),
        ("--revoke=9", "the Secret holds no CA with that number\nhint: it holds "),
    ] {
        let output = program(&["rotate", revoke]).output().await?;
        let said = String::from_utf8(output.stderr)?;
        ensure!(output.status.code() == Some(1), "{revoke}: {}", output.status);
        let held = "CN=sidecar-injector-ca 2 (active) and CN=sidecar-injector-ca 1 (retiring)";
        ensure!(said.contains(message) && said.contains(held), "{said}");
    }
    let output = program(&["rotate", "--revoke=1"]).output().await?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(said.starts_with("CN=sidecar-injector-ca 1 (retiring) is revoked: it is "), "{said}");
    until_phase(&stage, "steady").await?;
    shrunk(&stage).await?;
    let output = program(&["rotate", "--revoke"]).output().await?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(said.starts_with("CN=sidecar-injector-ca 2 (active) is revoked: a next "), "{said}");
    eventually("the CA that signs has changed twice", async || {
        let state = stage.state().await?;
        ensure!(state.active.ca().common_name() == "sidecar-injector-ca 5", "{state:?}");
        ensure!(state.phase.word() == "steady", "{state:?}");
        Ok(())
    })
    .await?;
    let after = shrunk(&stage).await?;
    ensure!(after.phase.other().is_none(), "{after:?}");
    let pid = serving.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    kill_process(pid.context("the program has ended")?, Signal::TERM)?;
    ensure!(serving.wait().await?.success(), "it does not end well");
    Ok(())
}

/// Days become seconds.
pub(crate) fn hasten(stage: &mut Stage<'_>) {
    let parameters = &mut stage.options.parameters;
    parameters.leaf_lifetime = SignedDuration::from_secs(4);
    parameters.propagation_delay = PROPAGATION;
    parameters.retire_delay = SignedDuration::from_secs(8);
    parameters.tick = TICK.unsigned_abs();
    parameters.write_burst = 10;
    parameters.write_interval = SignedDuration::from_secs(1);
}

/// Waits until calls succeed, and returns the state that they rest on.
pub(crate) async fn in_service(stage: &Stage<'_>) -> Result<State> {
    stage.published().await?;
    eventually("calls succeed", async || stage.create_reviewed("first").await).await?;
    stage.state().await
}

/// Lets the API server call the webhook until `work` is done; no call may fail. Returns how many
/// calls there were.
pub(crate) async fn under_load<T>(
    stage: &Stage<'_>,
    work: impl Future<Output = Result<T>>,
) -> Result<(T, usize)> {
    let mut work = pin!(work);
    let mut calls = 0;
    let start = Timestamp::now().as_nanosecond();
    loop {
        let name = format!("call-{start}-{calls}");
        let call = async {
            let created = stage.create_reviewed(&name).await;
            tokio::time::sleep(BETWEEN_CALLS).await;
            created
        };
        tokio::select! {
            done = &mut work => return Ok((done?, calls)),
            created = call => {
                if let Err(error) = created {
                    let state = stage.state().await;
                    return Err(error.context(format!("call {calls} in {state:?}")));
                }
                calls += 1;
            }
        }
    }
}

pub(crate) async fn ask_for_rotation(stage: &Stage<'_>) -> Result<()> {
    annotate(stage, json!({"metadata": {"annotations": {ROTATE: ROTATE_NOW}}})).await
}

async fn annotate(stage: &Stage<'_>, patch: Value) -> Result<()> {
    let (name, how) = (&stage.options.secret_name, PatchParams::default());
    stage.secrets().patch(name, &how, &Patch::Merge(patch)).await?;
    Ok(())
}

pub(crate) async fn until_phase(stage: &Stage<'_>, phase: &str) -> Result<State> {
    eventually(phase, async || {
        let state = stage.state().await?;
        ensure!(state.phase.word() == phase, "{state:?}");
        Ok(state)
    })
    .await
}

/// Waits until the bundles hold the CA of the Secret and no other.
pub(crate) async fn shrunk(stage: &Stage<'_>) -> Result<State> {
    eventually("the old CA has gone", async || {
        let state = stage.state().await?;
        let bundles = stage.bundles().await?;
        for entry in OURS {
            let bundle = bundles.get(entry).cloned().flatten().unwrap_or_default();
            let bundle = Bundle::observed(&bundle);
            ensure!(bundle.is_same_set(&state.bundle()), "{entry}: {bundle:?}");
        }
        Ok(state)
    })
    .await
}

const PROPAGATION: SignedDuration = SignedDuration::from_secs(2);
const TICK: SignedDuration = SignedDuration::from_millis(200);
const BETWEEN_CALLS: Duration = Duration::from_millis(20);
