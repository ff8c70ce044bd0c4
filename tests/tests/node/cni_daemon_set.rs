//! The node agent as `manifests/cni` runs it.

use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::cluster::Cluster;
use e2e::manifests;
use e2e::namespace::{address_of, name_of};
use e2e::programs::Programs;
use e2e::wait;

use crate::cni::{checking_pod, configurations, pod, run_folder, succeeds_at_once};
use crate::fixture::Fixture;

pub(crate) fn daemon_set_installs_repairs_and_leaves_the_node_as_it_was(
    fixture: &Fixture,
) -> Result<()> {
    let cluster = fixture.cluster();
    let before = configurations(cluster)?;
    let namespace = cluster.namespace("cni-node", &[])?;
    let early = ["early-request", "early-foreign"];
    for name in early {
        let is_requested = name == "early-request";
        namespace.apply(&checking_pod(cluster, name, is_requested)?.to_string())?;
    }
    for name in early {
        wait::until("the pod has a sandbox", || address_of(&namespace.get(&pod(name))?))?;
    }

    apply(cluster, &of_this_node(cluster, "cni")?)?;
    let agent = cluster.existing_namespace("istio-cni");
    agent.wait_until_rolled_out(DAEMON_SET)?;
    ensure!(configurations(cluster)? != before, "a ready agent has installed nothing");
    namespace.apply(&checking_pod(cluster, "late-request", true)?.to_string())?;
    namespace.apply(&checking_pod(cluster, "late-foreign", false)?.to_string())?;
    for name in [early, ["late-request", "late-foreign"]].as_flattened() {
        succeeds_at_once(&namespace, name)?;
    }

    // The end of a pod of the agent removes nothing.
    let installed = configurations(cluster)?;
    let first = agent.pod(AGENT)?;
    agent.kubectl(&["delete", "pod", name_of(&first)])?;
    ensure!(configurations(cluster)? == installed, "the agent's end changed the configuration");
    namespace.apply(&checking_pod(cluster, "between", true)?.to_string())?;
    succeeds_at_once(&namespace, "between")?;
    agent.wait_until_rolled_out(DAEMON_SET)?;
    namespace.apply(&checking_pod(cluster, "after", false)?.to_string())?;
    succeeds_at_once(&namespace, "after")?;

    let uninstall = of_this_node(cluster, "cni-uninstall")?;
    apply(cluster, &uninstall)?;
    agent.wait_until_rolled_out(DAEMON_SET)?;
    wait::until("the entry is removed", || {
        let now = configurations(cluster)?;
        ensure!(now == before, "{now:?}");
        Ok(())
    })?;
    namespace.kubectl(&["delete", "pods", "--all", "--timeout=120s", "--grace-period=1"])?;
    let delete = ["delete", "--timeout=120s", "--filename", "-"];
    cluster.kubectl().must_with_input(delete, &uninstall)?;
    // Stays on a node, as the pages say: a runtime that names it deletes no pod without it.
    fs::remove_file(cluster.network_plugins().join("istio-cni")).context("removing the plugin")?;
    namespace.delete()
}

/// Renders a folder of `manifests` with the paths of the test's node.
fn of_this_node(cluster: &Cluster, folder: &str) -> Result<String> {
    let mut text = manifests::render(&Programs::find()?, folder, &[], &[])?;
    let run_folder = run_folder(cluster);
    let paths = [
        (" path: ", "/opt/cni/bin", cluster.network_plugins()),
        (" path: ", "/etc/cni/net.d", cluster.network_configurations()),
        (" path: ", "/var/run/netns", cluster.network_namespaces()),
        (" mountPath: ", "/var/run/netns", cluster.network_namespaces()),
        (" path: ", "/var/run/istio-cni", run_folder.clone()),
        (" mountPath: ", "/var/run/istio-cni", run_folder.clone()),
    ];
    for (key, path, here) in paths {
        let line = format!("{key}{path}\n");
        ensure!(text.contains(&line), "{folder} has no line{line}");
        text = text.replace(&line, &format!("{key}{}\n", here.display()));
    }
    let (first, run_folder) = ("        - name: KUBERNETES_NODE_NAME\n", run_folder.display());
    ensure!(text.contains(first), "{folder} does not set KUBERNETES_NODE_NAME");
    let added =
        format!("        - name: CNI_AGENT_RUN_DIR\n          value: {run_folder}\n{first}");
    Ok(text.replace(first, &added))
}

/// Applies manifests, which the API server takes without a warning.
fn apply(cluster: &Cluster, manifests: &str) -> Result<()> {
    let talk = cluster.apply(manifests)?;
    ensure!(!talk.lines().any(|line| line.starts_with("Warning:")), "{talk}");
    Ok(())
}

const DAEMON_SET: &str = "daemonset/istio-cni-node";
const AGENT: &str = "k8s-app=istio-cni-node";
