//! Use of a cluster's objects by the built program, with a real API server.

#![allow(clippy::unwrap_used, reason = "what a test's own helpers unwrap fails that test")]

#[path = "../webhook/certificate.rs"]
mod certificate;
#[path = "../webhook/client.rs"]
#[allow(dead_code, reason = "the tests of the server use all of it")]
mod client;
mod namespaces;
mod nodes;
mod objects;
#[path = "../webhook/program.rs"]
#[allow(dead_code, reason = "the tests of the server use all of it")]
mod program;
mod proxy_configs;
mod stage;

use std::process::{Command, ExitCode};
use std::sync::Arc;

use anyhow::Result;
use e2e::api_servers::ApiServers;
use e2e::programs::Programs;
use libtest_mimic::{Arguments, Conclusion, Failed, Trial};

use stage::Stage;

type Story = fn(&Stage<'_>);

fn main() -> Result<ExitCode> {
    let arguments = Arguments::from_args();
    let Some(programs) = Programs::of_api_servers_if_any("injector cluster")? else {
        return Ok(ExitCode::SUCCESS);
    };
    let server = Arc::new(ApiServers::start(&programs, 1)?);
    let stories: [(&str, Story); 5] = [
        (
            "proxy_configs_count_for_the_next_review",
            proxy_configs::proxy_configs_count_for_the_next_review,
        ),
        ("without_rights_there_is_one_warning", proxy_configs::without_rights_there_is_one_warning),
        (
            "a_new_namespaces_users_are_known_at_once",
            namespaces::a_new_namespaces_users_are_known_at_once,
        ),
        ("an_unknown_namespace_is_warned_of", namespaces::an_unknown_namespace_is_warned_of),
        (
            "the_versions_of_nodes_decide_on_native_sidecars",
            nodes::the_versions_of_nodes_decide_on_native_sidecars,
        ),
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
    let stage =
        Stage::set(server, &name.replace('_', "-")).map_err(|error| format!("{error:?}"))?;
    story(&stage);
    Ok(())
}

/// The built program.
fn sidecar_injector() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sidecar-injector"))
}
