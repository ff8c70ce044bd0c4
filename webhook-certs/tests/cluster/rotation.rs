//! Rotations of the CA within seconds, while an API server calls the webhook all the time.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::wait;
use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use webhook_certs::bundle::Bundle;
use webhook_certs::secret::State;
use webhook_certs::secret::rotation_requests::{ROTATE, ROTATE_NOW};
use webhook_certs::status::Status;

use crate::deployer::apply_bundle;
use crate::fixture::{Fixture, OURS};
use crate::reviewer::Reviewer;

pub(crate) async fn whole_rotation_fails_no_call(mut fixture: Fixture<'_>) -> Result<()> {
    hasten(&mut fixture);
    let (mut one, mut two) = (fixture.replica().await?, fixture.replica().await?);
    let reviewers = [
        Reviewer::start(Arc::clone(&one.certificate)).await?,
        Reviewer::start(Arc::clone(&two.certificate)).await?,
    ];
    fixture.expose().await?;
    // Each call reaches both replicas, through one entry each.
    fixture.configure_each(reviewers[0].port, reviewers[1].port).await?;
    let before = in_service(&fixture).await?;
    let (after, calls) = under_load(&fixture, async {
        ask_for_rotation(&fixture).await?;
        for phase in ["prepared", "activated", "steady"] {
            until_phase(&fixture, phase).await?;
        }
        shrunk(&fixture).await
    })
    .await?;
    ensure!(!after.active.ca().is_same_signer(before.active.ca()), "the key is the same");
    ensure!(after.generation == before.generation + 3, "generation {}", after.generation);
    ensure!(calls > 20, "only {calls} calls");
    let rotated = |status: &Status| status.trusted && status.last_error.is_none();
    one.until("the first is trusted", rotated).await?;
    two.until("the second is trusted", rotated).await?;
    let asked = fixture.secrets().get(&fixture.options.secret_name).await?.metadata.annotations;
    ensure!(!asked.unwrap_or_default().contains_key(ROTATE), "the request stands");
    Ok(())
}

pub(crate) async fn replica_killed_in_each_phase_fails_no_call(
    mut fixture: Fixture<'_>,
) -> Result<()> {
    hasten(&mut fixture);
    let (one, mut two) = (fixture.replica().await?, fixture.replica().await?);
    let reviewer = Reviewer::start(Arc::clone(&one.certificate)).await?;
    fixture.expose().await?;
    fixture.configure(reviewer.port).await?;
    let before = in_service(&fixture).await?;
    let (after, _) = under_load(&fixture, async {
        ask_for_rotation(&fixture).await?;
        for phase in ["prepared", "activated", "steady"] {
            until_phase(&fixture, phase).await?;
            drop(two);
            two = fixture.replica().await?;
            two.until("the new one serves", |status| status.leaf_not_after.is_some()).await?;
        }
        shrunk(&fixture).await
    })
    .await?;
    ensure!(!after.active.ca().is_same_signer(before.active.ca()), "the key is the same");
    // The restarted replica serves alone, too.
    let mut two = fixture.replica().await?;
    let reviewer = Reviewer::start(Arc::clone(&two.certificate)).await?;
    two.until("it is trusted", |status| status.trusted && status.entries == 2).await?;
    fixture.configure(reviewer.port).await?;
    wait::until_async("it is called", async || fixture.create_reviewed("by-two").await).await?;
    Ok(())
}

