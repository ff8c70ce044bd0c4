//! Tests on a real cluster: one node for all of them, a namespace for each.
//!
//! They run one after the other, in this order, on the main thread: the node lives as long as the
//! thread that started it.

mod app_pod;
mod by_hand;
mod capture;
mod configuration;
mod difference;
mod dry_run;
mod gateway;
mod hold;
mod injection;
mod install;
mod istioctl;
mod job;
mod node;
mod overrides;
mod probes;
mod reinvocation;
mod replacement;
mod second_webhook;
mod signer;
mod stage;
mod tproxy;
mod traffic;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use e2e::failure;
use libtest_mimic::{Arguments, Failed, Trial};

use stage::Stage;

fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let stage = Arc::new(Stage::default());
    let trials = STORIES.iter().map(|(name, story)| {
        let stage = Arc::clone(&stage);
        let tell = move || story(&stage).map_err(|error| Failed::from(failure::tell(name, &error)));
        Trial::test(*name, tell)
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    let stage = Arc::into_inner(stage).context("a story still holds the cluster")?;
    stage.take_down(conclusion.has_failed())?;
    Ok(conclusion.exit_code())
}

type Story = fn(&Stage) -> Result<()>;

const STORIES: [(&str, Story); 20] = [
    ("a_deployment_answers_by_its_service", node::a_deployment_answers_by_its_service),
    ("a_pod_written_by_hand_is_captured", capture::a_pod_written_by_hand_is_captured),
    ("the_injector_becomes_ready_and_trusted", install::the_injector_becomes_ready_and_trusted),
    ("a_labelled_namespace_gets_sidecars", injection::a_labelled_namespace_gets_sidecars),
    ("a_pod_that_opts_out_stays_plain", injection::a_pod_that_opts_out_stays_plain),
    ("both_envoys_count_what_is_captured", traffic::both_envoys_count_what_is_captured),
    (
        "the_api_server_accepts_every_injected_example",
        dry_run::the_api_server_accepts_every_injected_example,
    ),
    (
        "the_api_server_accepts_every_injected_layout",
        dry_run::the_api_server_accepts_every_injected_layout,
    ),
    (
        "the_api_server_accepts_istios_cases_as_we_inject_them",
        dry_run::the_api_server_accepts_istios_cases_as_we_inject_them,
    ),
    (
        "a_changed_config_map_counts_for_the_next_pod",
        configuration::a_changed_config_map_counts_for_the_next_pod,
    ),
    ("by_hand_equals_automatic", by_hand::by_hand_equals_automatic),
    ("a_gateway_answers_and_captures_nothing", gateway::a_gateway_answers_and_captures_nothing),
    (
        "the_kubelet_sees_the_application_through_its_proxy",
        probes::the_kubelet_sees_the_application_through_its_proxy,
    ),
    ("a_job_beside_a_native_sidecar_completes", job::a_job_beside_a_native_sidecar_completes),
    ("tproxy_keeps_the_clients_address", tproxy::tproxy_keeps_the_clients_address),
    (
        "the_application_is_held_until_its_proxy_is_ready",
        hold::the_application_is_held_until_its_proxy_is_ready,
    ),
    ("what_the_user_says_of_the_proxy_runs", overrides::what_the_user_says_of_the_proxy_runs),
    (
        "a_pod_that_was_injected_before_is_left_as_it_is",
        reinvocation::a_pod_that_was_injected_before_is_left_as_it_is,
    ),
    (
        "a_signer_of_the_cluster_signs_for_pods_of_the_injector",
        signer::a_signer_of_the_cluster_signs_for_pods_of_the_injector,
    ),
    ("no_pod_comes_up_without_its_sidecar", replacement::no_pod_comes_up_without_its_sidecar),
];
