//! The whole mesh on a real node: `manifests/install-mesh.yaml`, a label, and Deployments.
//!
//! The main thread starts the node, since the node lives as long as the thread that started it.

mod capture;
mod changes;
mod commands;
mod kills;
mod load;
mod protocols;
mod rotation;
mod stories;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use e2e::cluster::Cluster;
use e2e::phases::{self, Phase};
use e2e::programs::{Programs, repository};
use e2e::{images, stories};

fn main() -> Result<ExitCode> {
    phases::run(&PHASES, start, |cluster, _| cluster.stop().context("taking the cluster down"))
}

fn start() -> Result<Cluster> {
    let programs = Programs::find()?;
    let images = [
        images::ours(&programs)?,
        vec![images::proxy(&programs)?, images::busybox(&programs)?],
        vec![images::app(&programs, Path::new(env!("CARGO_BIN_EXE_app")))?],
    ];
    let cluster = Cluster::start(&programs, &images.concat())?;
    install(&cluster)?;
    Ok(cluster)
}

/// Installs the mesh as a user does, with a short delay of a rotation.
fn install(cluster: &Cluster) -> Result<()> {
    let path = repository().join("manifests/install-mesh.yaml");
    let manifest = fs::read_to_string(path)?;
    let namespace = "        - --namespace=istio-system\n";
    ensure!(manifest.matches(namespace).count() == 1, "pilot-discovery has other arguments");
    // Roots reach pods within seconds, as the kubelet of the tests is set.
    let delay = format!("{namespace}        - --rootPropagationDelay=20s\n");
    cluster.apply(&manifest.replace(namespace, &delay))?;
    cluster.existing_namespace("istio-system").wait_until_available("pilot-discovery")?;
    cluster.wait_until_injector_serves()
}

const PHASES: [Phase<Cluster>; 9] = [
    stories![stories::requests_between_sidecars_are_encrypted_on_the_wire],
    stories![stories::strict_mode_rejects_plaintext],
    // Only one story of a phase watches the load.
    stories![
        changes::rolling_updates_and_scaling_lose_no_request
        protocols::every_protocol_works_with_each_interception
        commands::istioctl_shows_proxies_and_their_configuration
    ],
    stories![
        kills::killed_sidecars_lose_only_requests_in_flight
        protocols::names_of_every_kind_of_service_lead_to_it
    ],
    stories![changes::killed_control_plane_loses_no_request],
    stories![kills::killed_api_server_and_etcd_lose_no_request],
    stories![changes::labels_of_a_node_become_the_locality_of_its_endpoints],
    stories![changes::absent_control_plane_changes_nothing_and_catches_up],
    stories![rotation::rotation_of_leaves_and_root_loses_no_request],
];
