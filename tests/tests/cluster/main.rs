//! Tests on a real cluster: one node for all of them, a namespace for each.
//!
//! They run one after the other, in this order, on the main thread: the node lives as long as the
//! thread that started it.

mod app_pod;
mod capture;
mod cni;
mod cni_daemon_set;
mod cni_reboot;
mod configuration;
mod control_plane;
mod difference;
mod dns;
mod dry_run;
mod fixture;
mod gateway;
mod hold;
mod injection;
mod install;
mod istioctl;
mod job;
mod manual_injection;
mod node;
mod outage;
mod overrides;
mod probes;
mod reinvocation;
mod replacement;
mod second_webhook;
mod shutdown;
mod signer;
mod tproxy;
mod traffic;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use e2e::failure;
use libtest_mimic::{Arguments, Failed, Trial};
use rustix::process::geteuid;

use fixture::Fixture;

fn main() -> Result<ExitCode> {
    if geteuid().is_root() && !has_shared_root()? {
        start_with_shared_mounts()?;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let fixture = Arc::new(Fixture::default());
    let trials = STORIES.iter().map(|(name, story)| {
        let fixture = Arc::clone(&fixture);
        let tell =
            move || story(&fixture).map_err(|error| Failed::from(failure::tell(name, &error)));
        Trial::test(*name, tell)
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    let fixture = Arc::into_inner(fixture).context("a story still holds the cluster")?;
    fixture.take_down(conclusion.has_failed())?;
    Ok(conclusion.exit_code())
}

/// True if mounts below `/` reach copies of it, as on nodes: pods that mount a folder with
/// `HostToContainer` need it.
fn has_shared_root() -> Result<bool> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("reading the mounts")?;
    let is_root = |line: &&str| line.split(' ').nth(4) == Some("/");
    let root = mounts.lines().rfind(is_root).context("there is no mount at /")?;
    Ok(root.split(' ').any(|field| field.starts_with("shared:")))
}

/// Runs this program again, in a mount namespace of its own in which all mounts are shared. Returns
/// only with an error.
fn start_with_shared_mounts() -> Result<()> {
    let program = env::current_exe().context("finding this program")?;
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "shared", "--"]).arg(program);
    bail!("unshare: {}", unshare.args(env::args_os().skip(1)).exec())
}

type Story = fn(&Fixture) -> Result<()>;

const STORIES: [(&str, Story); 27] = [
    ("deployment_answers_through_its_service", node::deployment_answers_through_its_service),
    ("manually_written_pod_is_captured", capture::manually_written_pod_is_captured),
    ("injector_becomes_ready_and_trusted", install::injector_becomes_ready_and_trusted),
    ("labelled_namespace_gets_sidecars", injection::labelled_namespace_gets_sidecars),
    ("pod_that_opts_out_has_no_sidecar", injection::pod_that_opts_out_has_no_sidecar),
    ("both_envoys_count_captured_traffic", traffic::both_envoys_count_captured_traffic),
    (
        "api_server_accepts_every_injected_example",
        dry_run::api_server_accepts_every_injected_example,
    ),
    ("api_server_accepts_every_injected_layout", dry_run::api_server_accepts_every_injected_layout),
    (
        "api_server_accepts_our_injection_of_istios_cases",
        dry_run::api_server_accepts_our_injection_of_istios_cases,
    ),
    (
        "changed_config_map_applies_to_the_next_pod",
        configuration::changed_config_map_applies_to_the_next_pod,
    ),
    ("manual_injection_equals_automatic", manual_injection::manual_injection_equals_automatic),
    ("gateway_answers_and_captures_nothing", gateway::gateway_answers_and_captures_nothing),
    (
        "kubelet_probes_the_application_through_its_proxy",
        probes::kubelet_probes_the_application_through_its_proxy,
    ),
    ("job_with_a_native_sidecar_completes", job::job_with_a_native_sidecar_completes),
    (
        "job_with_a_classic_sidecar_ends_by_quitquitquit",
        job::job_with_a_classic_sidecar_ends_by_quitquitquit,
    ),
    (
        "last_request_after_sigterm_leaves_by_the_proxy",
        shutdown::last_request_after_sigterm_leaves_by_the_proxy,
    ),
    ("dns_proxy_resolves_as_the_clusters_dns", dns::dns_proxy_resolves_as_the_clusters_dns),
    ("traffic_outlives_the_control_plane", outage::traffic_outlives_the_control_plane),
    ("tproxy_keeps_the_client_address", tproxy::tproxy_keeps_the_client_address),
    (
        "application_is_held_until_its_proxy_is_ready",
        hold::application_is_held_until_its_proxy_is_ready,
    ),
    ("user_supplied_proxy_fields_take_effect", overrides::user_supplied_proxy_fields_take_effect),
    (
        "reinvocation_leaves_an_injected_pod_unchanged",
        reinvocation::reinvocation_leaves_an_injected_pod_unchanged,
    ),
    (
        "cluster_signer_signs_only_for_injector_pods",
        signer::cluster_signer_signs_only_for_injector_pods,
    ),
    (
        "cni_plugin_captures_pods_without_privileges",
        cni::cni_plugin_captures_pods_without_privileges,
    ),
    (
        "daemon_set_installs_repairs_and_leaves_the_node_as_it_was",
        cni_daemon_set::daemon_set_installs_repairs_and_leaves_the_node_as_it_was,
    ),
    ("no_pod_starts_without_its_sidecar", replacement::no_pod_starts_without_its_sidecar),
    (
        "rebooted_node_starts_no_pod_without_capture",
        cni_reboot::rebooted_node_starts_no_pod_without_capture,
    ),
];
