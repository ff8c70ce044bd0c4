//! Use of a cluster's objects by the built program, with a real API server.

#![allow(clippy::unwrap_used, reason = "what a test's own helpers unwrap fails that test")]

#[path = "../webhook/certificate.rs"]
mod certificate;
#[path = "../webhook/client.rs"]
#[allow(dead_code, reason = "the tests of the server use all of it")]
mod client;
mod fixture;
mod namespaces;
mod nodes;
mod objects;
#[path = "../webhook/program.rs"]
#[allow(dead_code, reason = "the tests of the server use all of it")]
mod program;
mod proxy_configs;

use std::process::{Command, ExitCode};
use std::sync::Arc;

use anyhow::Result;
use e2e::api_servers::ApiServers;
use e2e::programs::Programs;
use libtest_mimic::{Arguments, Conclusion, Failed, Trial};

use fixture::Fixture;

type Story = fn(&Fixture<'_>);

fn main() -> Result<ExitCode> {
    let arguments = Arguments::from_args();
    let Some(programs) = Programs::of_api_servers_if_any("injector cluster")? else {
        return Ok(ExitCode::SUCCESS);
    };
    let server = Arc::new(ApiServers::start(&programs, 1)?);
    let stories: [(&str, Story); 5] = [
        (
            "proxy_config_change_applies_to_the_next_review",
            proxy_configs::proxy_config_change_applies_to_the_next_review,
        ),
        ("missing_permission_is_logged_once", proxy_configs::missing_permission_is_logged_once),
        (
            "ids_of_a_new_namespace_are_known_at_once",
            namespaces::ids_of_a_new_namespace_are_known_at_once,
        ),
        ("unknown_namespace_gets_a_warning", namespaces::unknown_namespace_gets_a_warning),
        ("node_versions_decide_on_native_sidecars", nodes::node_versions_decide_on_native_sidecars),
    ];
    let trials = stories.into_iter().map(|(name, story)| {
        let server = Arc::clone(&server);
        Trial::test(name, move || play(&server, name, story))
    });
    let Conclusion { num_failed, .. } = libtest_mimic::run(&arguments, trials.collect());
    drop(server);
    Ok(if num_failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn play(server: &ApiServers, name: &str, story: Story) -> Result<(), Failed> {
    let fixture =
        Fixture::set(server, &name.replace('_', "-")).map_err(|error| format!("{error:?}"))?;
    story(&fixture);
    Ok(())
}

/// The built program.
fn sidecar_injector() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sidecar-injector"))
}
