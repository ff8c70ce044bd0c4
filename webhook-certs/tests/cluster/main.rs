//! The upkeep of certificates against a real API server, with the least rights.

mod bundle;
mod controller_manager;
mod deployer;
mod news;
mod probe;
#[allow(dead_code, reason = "shared with the storm")]
mod reviewer;
mod revocation;
mod rights;
mod rotation;
mod secret;
mod signer;
#[allow(dead_code, reason = "shared with the storm")]
mod stage;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api_servers::ApiServers;
use e2e::programs::Programs;
use jiff::{SignedDuration, Timestamp};
use kube::api::DeleteParams;
use libtest_mimic::{Arguments, Conclusion, Failed, Trial};
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::{TcpListener, TcpStream};
use webhook_certs::authority::{Authority, Entropy, Lifetime};
use webhook_certs::serving::{Identity, ServingCertificate};
use webhook_certs::status::Status;

use bundle::{
    a_contended_bundle_is_written_no_more_than_the_budget_allows,
    a_wiped_or_overwritten_bundle_is_repaired_by_one_write,
    an_entry_that_its_deployer_gives_up_is_never_left_half,
    only_the_bundle_of_our_entries_is_written_and_owned,
    replicas_together_answer_an_adversary_no_more_often_than_one_may,
};
use controller_manager::no_signer_of_kubernetes_itself_signs_for_a_webhook;
use news::{
    what_happens_is_told_once_and_names_whoever_did_it,
    without_the_right_to_tell_everything_else_goes_on,
};
use probe::{
    the_probe_counts_only_what_its_own_entry_fails_at,
    the_probe_tells_why_the_api_server_does_not_call_the_webhook,
};
use reviewer::Reviewer;
use revocation::a_revocation_in_each_phase_fails_no_call;
use rights::{
    every_right_is_needed_and_none_is_missing,
    without_the_right_to_publish_a_leaf_is_served_and_the_reason_told,
};
use rotation::{
    a_bundle_that_is_reverted_in_mid_rotation_only_delays_it,
    a_replica_that_is_killed_in_each_phase_does_no_harm,
    a_whole_rotation_goes_by_without_a_failed_call,
    the_program_rotates_and_revokes_and_tells_how_far_it_is,
    without_the_right_to_patch_a_rotation_waits_for_whoever_publishes,
};
use secret::{
    a_deleted_or_damaged_secret_comes_back_with_the_same_ca,
    an_immutable_secret_is_told_of_and_comes_back_changeable_when_it_is_deleted,
};
use signer::{a_signer_of_the_cluster_signs_and_renews, an_approval_that_failed_is_repeated};
use stage::{OURS, Replica, Stage, eventually};

async fn two_replicas_at_once_end_with_one_ca_and_both_leaves_trusted(
    stage: Stage<'_>,
) -> Result<()> {
    let (one, two) = tokio::join!(stage.replica(), stage.replica());
    let (mut one, mut two) = (one?, two?);
    let settled = |status: &Status| status.leaf_not_after.is_some() && status.last_error.is_none();
    one.until("the first has a leaf", settled).await?;
    two.until("the second has a leaf", settled).await?;
    let state = stage.state().await?;
    ensure!(state.generation == 1, "generation {}", state.generation);
    ensure!(one.leaf()? != two.leaf()?, "each replica has a leaf of its own");

    // The configuration comes last, as in an installation, and API servers then call either.
    stage.expose().await?;
    for (name, replica) in [("by-one", &one), ("by-two", &two)] {
        let reviewer = Reviewer::start(Arc::clone(&replica.certificate)).await?;
        stage.configure(reviewer.port).await?;
        stage.published().await?;
        // The API server learns of the change in its own time.
        eventually("the API server trusts the leaf", async || stage.create_reviewed(name).await)
            .await?;
    }
    let trusted = |status: &Status| status.trusted && status.entries == OURS.len();
    one.until("the first is trusted", trusted).await?;
    two.until("the second is trusted", trusted).await?;

    // The same way with a leaf of some other CA shows that the API server does verify.
    let lifetime = Lifetime::starting(Timestamp::now(), SignedDuration::from_hours(1));
    let authority = Authority::create("sidecar-injector", 1, lifetime, Entropy::draw()?)?;
    let untrusted = authority.issue(&stage.options.names()?, lifetime, Entropy::draw()?)?;
    let certificate = ServingCertificate::new();
    certificate.set(Identity::from_leaf(&untrusted)?);
    let reviewer = Reviewer::start(certificate).await?;
    stage.configure(reviewer.port).await?;
    eventually("the API server refuses the leaf of another CA", async || {
        let refusal = stage.create_reviewed("by-nobody").await.err();
        let refusal = format!("{:#}", refusal.context("it was accepted")?);
        ensure!(refusal.contains("signed by unknown authority"), "{refusal}");
        Ok(())
    })
    .await?;
    ensure!(stage.state().await? == state, "the Secret was written only once");
    Ok(())
}

