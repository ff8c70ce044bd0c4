//! Everything at once and in any order, with two API servers on one store and calls all the time:
//! not one call may fail.
//!
//! `OUTRIGGER_STORM_SEED` chooses another order than the usual one, and `OUTRIGGER_STORM_STEPS`
//! how long it lasts.

mod calls;
#[path = "../cluster/deployer.rs"]
mod deployer;
mod dice;
mod faults;
#[path = "../cluster/reviewer.rs"]
mod reviewer;
#[path = "../cluster/stage.rs"]
#[expect(dead_code, reason = "shared with the stories of the cluster")]
mod stage;
mod weather;

use std::process::ExitCode;

use anyhow::{Context, Result};
use e2e::api_servers::ApiServers;
use e2e::programs::Programs;
use libtest_mimic::{Arguments, Conclusion, Failed, Trial};

use stage::Stage;

fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    let Some(programs) = Programs::of_api_servers_if_any("webhook-certs storm")? else {
        return Ok(ExitCode::SUCCESS);
    };
    // Nothing, unless RUST_LOG asks for it.
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    // API servers are stopped in their tracks.
    arguments.test_threads = Some(1);
    let servers = std::sync::Arc::new(ApiServers::start(&programs, 2)?);
    let of = std::sync::Arc::clone(&servers);
    let storm = Trial::test("a_storm_fails_no_call", move || play(&of, "storm"));
    let of = std::sync::Arc::clone(&servers);
    let siege = Trial::test("a_bundle_that_is_set_back_all_the_time_fails_no_call", move || {
        play(&of, "siege")
    });
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
        let stage = Stage::set(servers, namespace).await?;
        match namespace {
            "siege" => weather::siege(stage).await,
            _ => weather::storm(stage, number("SEED", 7)?, number("STEPS", 12)?).await,
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
