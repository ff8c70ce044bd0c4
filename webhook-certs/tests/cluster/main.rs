//! Reconciliation of certificates against a real API server, with minimal rights.

mod bundle;
mod controller_manager;
mod deployer;
mod events;
#[allow(dead_code, reason = "shared with the test target storm")]
mod fixture;
mod probe;
#[allow(dead_code, reason = "shared with the test target storm")]
mod reviewer;
mod revocation;
mod rights;
mod roots;
mod rotation;
mod secret;
mod siege;
mod signer;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api_servers::ApiServers;
use e2e::programs::Programs;
use e2e::wait;
use jiff::{SignedDuration, Timestamp};
use kube::api::DeleteParams;
use libtest_mimic::{Arguments, Conclusion, Failed, Trial};
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::{TcpListener, TcpStream};
use webhook_certs::authority::{Authority, Entropy, Lifetime};
use webhook_certs::serving::{Identity, ServingCertificate};
use webhook_certs::status::Status;

use bundle::{
    contended_bundle_is_written_within_the_budget,
    entry_that_its_deployer_removes_is_removed_completely,
    only_bundles_of_our_entries_are_written_and_owned,
    replicas_share_one_write_budget_against_an_adversary,
    wiped_or_overwritten_bundle_is_repaired_by_one_write,
};
use controller_manager::kubernetes_own_signers_do_not_sign_for_webhooks;
use events::{
    each_event_is_written_once_and_names_the_writer,
    without_the_right_to_write_events_the_rest_works,
};
use fixture::{Fixture, OURS, Replica};
use probe::{
    trust_probe_counts_only_failures_of_its_own_entry,
    trust_probe_reports_why_the_webhook_is_not_called,
};
use reviewer::Reviewer;
use revocation::revocation_in_each_phase_fails_no_call;
use rights::{
    every_right_is_needed_and_none_is_missing, without_the_right_to_publish_a_leaf_is_served,
};
use roots::{
    mounted_ca_signs_and_is_read_again, restarted_replica_keeps_the_ca_of_workloads,
    roots_are_kept_in_namespaces_of_the_revision, roots_are_published_before_the_ca_signs,
};
use rotation::{
    bundle_reverted_during_a_rotation_only_delays_it, program_rotates_revokes_and_reports_progress,
    replica_killed_in_each_phase_fails_no_call, whole_rotation_fails_no_call,
    without_the_right_to_patch_a_rotation_waits,
};
use secret::{
    deleted_or_damaged_secret_is_restored_with_the_same_ca,
    immutable_secret_is_reported_and_mutable_once_deleted,
};
use siege::continuously_reverted_bundle_fails_no_call;
use signer::{cluster_signer_signs_and_renews, failed_approval_is_repeated};

async fn two_replicas_agree_on_one_ca_and_both_leaves_are_trusted(
    fixture: Fixture<'_>,
) -> Result<()> {
    let (one, two) = tokio::join!(fixture.replica(), fixture.replica());
    let (mut one, mut two) = (one?, two?);
    let settled = |status: &Status| status.leaf_not_after.is_some() && status.last_error.is_none();
    one.until("the first has a leaf", settled).await?;
    two.until("the second has a leaf", settled).await?;
    let state = fixture.state().await?;
    ensure!(state.generation == 1, "generation {}", state.generation);
    ensure!(one.leaf()? != two.leaf()?, "each replica has a leaf of its own");

    // The configuration comes last, as in an installation. API servers then call either replica.
    fixture.expose().await?;
    for (name, replica) in [("by-one", &one), ("by-two", &two)] {
        let reviewer = Reviewer::start(Arc::clone(&replica.certificate)).await?;
        fixture.configure(reviewer.port).await?;
        fixture.published().await?;
        // The API server learns of the change with a delay.
        wait::until_async("the API server trusts the leaf", async || {
            fixture.create_reviewed(name).await
        })
        .await?;
    }
    let trusted = |status: &Status| status.trusted && status.entries == OURS.len();
    one.until("the first is trusted", trusted).await?;
    two.until("the second is trusted", trusted).await?;

    // A leaf of another CA shows that the API server does verify.
    let lifetime = Lifetime::starting(Timestamp::now(), SignedDuration::from_hours(1));
    let authority = Authority::create("sidecar-injector", 1, lifetime, Entropy::draw()?)?;
    let untrusted = authority.issue(&fixture.options.names()?, lifetime, Entropy::draw()?)?;
    let certificate = ServingCertificate::new();
    certificate.set(Identity::from_leaf(&untrusted)?);
    let reviewer = Reviewer::start(certificate).await?;
    fixture.configure(reviewer.port).await?;
    wait::until_async("the API server refuses the leaf of another CA", async || {
        let refusal = fixture.create_reviewed("by-untrusted").await.err();
        let refusal = format!("{:#}", refusal.context("it was accepted")?);
        ensure!(refusal.contains("signed by unknown authority"), "{refusal}");
        Ok(())
    })
    .await?;
    ensure!(fixture.state().await? == state, "the Secret was written only once");
    Ok(())
}

async fn recreated_configuration_is_patched_again(fixture: Fixture<'_>) -> Result<()> {
    let mut replica = fixture.replica().await?;
    let name = &fixture.options.webhook_configurations[0];
    for _ in 0..3 {
        fixture.configure(443).await?;
        fixture.published().await?;
        fixture.configurations().delete(name, &DeleteParams::default()).await?;
        replica.until("it has gone", |status| status.entries == 0 && status.trusted).await?;
    }
    let gone = fixture.configurations().get_opt(name).await?;
    ensure!(gone.is_none(), "a deleted configuration is not written again");
    Ok(())
}