async fn a_configuration_that_is_created_anew_is_patched_again(stage: Stage<'_>) -> Result<()> {
    let mut replica = stage.replica().await?;
    let name = &stage.options.webhook_configurations[0];
    for _ in 0..3 {
        stage.configure(443).await?;
        stage.published().await?;
        stage.configurations().delete(name, &DeleteParams::default()).await?;
        replica.until("it has gone", |status| status.entries == 0 && status.trusted).await?;
    }
    let gone = stage.configurations().get_opt(name).await?;
    ensure!(gone.is_none(), "a deleted configuration is not written again");
    Ok(())
}

async fn an_expired_ca_is_renewed_and_served_at_once(mut stage: Stage<'_>) -> Result<()> {
    stage.configure(443).await?;
    stage.options.parameters.authority_lifetime = SignedDuration::from_secs(1);
    let short = stage.replica().await?;
    stage.published().await?;
    drop(short);
    let expired = eventually("the CA has expired", async || {
        let active = stage.state().await?.active;
        ensure!(!active.ca().is_valid_at(Timestamp::now()), "it is still valid");
        Ok(active)
    })
    .await?;
    stage.options.parameters.authority_lifetime = SignedDuration::from_hours(24 * 365);
    let mut replica = stage.replica().await?;
    let trusted = |status: &Status| status.trusted && status.entries == OURS.len();
    replica.until("it is trusted", trusted).await?;
    let renewed = stage.state().await?.active;
    ensure!(renewed.ca().is_same_signer(expired.ca()), "the key was given up");
    ensure!(renewed != expired, "the certificate is the same");
    Ok(())
}

async fn another_revision_is_left_alone(mut stage: Stage<'_>) -> Result<()> {
    "canary".clone_into(&mut stage.options.revision);
    stage.configure(443).await?;
    let mut replica: Replica = stage.replica().await?;
    let status = replica.until("it has a leaf", |status| status.leaf_not_after.is_some()).await?;
    ensure!(status.entries == 0 && status.bundle_writes() == 0, "{status:?}");
    let bundles = stage.bundles().await?;
    ensure!(OURS.iter().all(|entry| bundles[*entry].is_none()), "a bundle was written");
    Ok(())
}

