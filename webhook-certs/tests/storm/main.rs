//! Random faults with two API servers on one store and continuous calls: no call may fail.
//!
//! `OUTRIGGER_SEED` sets the seed, by default the day; `make soak` makes more of them.

mod calls;
#[path = "../cluster/deployer.rs"]
mod deployer;
mod faults;
#[path = "../cluster/fixture.rs"]
#[expect(dead_code, reason = "shared with the tests of the cluster")]
mod fixture;
#[path = "../cluster/reviewer.rs"]
mod reviewer;
mod scenarios;

use std::process::ExitCode;

use anyhow::Result;
use e2e::api_servers::ApiServers;
use e2e::programs::Programs;
use libtest_mimic::{Arguments, Conclusion, Failed, Trial};

use fixture::Fixture;

fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    let Some(programs) = Programs::of_api_servers_if_any("webhook-certs storm")? else {
        return Ok(ExitCode::SUCCESS);
    };
    // The tests pause API servers.
    arguments.test_threads = Some(1);
    let servers = std::sync::Arc::new(ApiServers::start(&programs, 2)?);
    // Silent unless RUST_LOG is set.
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let of = std::sync::Arc::clone(&servers);
    let storm = Trial::test("random_faults_fail_no_call", move || play(&of));
    let Conclusion { num_failed, .. } = libtest_mimic::run(&arguments, vec![storm]);
    drop(servers);
    Ok(if num_failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn play(servers: &ApiServers) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let played = runtime.block_on(async {
        let fixture = Fixture::new(servers, "storm").await?;
        scenarios::storm(fixture, e2e::random::seed(), e2e::random::rounds(8, 150)).await
    });
    played.map_err(|error| format!("{error:?}").into())
}
