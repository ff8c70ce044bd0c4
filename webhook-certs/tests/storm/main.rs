//! Random faults with two API servers on one store and continuous calls: no call may fail.
//!
//! `OUTRIGGER_STORM_SEED` sets the seed, and `OUTRIGGER_STORM_STEPS` the number of steps.

mod calls;
#[path = "../cluster/deployer.rs"]
mod deployer;
mod faults;
#[path = "../cluster/fixture.rs"]
#[expect(dead_code, reason = "shared with the tests of the cluster")]
mod fixture;
mod random;
#[path = "../cluster/reviewer.rs"]
mod reviewer;
mod scenarios;

use std::process::ExitCode;

use anyhow::{Context, Result};
use e2e::api_servers::ApiServers;
use e2e::programs::Programs;
use libtest_mimic::{Arguments, Conclusion, Failed, Trial};

use fixture::Fixture;

fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    let Some(programs) = Programs::of_api_servers_if_any("webhook-certs storm")? else {
        return Ok(ExitCode::SUCCESS);
    };
    // Silent unless RUST_LOG is set.
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    // The tests pause API servers.
    arguments.test_threads = Some(1);
    let servers = std::sync::Arc::new(ApiServers::start(&programs, 2)?);
    let of = std::sync::Arc::clone(&servers);
    let storm = Trial::test("random_faults_fail_no_call", move || play(&of, "storm"));
    let of = std::sync::Arc::clone(&servers);
    let siege =
        Trial::test("continuously_reverted_bundle_fails_no_call", move || play(&of, "siege"));
    let Conclusion { num_failed, .. } = libtest_mimic::run(&arguments, vec![siege, storm]);
    drop(servers);
    Ok(if num_failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn play(servers: &ApiServers, namespace: &str) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let played = runtime.block_on(async {
        let fixture = Fixture::new(servers, namespace).await?;
        match namespace {
            "siege" => scenarios::siege(fixture).await,
            _ => scenarios::storm(fixture, number("SEED", 7)?, number("STEPS", 12)?).await,
        }
    });
    played.map_err(|error| format!("{error:?}").into())
}

fn number(name: &str, usual: u64) -> Result<u64> {
    let name = format!("OUTRIGGER_STORM_{name}");
    match std::env::var(&name) {
        Ok(text) => text.parse().with_context(|| format!("{name}: `{text}`")),
        Err(_) => Ok(usual),
    }
}