async fn an_api_server_that_does_not_answer_is_waited_for(mut stage: Stage<'_>) -> Result<()> {
    stage.options.parameters.call_timeout = Duration::from_millis(200);
    let silent = TcpListener::bind("127.0.0.1:0").await?;
    let mut replica = stage.replica_by(silent.local_addr()?.port()).await?;
    let status =
        replica.until("it tells that nobody answers", |status| status.last_error.is_some()).await?;
    let error = status.last_error.unwrap_or_default();
    ensure!(error.starts_with("cannot get secrets/sidecar-injector-ca in namespace "), "{error}");
    ensure!(!replica.certificate.is_loaded());

    let server = stage.server.port(0);
    let relay = tokio::spawn(async move {
        while let Ok((mut client, _)) = silent.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", server)).await?;
                tokio::io::copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    let status = replica.until("it has a leaf", |status| status.leaf_not_after.is_some()).await?;
    ensure!(status.generation == Some(1), "{status:?}");
    relay.abort();
    Ok(())
}

async fn the_program_keeps_a_cluster_up_and_tells_its_state(stage: Stage<'_>) -> Result<()> {
    let namespace = &stage.options.namespace;
    let output = stage.program("status").output().await?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(output.status.code() == Some(1), "{output:?}", output = output.status);
    ensure!(said.contains(&format!("there is no Secret {namespace}/")), "{said}");

    stage.configure(443).await?;
    let mut serving = stage.program("serve").arg("--log=off").spawn()?;
    stage.published().await?;
    let output = stage.program("status").output().await?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{said}");
    let lines: Vec<_> = said.lines().collect();
    let secret = format!("Secret {namespace}/sidecar-injector-ca: generation 1, steady since 20");
    ensure!(lines[0].starts_with(&secret), "{said}");
    ensure!(lines[1].starts_with("CA active: CN=sidecar-injector-ca 1, valid until 20"), "{said}");
    let entries = OURS.map(|entry| format!("{namespace} {entry}: trusts active"));
    ensure!(lines[2..4] == entries, "{said}");
    ensure!(lines[4..] == ["clock: agrees with the API server's"], "{said}");

    let pid = serving.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    kill_process(pid.context("the program has ended")?, Signal::TERM)?;
    ensure!(serving.wait().await?.success(), "it does not end well");
    Ok(())
}

/// Lists the stories; each plays in the namespace that its name gives.
macro_rules! stories {
    ($server:expr, $($story:ident)*) => {
        vec![$({
            let server = Arc::clone($server);
            Trial::test(stringify!($story), move || {
                let namespace = stringify!($story).replace('_', "-");
                play(async {
                    let stage = Stage::set(&server, &namespace[..namespace.len().min(60)]).await?;
                    $story(stage).await
                })
            })
        }),*]
    };
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::from_args();
    let Some(programs) = Programs::of_api_servers_if_any("webhook-certs cluster")? else {
        return Ok(ExitCode::SUCCESS);
    };
    let server = Arc::new(ApiServers::start(&programs, 1)?);
    let stories = stories![&server,
        two_replicas_at_once_end_with_one_ca_and_both_leaves_trusted
        only_the_bundle_of_our_entries_is_written_and_owned
        a_wiped_or_overwritten_bundle_is_repaired_by_one_write
        an_entry_that_its_deployer_gives_up_is_never_left_half
        replicas_together_answer_an_adversary_no_more_often_than_one_may
        a_contended_bundle_is_written_no_more_than_the_budget_allows
        a_deleted_or_damaged_secret_comes_back_with_the_same_ca
        an_immutable_secret_is_told_of_and_comes_back_changeable_when_it_is_deleted
        a_configuration_that_is_created_anew_is_patched_again
        an_expired_ca_is_renewed_and_served_at_once
        without_the_right_to_publish_a_leaf_is_served_and_the_reason_told
        another_revision_is_left_alone
        an_api_server_that_does_not_answer_is_waited_for
        every_right_is_needed_and_none_is_missing
        the_program_keeps_a_cluster_up_and_tells_its_state
        what_happens_is_told_once_and_names_whoever_did_it
        without_the_right_to_tell_everything_else_goes_on
        the_probe_tells_why_the_api_server_does_not_call_the_webhook
        the_probe_counts_only_what_its_own_entry_fails_at
        a_signer_of_the_cluster_signs_and_renews
        an_approval_that_failed_is_repeated
        no_signer_of_kubernetes_itself_signs_for_a_webhook
        a_whole_rotation_goes_by_without_a_failed_call
        a_replica_that_is_killed_in_each_phase_does_no_harm
        a_bundle_that_is_reverted_in_mid_rotation_only_delays_it
        without_the_right_to_patch_a_rotation_waits_for_whoever_publishes
        the_program_rotates_and_revokes_and_tells_how_far_it_is
        a_revocation_in_each_phase_fails_no_call
    ];
    let Conclusion { num_failed, .. } = libtest_mimic::run(&arguments, stories);
    drop(server);
    Ok(if num_failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn play(story: impl Future<Output = Result<()>>) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(story).map_err(|error| format!("{error:?}").into())
}
