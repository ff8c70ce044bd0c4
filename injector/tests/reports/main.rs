//! Reports of the built programs on the pods of a real API server.

#![allow(clippy::unwrap_used, reason = "what a test's own helpers unwrap fails that test")]

#[path = "../webhook/certificate.rs"]
mod certificate;
#[path = "../webhook/client.rs"]
#[allow(dead_code, reason = "the tests of the server use all of it")]
mod client;
mod events;
#[path = "../cluster/fixture.rs"]
#[allow(dead_code, reason = "the stories of the cluster use all of it")]
mod fixture;
#[path = "../webhook/program.rs"]
#[allow(dead_code, reason = "the tests of the server use all of it")]
mod program;
#[allow(dead_code, reason = "the tests of istioctl use the rest of it")]
mod shop;

use std::process::{Command, ExitCode};
use std::sync::Arc;

use anyhow::Result;
use e2e::api_servers::ApiServers;
use e2e::programs::Programs;
use libtest_mimic::{Arguments, Conclusion, Failed, Trial};

type Story = fn(&ApiServers);

fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    let Some(programs) = Programs::of_api_servers_if_any("injector reports")? else {
        return Ok(ExitCode::SUCCESS);
    };
    // Each test is about all pods of the cluster, so they run one after the other.
    arguments.test_threads = Some(1);
    let server = Arc::new(ApiServers::start(&programs, 1)?);
    let stories: [(&str, Story); 3] = [
        (
            "metrics_and_one_event_for_each_workload",
            events::metrics_and_one_event_for_each_workload,
        ),
        (
            "injection_continues_without_permissions",
            events::injection_continues_without_permissions,
        ),
        (
            "first_report_waits_only_for_a_configuration",
            events::first_report_waits_only_for_a_configuration,
        ),
    ];
    let trials = stories.into_iter().map(|(name, story)| {
        let server = Arc::clone(&server);
        Trial::test(name, move || -> Result<(), Failed> {
            story(&server);
            Ok(())
        })
    });
    let Conclusion { num_failed, .. } = libtest_mimic::run(&arguments, trials.collect());
    drop(server);
    Ok(if num_failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The built program.
fn sidecar_injector() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sidecar-injector"))
}
