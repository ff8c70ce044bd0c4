//! Reports of `istioctl` on the pods of a real API server.

#![allow(clippy::unwrap_used, reason = "what a test's own helpers unwrap fails that test")]

mod analyze;
#[path = "../../../injector/tests/webhook/certificate.rs"]
mod certificate;
mod check_inject;
#[path = "../../../injector/tests/webhook/client.rs"]
#[allow(dead_code, reason = "the tests of the server use all of it")]
mod client;
mod client_flags;
mod command;
mod describe;
#[path = "../../../injector/tests/cluster/fixture.rs"]
#[allow(dead_code, reason = "the stories of the cluster use all of it")]
mod fixture;
mod istioctl;
mod kube_inject;
#[path = "../../../injector/tests/cluster/objects.rs"]
mod objects;
mod precheck;
#[path = "../../../injector/tests/webhook/program.rs"]
#[allow(dead_code, reason = "the tests of the server use all of it")]
mod program;
#[path = "../../../injector/tests/reports/shop.rs"]
#[allow(dead_code, reason = "the tests of Events use all of it")]
mod shop;
mod tag;

use std::process::{Command, ExitCode};
use std::sync::Arc;

use anyhow::Result;
use clap::Parser;
use e2e::api_servers::ApiServers;
use e2e::programs::Programs;
use injector::webhook::{self, config::args::Args};
use libtest_mimic::{Arguments, Conclusion, Failed, Trial};

type Story = fn(&ApiServers);

fn main() -> Result<ExitCode> {
    if std::env::var_os(AS_INJECTOR).is_some() {
        return Ok(serve());
    }
    let mut arguments = Arguments::from_args();
    let Some(programs) = Programs::of_api_servers_if_any("istioctl reports")? else {
        return Ok(ExitCode::SUCCESS);
    };
    // Each story speaks of all pods of the cluster.
    arguments.test_threads = Some(1);
    let server = Arc::new(ApiServers::start(&programs, 1)?);
    let stories: [(&str, Story); 16] = [
        ("check_inject_lists_pods_to_restart", istioctl::lists_pods_to_restart),
        ("check_inject_explains_a_pod", istioctl::explains_a_pod),
        ("check_inject_matches_the_api_server", istioctl::matches_the_api_server),
        ("check_inject_reads_files", check_inject::reads_files),
        ("describe_explains_traffic_of_a_pod", describe::describes_a_pod),
        ("tag_is_set_moved_and_removed", tag::is_set_moved_and_removed),
        ("kube_inject_equals_the_webhook", kube_inject::equals_the_webhook),
        ("kube_inject_finds_the_configuration", kube_inject::finds_the_configuration),
        (
            "kube_inject_without_permission_warns_and_continues",
            kube_inject::without_permission_warns_and_continues,
        ),
        (
            "kube_inject_without_files_equals_the_webhook",
            kube_inject::kube_inject_without_files_equals_the_webhook,
        ),
        ("analyze_reports_injection", analyze::reports_injection),
        ("precheck_lists_lost_objects", precheck::lists_lost_objects),
        ("flags_impersonate_users_and_groups", client_flags::impersonates_users_and_groups),
        ("flags_select_by_sets_of_labels", client_flags::selects_by_sets_of_labels),
        ("version_counts_images", client_flags::version_counts_images),
        ("outputs_match_their_schemas", client_flags::outputs_match_their_schemas),
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

/// This program as `sidecar-injector`: cargo does not build the program of another package for a
/// test.
fn sidecar_injector() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(AS_INJECTOR, "true");
    command
}

/// Does what `sidecar-injector` does.
fn serve() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    match webhook::run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(error.exit_code()),
    }
}

/// The variable that makes this program the webhook.
const AS_INJECTOR: &str = "ISTIOCTL_TESTS_SERVE";
