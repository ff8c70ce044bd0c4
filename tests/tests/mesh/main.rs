//! The whole mesh on a real node: `manifests/install-mesh.yaml`, a label, and Deployments.
//!
//! The stories run one after the other, in this order, on the main thread: the node lives as long as the
//! thread that started it.

mod capture;
mod changes;
mod commands;
mod stories;

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
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
        vec![images::proxy(&programs, images::PROXY)?, images::busybox(&programs)?],
    ];
    let cluster = Cluster::start(&programs, &images.concat())?;
    let installed = install(&cluster).map_err(|error| format!("{error:#}"));
    let outcomes: Vec<_> = STORIES
        .iter()
        .map(|(name, story)| {
            let outcome = installed.clone().map_err(anyhow::Error::msg);
            let outcome = outcome.and_then(|()| story(&cluster));
            let outcome = outcome.map_err(|error| failure::tell(name, &error));
            Trial::test(*name, move || outcome.map_err(Failed::from))
        })
        .collect();
    let conclusion = libtest_mimic::run(&arguments, outcomes);
    cluster.stop().context("taking the cluster down")?;
    Ok(conclusion.exit_code())
}

/// Installs the mesh as a user does.
fn install(cluster: &Cluster) -> Result<()> {
    let path = repository().join("manifests/install-mesh.yaml");
    cluster.apply(&fs::read_to_string(path)?)?;
    let system = cluster.existing_namespace("istio-system");
    system.wait_until_available("pilot-discovery")?;
    system.wait_until_available("sidecar-injector")?;
    let configuration = "mutatingwebhookconfiguration/istio-sidecar-injector";
    let bundles = "--output=jsonpath={.webhooks[*].clientConfig.caBundle}";
    wait::until("every entry of the webhook has its caBundle", PATIENCE, || {
        let found = cluster.kubectl().must(["get", configuration, bundles])?;
        let count = found.split_whitespace().count();
        if count == ENTRIES { Ok(()) } else { bail!("{count} of {ENTRIES} have one") }
    })
}

type Story = fn(&Cluster) -> Result<()>;

/// Lists the stories with their names.
macro_rules! stories {
    ($($module:ident::$story:ident)*) => { [$((stringify!($story), $module::$story as Story)),*] };
}

const STORIES: [(&str, Story); 5] = stories![
    stories::requests_between_sidecars_are_encrypted_on_the_wire
    stories::strict_mode_rejects_plaintext
    commands::istioctl_shows_proxies_and_their_configuration
    changes::rolling_updates_and_scaling_lose_no_request
    changes::killed_control_plane_loses_no_request
];
/// Number of Istio's entries for the default revision.
const ENTRIES: usize = 4;
const PATIENCE: Duration = Duration::from_secs(120);