async fn expired_ca_is_renewed_and_served_at_once(mut fixture: Fixture<'_>) -> Result<()> {
    fixture.configure(443).await?;
    fixture.options.parameters.authority_lifetime = SignedDuration::from_secs(1);
    let short = fixture.replica().await?;
    fixture.published().await?;
    drop(short);
    let expired = wait::until_async("the CA has expired", async || {
        let active = fixture.state().await?.active;
        ensure!(!active.ca().is_valid_at(Timestamp::now()), "it is still valid");
        Ok(active)
    })
    .await?;
    fixture.options.parameters.authority_lifetime = SignedDuration::from_hours(24 * 365);
    let mut replica = fixture.replica().await?;
    let trusted = |status: &Status| status.trusted && status.entries == OURS.len();
    replica.until("it is trusted", trusted).await?;
    let renewed = fixture.state().await?.active;
    ensure!(renewed.ca().is_same_signer(expired.ca()), "the key was given up");
    ensure!(renewed != expired, "the certificate is the same");
    Ok(())
}

async fn configurations_of_other_revisions_are_not_written(mut fixture: Fixture<'_>) -> Result<()> {
    "canary".clone_into(&mut fixture.options.revision);
    fixture.configure(443).await?;
    let mut replica: Replica = fixture.replica().await?;
    let status = replica.until("it has a leaf", |status| status.leaf_not_after.is_some()).await?;
    ensure!(status.entries == 0 && status.bundle_writes() == 0, "{status:?}");
    let bundles = fixture.bundles().await?;
    ensure!(OURS.iter().all(|entry| bundles[*entry].is_none()), "a bundle was written");
    Ok(())
}

async fn unresponsive_api_server_is_waited_for(mut fixture: Fixture<'_>) -> Result<()> {
    fixture.options.parameters.call_timeout = Duration::from_millis(200);
    let silent = TcpListener::bind("127.0.0.1:0").await?;
    let mut replica = fixture.replica_by(silent.local_addr()?.port()).await?;
    let status =
        replica.until("it reports the timeout", |status| status.last_error.is_some()).await?;
    let error = status.last_error.unwrap_or_default();
    ensure!(error.starts_with("cannot get secrets/sidecar-injector-ca in namespace "), "{error}");
    ensure!(!replica.certificate.is_loaded());

    let server = fixture.server.port(0);
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

async fn program_serves_a_cluster_and_reports_its_state(fixture: Fixture<'_>) -> Result<()> {
    let namespace = &fixture.options.namespace;
    let output = fixture.program("status").output().await?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(output.status.code() == Some(1), "{output:?}", output = output.status);
    ensure!(
        said.contains(&format!("Secret {namespace}/sidecar-injector-ca does not exist")),
        "{said}"
    );

    fixture.configure(443).await?;
    let mut serving = fixture.program("serve").arg("--log=off").spawn()?;
    fixture.published().await?;
    let output = fixture.program("status").output().await?;
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

/// Lists the tests, the longest first; each runs in a namespace with its name.
macro_rules! tests {
    ($server:expr, $($test:ident)*) => {
        vec![$({
            let server = Arc::clone($server);
            Trial::test(stringify!($test), move || {
                let namespace = stringify!($test).replace('_', "-");
                play(async {
                    let fixture = Fixture::new(&server, &namespace[..namespace.len().min(60)]).await?;
                    $test(fixture).await
                })
            })
        }),*]
    };
}

fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    // They mostly wait.
    arguments.test_threads.get_or_insert(6);
    let Some(programs) = Programs::of_api_servers_if_any("webhook-certs cluster")? else {
        return Ok(ExitCode::SUCCESS);
    };
    let server = Arc::new(ApiServers::start(&programs, 1)?);
    let tests = tests![&server,
        continuously_reverted_bundle_fails_no_call
        revocation_in_each_phase_fails_no_call
        cluster_signer_signs_and_renews
        trust_probe_counts_only_failures_of_its_own_entry
        bundle_reverted_during_a_rotation_only_delays_it
        whole_rotation_fails_no_call
        replica_killed_in_each_phase_fails_no_call
        without_the_right_to_patch_a_rotation_waits
        roots_are_published_before_the_ca_signs
        replicas_share_one_write_budget_against_an_adversary
        two_replicas_agree_on_one_ca_and_both_leaves_are_trusted
        only_bundles_of_our_entries_are_written_and_owned
        wiped_or_overwritten_bundle_is_repaired_by_one_write
        entry_that_its_deployer_removes_is_removed_completely
        contended_bundle_is_written_within_the_budget
        deleted_or_damaged_secret_is_restored_with_the_same_ca
        immutable_secret_is_reported_and_mutable_once_deleted
        recreated_configuration_is_patched_again
        expired_ca_is_renewed_and_served_at_once
        without_the_right_to_publish_a_leaf_is_served
        configurations_of_other_revisions_are_not_written
        unresponsive_api_server_is_waited_for
        every_right_is_needed_and_none_is_missing
        program_serves_a_cluster_and_reports_its_state
        each_event_is_written_once_and_names_the_writer
        without_the_right_to_write_events_the_rest_works
        trust_probe_reports_why_the_webhook_is_not_called
        failed_approval_is_repeated
        kubernetes_own_signers_do_not_sign_for_webhooks
        program_rotates_revokes_and_reports_progress
        roots_are_kept_in_namespaces_of_the_revision
        restarted_replica_keeps_the_ca_of_workloads
        mounted_ca_signs_and_is_read_again
    ];
    let Conclusion { num_failed, .. } = libtest_mimic::run(&arguments, tests);
    drop(server);
    Ok(if num_failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn play(test: impl Future<Output = Result<()>>) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(test).map_err(|error| format!("{error:?}").into())
}
