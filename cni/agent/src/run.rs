//! The agent, from its start until it is terminated.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, Config};
use kube_access::{kubeconfig, with_causes};
use local_files::remove_if_present;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use crate::args::{Arguments, NodeArgs};
use crate::folder_watch::FolderWatch;
use crate::install::files::read_conf_dir;
use crate::installer::Installer;
use crate::metrics::Metrics;
use crate::node_api::NodeApi;
use crate::node_pods::{NodePods, watch_pods};
use crate::reconciler::{Reconciler, RepairMode, Trigger};
use crate::runtime_version::reads_drop_ins;
use crate::{metrics_server, question_server};

/// Installs the plugin, keeps it installed, answers its questions and repairs pods, until SIGTERM or
/// SIGINT. What is installed stays: pods are made and deleted without this program.
pub async fn run(arguments: &Arguments) -> Result<()> {
    let node = &arguments.node;
    create_run_dir(&node.cni_agent_run_dir)?;
    forget_readiness(&node.cni_agent_run_dir)?;
    let metrics = Arc::new(Metrics::default());
    if node.monitoring_port != 0 {
        let port = node.monitoring_port;
        let listener = metrics_server::bind(port).await;
        let listener = listener.with_context(|| format!("--monitoring-port {port}"))?;
        tokio::spawn(metrics_server::serve(listener, metrics.clone()));
    }
    let pods = Arc::new(NodePods::default());
    let socket = question_server::bind(&node.cni_agent_run_dir);
    let socket = socket.with_context(|| {
        format!("--cni-agent-run-dir {}: creating the socket", node.cni_agent_run_dir.display())
    })?;
    let (triggers, triggered) = mpsc::unbounded_channel();
    // Until the API server names the runtime, what an earlier run of the agent chose stays.
    let found = read_conf_dir(&node.mounted_cni_net_dir).unwrap_or_default();
    let (drop_ins, drop_ins_known) = watch::channel(found.drop_ins().next().is_some());
    let (warnings, warned) = mpsc::unbounded_channel();
    let installer = Installer::new(arguments, metrics.clone(), triggers.clone(), warnings)?;
    // Pods that are made from now on are captured, without an API server.
    let installer = tokio::spawn(installer.run(drop_ins_known));
    let client = match client(node).await {
        Ok(client) => Some(client),
        Err(error) => {
            tracing::warn!(
                "without the API server, no pod is repaired, and no question about pods of other \
                 injectors is answered: {}",
                with_causes(error.as_ref())
            );
            None
        }
    };
    tokio::spawn(question_server::serve(socket, pods.clone(), client.clone()));
    if let Some(client) = client {
        let name = node_name(node)?;
        let watched = (client.clone(), name.clone(), pods.clone());
        tokio::spawn(async move { watch_pods(watched.0, &watched.1, &watched.2).await });
        tokio::spawn(find_runtime(client.clone(), name.clone(), drop_ins));
        let api = NodeApi::new(client, name);
        tokio::spawn(record_warnings(api.clone(), warned));
        let mode = arguments.repair.mode();
        if mode == RepairMode::Repair {
            tokio::spawn(watch_cache(node.mounted_cni_cache_dir.clone(), triggers));
        }
        let reconciler = Reconciler {
            cache: node.mounted_cni_cache_dir.clone(),
            mode,
            pods,
            api: api.clone(),
            metrics,
            reported: BTreeMap::new(),
            untaint: node.untaint_node.then(|| readiness_file(&node.cni_agent_run_dir)),
        };
        tokio::spawn(reconciler.run(triggered));
    }
    tokio::select! {
        terminated = wait_for_end() => terminated?,
        ended = installer => bail!("the installer ended: {ended:?}"),
    }
    tracing::info!("terminated; plugin and configuration stay on the node");
    Ok(())
}

/// Waits for SIGTERM or SIGINT.
pub async fn wait_for_end() -> Result<()> {
    let mut terminated = signal(SignalKind::terminate()).context("waiting for SIGTERM")?;
    let mut interrupted = signal(SignalKind::interrupt()).context("waiting for SIGINT")?;
    tokio::select! {
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
    }
    Ok(())
}

/// Fails unless plugin and configuration are in place, as the running agent has found.
pub fn ready(arguments: &Arguments) -> Result<()> {
    let file = readiness_file(&arguments.node.cni_agent_run_dir);
    if !file.exists() {
        bail!("plugin and configuration are not installed; hint: the agent's log has the reason");
    }
    Ok(())
}

/// Name of the file that exists while plugin and configuration are in place.
pub(super) fn readiness_file(run_dir: &Path) -> PathBuf {
    run_dir.join("ready")
}

fn forget_readiness(run_dir: &Path) -> Result<()> {
    let file = readiness_file(run_dir);
    remove_if_present(&file).with_context(|| format!("removing {}", file.display()))
}

/// Only root may ask, and see what is asked. The kubelet makes folders that others can read.
fn create_run_dir(folder: &Path) -> Result<()> {
    let created = fs::create_dir_all(folder)
        .and_then(|()| fs::set_permissions(folder, Permissions::from_mode(0o700)));
    created.with_context(|| format!("--cni-agent-run-dir {}", folder.display()))
}

async fn client(node: &NodeArgs) -> Result<Client> {
    let config = match &node.kubeconfig {
        Some(file) => {
            let origin = format!("--kubeconfig `{}`", file.display());
            kubeconfig::from_file(file, &origin, None).await?
        }
        None => Config::incluster()
            .context("finding the API server; hint: outside of a pod, use --kubeconfig")?,
    };
    Client::try_from(config).context("creating the client of the API server")
}

fn node_name(node: &NodeArgs) -> Result<String> {
    let name = node.node_name.as_ref().or(node.repair_node_name.as_ref());
    name.cloned().context(
        "the name of the node is not known; hint: set --node-name, or KUBERNETES_NODE_NAME from \
         spec.nodeName",
    )
}

/// Asks for the container runtime of the node until there is an answer.
async fn find_runtime(client: Client, name: String, drop_ins: watch::Sender<bool>) {
    let api: Api<Node> = Api::all(client);
    loop {
        match api.get(&name).await {
            Ok(node) => {
                let info = node.status.and_then(|status| status.node_info);
                let version = info.map(|info| info.container_runtime_version).unwrap_or_default();
                let reads = reads_drop_ins(&version);
                tracing::info!("node {name}: {version}, which reads drop-ins: {reads}");
                // The installer lives as long as the program.
                let _ = drop_ins.send(reads);
                return;
            }
            Err(error) => tracing::debug!("node {name}: {}", with_causes(&error)),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Records warnings about the node as Events.
async fn record_warnings(api: NodeApi, mut warnings: mpsc::UnboundedReceiver<String>) {
    while let Some(warning) = warnings.recv().await {
        api.record_of_node(&warning).await;
    }
}

/// Wakes up the reconciler when a sandbox has been attached to the network.
async fn watch_cache(folder: PathBuf, triggers: mpsc::UnboundedSender<Trigger>) {
    loop {
        let watch = FolderWatch::new().and_then(|watch| watch.add(&folder).map(|()| watch));
        let Ok(watch) = watch else {
            // libcni creates the folder with its first attachment.
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        while watch.changed().await.is_ok() {
            if triggers.send(Trigger::NewSandbox).is_err() {
                return;
            }
            if !folder.exists() {
                break;
            }
        }
    }
}

const AGAIN: Duration = Duration::from_secs(1);