pub(crate) async fn bundle_reverted_during_a_rotation_only_delays_it(
    mut fixture: Fixture<'_>,
) -> Result<()> {
    hasten(&mut fixture);
    // The revert has to come before the next CA signs.
    let propagation = 2 * PROPAGATION;
    fixture.options.parameters.propagation_delay = propagation;
    let mut replica = fixture.replica().await?;
    let reviewer = Reviewer::start(Arc::clone(&replica.certificate)).await?;
    fixture.expose().await?;
    fixture.configure(reviewer.port).await?;
    let before = in_service(&fixture).await?;
    let old = before.bundle();
    under_load(&fixture, async {
        ask_for_rotation(&fixture).await?;
        until_phase(&fixture, "prepared").await?;
        fixture.published().await?;
        apply_bundle(&fixture, &old).await?;
        // The served leaf is still of the old CA, so no call fails.
        fixture.published().await?;
        let reverted = Timestamp::now();
        let activated = until_phase(&fixture, "activated").await?;
        let delay = activated.phase_since.duration_since(reverted);
        ensure!(delay + TICK >= propagation, "activated {delay:?} after the revert");
        Ok(())
    })
    .await?;
    // This removes the signing CA, so calls may fail until it is repaired.
    apply_bundle(&fixture, &old).await?;
    fixture.published().await?;
    wait::until_async("calls succeed", async || fixture.create_reviewed("after-revert").await)
        .await?;
    let (after, _) = under_load(&fixture, async {
        until_phase(&fixture, "steady").await?;
        shrunk(&fixture).await
    })
    .await?;
    ensure!(!after.active.ca().is_same_signer(before.active.ca()), "the key is the same");
    replica.until("it is trusted", |status| status.trusted).await?;
    Ok(())
}

pub(crate) async fn without_the_right_to_patch_a_rotation_waits(
    mut fixture: Fixture<'_>,
) -> Result<()> {
    hasten(&mut fixture);
    fixture.configure(443).await?;
    fixture.forbid_patches().await?;
    let mut replica = fixture.replica().await?;
    let patch = format!("patch mutatingwebhookconfigurations/{}", fixture.options.namespace);
    let status = replica
        .until("it reports the forbidden write", |status| status.denied == [patch.clone()])
        .await?;
    ensure!(status.last_error.is_some_and(|error| error.contains("hint: ")), "no hint");
    apply_bundle(&fixture, &fixture.state().await?.bundle()).await?;
    replica.until("it is trusted", |status| status.trusted && status.entries == 2).await?;
    ask_for_rotation(&fixture).await?;
    let prepared = until_phase(&fixture, "prepared").await?;
    apply_bundle(&fixture, &prepared.bundle()).await?;
    until_phase(&fixture, "activated").await?;
    until_phase(&fixture, "steady").await?;
    let denied = fixture.denied_requests()?;
    ensure!(denied < 5, "{denied} requests were denied");
    Ok(())
}

