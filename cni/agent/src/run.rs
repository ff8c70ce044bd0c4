//! The agent, from its start until it is terminated.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
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
use crate::retry::until_ok;
use crate::runtime_version::reads_drop_ins;
use crate::{metrics_server, question_server};

/// Installs the plugin, keeps it installed, answers its questions and repairs pods, until SIGTERM or
/// SIGINT. What is installed stays: pods are made and deleted without this program.
///
/// The installation waits for nothing: neither for a port, the socket or the API server, nor for the
/// name of the node.
pub async fn run(arguments: &Arguments) -> Result<()> {
    let node = &arguments.node;
    let prepared = create_run_dir(&node.cni_agent_run_dir)
        .and_then(|()| forget_readiness(&node.cni_agent_run_dir));
    if let Err(error) = prepared {
        tracing::warn!("{}; hint: mount the folder writable", with_causes(error.as_ref()));
    }
    let metrics = Arc::new(Metrics::default());
    let (triggers, triggered) = mpsc::unbounded_channel();
    // Until the API server names the runtime, what an earlier run of the agent chose stays.
    let found = read_conf_dir(&node.mounted_cni_net_dir).unwrap_or_default();
    let (drop_ins, drop_ins_known) = watch::channel(found.drop_ins().next().is_some());
    let (warnings, warned) = mpsc::unbounded_channel();
    let installer = Installer::new(arguments, metrics.clone(), triggers.clone(), warnings)?;
    // Pods that are made from now on are captured.
    let installer = tokio::spawn(installer.run(drop_ins_known));
    if node.monitoring_port != 0 {
        tokio::spawn(metrics_server::serve(node.monitoring_port, metrics.clone()));
    }
    let pods = Arc::new(NodePods::without(arguments.configuration.excluded()));
    let client = Arc::new(OnceLock::new());
    let run_dir = node.cni_agent_run_dir.clone();
    tokio::spawn(question_server::serve(run_dir, pods.clone(), client.clone()));
    let repair = Repair { arguments: arguments.clone(), metrics, pods, triggers, triggered };
    tokio::spawn(repair.start(client, drop_ins, warned));
    tokio::select! {
        terminated = wait_for_end() => terminated?,
        ended = installer => bail!("the installer ended: {ended:?}"),
    }
    tracing::info!("terminated; plugin and configuration stay on the node");
    Ok(())
}

/// Tasks of the agent that need the API server.
struct Repair {
    arguments: Arguments,
    metrics: Arc<Metrics>,
    pods: Arc<NodePods>,
    triggers: mpsc::UnboundedSender<Trigger>,
    triggered: mpsc::UnboundedReceiver<Trigger>,
}

impl Repair {
    /// Starts the tasks, once there is a client.
    async fn start(
        self,
        shared: Arc<OnceLock<Client>>,
        drop_ins: watch::Sender<bool>,
        warned: mpsc::UnboundedReceiver<String>,
    ) {
        let node = &self.arguments.node;
        let client = wait_for_client(node).await;
        // The only writer.
        let _ = shared.set(client.clone());
        let Some(name) = node.node_name.clone().or_else(|| node.repair_node_name.clone()) else {
            tracing::warn!(
                "no pod is repaired, because the name of the node is not known; hint: set \
                 --node-name, or KUBERNETES_NODE_NAME from spec.nodeName"
            );
            return;
        };
        let watched = (client.clone(), name.clone(), self.pods.clone());
        tokio::spawn(async move { watch_pods(watched.0, &watched.1, &watched.2).await });
        tokio::spawn(follow_runtime(client.clone(), name.clone(), drop_ins));
        let api = NodeApi::new(client, name);
        tokio::spawn(record_warnings(api.clone(), warned));
        let mode = self.arguments.repair.mode();
        if mode == RepairMode::Repair {
            tokio::spawn(watch_cache(node.mounted_cni_cache_dir.clone(), self.triggers));
        }
        let reconciler = Reconciler {
            cache: node.mounted_cni_cache_dir.clone(),
            mode,
            pods: self.pods,
            api,
            metrics: self.metrics,
            reported: BTreeMap::new(),
            untaint: node.untaint_node.then(|| readiness_file(&node.cni_agent_run_dir)),
        };
        reconciler.run(self.triggered).await;
    }
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
    run_dir.join(READY)
}

fn forget_readiness(run_dir: &Path) -> Result<()> {
    let file = readiness_file(run_dir);
    remove_if_present(&file).with_context(|| format!("removing {}", file.display()))
}

/// Creates the run folder. Only root may ask, and see what is asked: the kubelet makes folders that
/// others can read.
pub(super) fn create_run_dir(folder: &Path) -> Result<()> {
    let created = fs::create_dir_all(folder)
        .and_then(|()| fs::set_permissions(folder, Permissions::from_mode(0o700)));
    created.with_context(|| format!("--cni-agent-run-dir {}", folder.display()))
}

/// Waits for a client of the API server. Its files may come later than the agent.
async fn wait_for_client(node: &NodeArgs) -> Client {
    until_ok(|| async move {
        client(node).await.map_err(|error| {
            format!(
                "without the API server, no pod is repaired, and no question about pods of other \
                 injectors is answered: {}",
                with_causes(error.as_ref())
            )
        })
    })
    .await
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

/// Follows the container runtime of the node: another version may have other places for the entry.
async fn follow_runtime(client: Client, name: String, drop_ins: watch::Sender<bool>) {
    let api: Api<Node> = Api::all(client);
    let mut last = String::new();
    loop {
        let (text, pause) = match api.get(&name).await {
            Ok(node) => {
                let info = node.status.and_then(|status| status.node_info);
                let version = info.map(|info| info.container_runtime_version).unwrap_or_default();
                let reads = reads_drop_ins(&version);
                drop_ins.send_if_modified(|known| std::mem::replace(known, reads) != reads);
                (format!("{version}, which reads drop-ins: {reads}"), NEW_RUNTIME)
            }
            Err(error) => (with_causes(&error), AGAIN),
        };
        if text != last {
            tracing::info!("node {name}: {text}");
        }
        last = text;
        tokio::time::sleep(pause).await;
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

/// File of the run folder that exists while plugin and configuration are in place.
pub const READY: &str = "ready";
const AGAIN: Duration = Duration::from_secs(1);
/// Interval of questions for the version of the runtime.
const NEW_RUNTIME: Duration = Duration::from_secs(300);
