//! Injection and capture on a real node: one node for all stories, a namespace for each.
//!
//! The main thread starts the node, since the node lives as long as the thread that started it.

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
use std::{env, fs};

use anyhow::{Context, Result, bail};
use e2e::phases::{self, Phase};
use e2e::stories;
use rustix::process::geteuid;

use fixture::Fixture;

fn main() -> Result<ExitCode> {
    if geteuid().is_root() && !has_shared_root()? {
        start_with_shared_mounts()?;
    }
    phases::run(&PHASES, Fixture::start, Fixture::take_down)
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

const PHASES: [Phase<Fixture>; 7] = [
    stories![
        node::deployment_answers_through_its_service
        capture::manually_written_pod_is_captured
        install::injector_becomes_ready_and_trusted
    ],
    // Each in namespaces of its own.
    stories![
        signer::cluster_signer_signs_only_for_injector_pods
        shutdown::last_request_after_sigterm_leaves_by_the_proxy
        traffic::both_envoys_count_captured_traffic
        probes::kubelet_probes_the_application_through_its_proxy
        injection::labelled_namespace_gets_sidecars
        injection::pod_that_opts_out_has_no_sidecar
        dry_run::api_server_accepts_every_injected_example
        dry_run::api_server_accepts_every_injected_layout
        dry_run::api_server_accepts_our_injection_of_istios_cases
        manual_injection::manual_injection_equals_automatic
        gateway::gateway_answers_and_captures_nothing
        job::job_with_a_native_sidecar_completes
        job::job_with_a_classic_sidecar_ends_by_quitquitquit
        dns::dns_proxy_resolves_as_the_clusters_dns
        tproxy::tproxy_keeps_the_client_address
        hold::application_is_held_until_its_proxy_is_ready
        overrides::user_supplied_proxy_fields_take_effect
        reinvocation::reinvocation_leaves_an_injected_pod_unchanged
    ],
    // One changes the injector's settings, the other one the control plane.
    stories![
        configuration::changed_config_map_applies_to_the_next_pod
        outage::traffic_outlives_the_control_plane
    ],
    stories![cni::cni_plugin_captures_pods_without_privileges],
    stories![cni_daemon_set::daemon_set_installs_repairs_and_leaves_the_node_as_it_was],
    stories![replacement::no_pod_starts_without_its_sidecar],
    stories![cni_reboot::rebooted_node_starts_no_pod_without_capture],
];