pub(crate) async fn program_rotates_revokes_and_reports_progress(
    fixture: Fixture<'_>,
) -> Result<()> {
    let kubeconfig = fixture.server.admin_kubeconfig();
    let namespace = &fixture.options.namespace;
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
    fixture.configure(443).await?;
    let times = ["--leaf-lifetime=1s", "--propagation-delay=1s", "--retire-delay=1h"];
    let quick = ["--tick=200ms", "--write-interval=1s", "--log=off"];
    let mut serving = program(&["serve"]).args(times).args(quick).spawn()?;
    fixture.published().await?;
    let (is_healthy, status) = tell().await?;
    ensure!(is_healthy, "{status}");
    ensure!(status["phase"] == "steady" && status["problems"] == json!([]), "{status}");
    ensure!(status["authorities"][0]["name"] == "CN=sidecar-injector-ca 1", "{status}");
    ensure!(status["entries"][1]["trusts"] == json!(["active"]), "{status}");

    let output = program(&["rotate"]).output().await?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(said.starts_with("CN=sidecar-injector-ca 1 will be replaced; hint: "), "{said}");
    until_phase(&fixture, "activated").await?;
    let (_, status) = tell().await?;
    ensure!(status["authorities"][0]["name"] == "CN=sidecar-injector-ca 2", "{status}");
    ensure!(status["authorities"][1]["role"] == "retiring", "{status}");

    // Without a revocation, the old CA would stay for an hour.
    for (revoke, message) in [
        ("--revoke", "two CAs are trusted\n  hint: choose one with --revoke=NUMBER; "),
        ("--revoke=9", "the Secret holds no CA with that number\n  hint: it holds "),
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
    until_phase(&fixture, "steady").await?;
    shrunk(&fixture).await?;
    let output = program(&["rotate", "--revoke"]).output().await?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(said.starts_with("CN=sidecar-injector-ca 2 (active) is revoked: a next "), "{said}");
    wait::until_async("the CA that signs has changed twice", async || {
        let state = fixture.state().await?;
        ensure!(state.active.ca().common_name() == "sidecar-injector-ca 5", "{state:?}");
        ensure!(state.phase.word() == "steady", "{state:?}");
        Ok(())
    })
    .await?;
    let after = shrunk(&fixture).await?;
    ensure!(after.phase.other().is_none(), "{after:?}");
    let pid = serving.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    kill_process(pid.context("the program has ended")?, Signal::TERM)?;
    ensure!(serving.wait().await?.success(), "it does not end well");
    Ok(())
}

/// Shortens days to seconds.
pub(crate) fn hasten(fixture: &mut Fixture<'_>) {
    let parameters = &mut fixture.options.parameters;
    // Other tests keep the API server busy, and a leaf must not expire meanwhile.
    parameters.leaf_lifetime = SignedDuration::from_secs(8);
    parameters.propagation_delay = PROPAGATION;
    parameters.retire_delay = SignedDuration::from_secs(12);
    parameters.tick = TICK.unsigned_abs();
    parameters.write_burst = 10;
    parameters.write_interval = SignedDuration::from_secs(1);
}

/// Waits until calls succeed, and returns the state of the Secret.
pub(crate) async fn in_service(fixture: &Fixture<'_>) -> Result<State> {
    fixture.published().await?;
    wait::until_async("calls succeed", async || fixture.create_reviewed("first").await).await?;
    fixture.state().await
}

/// Calls the webhook through the API server until `work` is done; no call may fail. Returns the
/// number of calls.
pub(crate) async fn under_load<T>(
    fixture: &Fixture<'_>,
    work: impl Future<Output = Result<T>>,
) -> Result<(T, usize)> {
    let mut work = pin!(work);
    let mut calls = 0;
    let start = Timestamp::now().as_nanosecond();
    loop {
        let name = format!("call-{start}-{calls}");
        let call = async {
            let created = fixture.create_reviewed(&name).await;
            tokio::time::sleep(BETWEEN_CALLS).await;
            created
        };
        tokio::select! {
            done = &mut work => return Ok((done?, calls)),
            created = call => {
                if let Err(error) = created {
                    let state = fixture.state().await;
                    return Err(error.context(format!("call {calls} in {state:?}")));
                }
                calls += 1;
            }
        }
    }
}

pub(crate) async fn ask_for_rotation(fixture: &Fixture<'_>) -> Result<()> {
    annotate(fixture, json!({"metadata": {"annotations": {ROTATE: ROTATE_NOW}}})).await
}

async fn annotate(fixture: &Fixture<'_>, patch: Value) -> Result<()> {
    let (name, how) = (&fixture.options.secret_name, PatchParams::default());
    fixture.secrets().patch(name, &how, &Patch::Merge(patch)).await?;
    Ok(())
}

pub(crate) async fn until_phase(fixture: &Fixture<'_>, phase: &str) -> Result<State> {
    wait::until_async(phase, async || {
        let state = fixture.state().await?;
        ensure!(state.phase.word() == phase, "{state:?}");
        Ok(state)
    })
    .await
}

/// Waits until the bundles hold the CA of the Secret and no other.
pub(crate) async fn shrunk(fixture: &Fixture<'_>) -> Result<State> {
    wait::until_async("the old CA has gone", async || {
        let state = fixture.state().await?;
        let bundles = fixture.bundles().await?;
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
const BETWEEN_CALLS: Duration = Duration::from_millis(50);
