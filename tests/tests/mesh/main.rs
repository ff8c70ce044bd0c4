//! The whole mesh on a real node: `manifests/install-mesh.yaml`, a label, and Deployments.
//!
//! The stories run one after the other, in this order, on the main thread: the node lives as long as the
//! thread that started it.

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

use anyhow::{Context, Result, bail, ensure};
use e2e::cluster::Cluster;
use e2e::programs::{Programs, repository};
use e2e::{failure, images, wait};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> Result<ExitCode> {
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    if arguments.list {
        let trials = STORIES.map(|(name, _)| Trial::test(name, || Ok(())));
        return Ok(libtest_mimic::run(&arguments, trials.into()).exit_code());
    }
    let programs = Programs::find()?;
    let images = [
        images::ours(&programs)?,
        vec![images::proxy(&programs)?, images::busybox(&programs)?],
        vec![images::app(&programs, Path::new(env!("CARGO_BIN_EXE_app")))?],
    ];
    let mut cluster = Cluster::start(&programs, &images.concat())?;
    let installed = install(&cluster).map_err(|error| format!("{error:#}"));
    let outcomes: Vec<_> = STORIES
        .iter()
        .map(|(name, story)| {
            let outcome = installed.clone().map_err(anyhow::Error::msg);
            let outcome = outcome.and_then(|()| story(&mut cluster));
            let outcome = outcome.map_err(|error| failure::tell(name, &error));
            Trial::test(*name, move || outcome.map_err(Failed::from))
        })
        .collect();
    let conclusion = libtest_mimic::run(&arguments, outcomes);
    cluster.stop().context("taking the cluster down")?;
    Ok(conclusion.exit_code())
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
    let system = cluster.existing_namespace("istio-system");
    system.wait_until_available("pilot-discovery")?;
    system.wait_until_available("sidecar-injector")?;
    let configuration = "mutatingwebhookconfiguration/istio-sidecar-injector";
    let bundles = "--output=jsonpath={.webhooks[*].clientConfig.caBundle}";
    wait::until("every entry of the webhook has its caBundle", || {
        let found = cluster.kubectl().must(["get", configuration, bundles])?;
        let count = found.split_whitespace().count();
        if count == ENTRIES { Ok(()) } else { bail!("{count} of {ENTRIES} have one") }
    })
}

type Story = fn(&mut Cluster) -> Result<()>;

/// Lists the stories with their names.
macro_rules! stories {
    ($($module:ident::$story:ident)*) => {
        [$((stringify!($story), (|cluster| $module::$story(cluster)) as Story)),*]
    };
}

const STORIES: [(&str, Story); 12] = stories![
    stories::requests_between_sidecars_are_encrypted_on_the_wire
    stories::strict_mode_rejects_plaintext
    commands::istioctl_shows_proxies_and_their_configuration
    protocols::every_protocol_works_with_each_interception
    protocols::names_of_every_kind_of_service_lead_to_it
    changes::rolling_updates_and_scaling_lose_no_request
    changes::killed_control_plane_loses_no_request
    kills::killed_sidecars_lose_only_requests_in_flight
    kills::killed_api_server_and_etcd_lose_no_request
    changes::labels_of_a_node_become_the_locality_of_its_endpoints
    changes::absent_control_plane_changes_nothing_and_catches_up
    rotation::rotation_of_leaves_and_root_loses_no_request
];
/// Number of Istio's entries for the default revision.
const ENTRIES: usize = 4;
