//! Capture by the CNI plugin `istio-cni`, which `install-cni` installs on the node.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{fs, io};

use anyhow::{Context, Result, ensure};
use e2e::cluster::Cluster;
use e2e::namespace::{Namespace, address_of};
use e2e::process::Process;
use e2e::programs::Programs;
use e2e::proxy::connections;
use e2e::{pod_processes, wait};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::Fixture;
use crate::istioctl::KubeInject;

pub(crate) fn cni_plugin_captures_pods_without_privileges(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster();
    let before = configurations(cluster)?;
    let namespace = cluster.namespace("cni", &[])?;

    // The sandboxes of these pods are made without the plugin.
    let early: Vec<_> = (0..8).map(|number| format!("early-{number}")).collect();
    for (number, name) in early.iter().enumerate() {
        namespace.apply(&checking_pod(cluster, name, number % 2 == 0)?.to_string())?;
    }
    for name in &early {
        wait::until("the pod has a sandbox", || address_of(&namespace.get(&pod(name))?))?;
    }
    let mut agent = Agent::start(cluster)?;
    let late: Vec<_> = (0..16).map(|number| format!("late-{number}")).collect();
    for (number, name) in late.iter().enumerate() {
        namespace.apply(&checking_pod(cluster, name, number % 2 == 0)?.to_string())?;
        // In the middle of whatever it does.
        agent.process.kill()?;
        undo(cluster, number)?;
        agent.process.start_again(cluster.folder())?;
    }
    for name in early.iter().chain(&late) {
        succeeds_at_once(&namespace, name)?;
    }
    let network = "network.conflist";
    fs::write(cluster.network_configurations().join(network), &before[network])?;
    for name in &early {
        wait::until("the repair is recorded", || {
            let events = namespace.kubectl(&[
                "get",
                "events",
                "--output=name",
                "--field-selector",
                &format!("involvedObject.name={name},reason=CaptureRepaired"),
            ])?;
            ensure!(!events.is_empty(), "no Event about {name}");
            Ok(())
        })?;
    }

    start_with_sidecars(&namespace)?;
    both_envoys_count(&namespace)?;
    kill_sandbox(&namespace, "server")?;
    both_envoys_count(&namespace)?;

    // Neither pods with a request nor pods without a sidecar need the agent.
    agent.process.kill()?;
    namespace.apply(&checking_pod(cluster, "orphan", true)?.to_string())?;
    let mut plain = checking_pod(cluster, "plain", false)?;
    plain["metadata"]["annotations"] = json!({});
    plain["spec"]["initContainers"] = json!([]);
    plain["spec"]["containers"][0]["command"] = json!(["sh", "-c", "exit 0"]);
    namespace.apply(&plain.to_string())?;
    namespace.apply(&checking_pod(cluster, "foreign", false)?.to_string())?;
    succeeds_at_once(&namespace, "orphan")?;
    succeeds_at_once(&namespace, "plain")?;
    is_refused_without_agent(&namespace, "foreign")?;
    agent.process.start_again(cluster.folder())?;
    succeeds_at_once(&namespace, "foreign")?;

    // Its end changes nothing; the removal is a command.
    let refused = agent.run(&["uninstall"])?;
    ensure!(!refused.status.success(), "uninstalled beside the agent");
    agent.process.signal(Signal::TERM)?;
    wait::until("the agent ends", || {
        ensure!(!agent.process.runs(), "it runs");
        Ok(())
    })?;
    ensure!(configurations(cluster)? != before, "the agent has removed the configuration");
    agent.succeeds(&["uninstall"])?;
    ensure!(configurations(cluster)? == before, "{:?}", configurations(cluster)?);
    let purged = agent.run(&["uninstall", "--purge"])?;
    let message = String::from_utf8_lossy(&purged.stderr).into_owned();
    ensure!(message.contains("attachments of pods name the plugin"), "{message}");
    namespace.kubectl(&["delete", "pods", "--all", "--timeout=120s", "--grace-period=1"])?;
    agent.succeeds(&["uninstall", "--purge"])?;
    ensure!(!cluster.network_plugins().join("istio-cni").exists(), "the plugin is there");
    namespace.delete()
}

/// Undoes a part of the installation, as other programs of a node do.
fn undo(cluster: &Cluster, number: usize) -> Result<()> {
    let configurations = cluster.network_configurations();
    match number % 4 {
        0 => fs::remove_file(configurations.join("00-istio-cni.conflist")).or_else(is_absent)?,
        1 => fs::remove_file(cluster.network_plugins().join("istio-cni")).or_else(is_absent)?,
        2 => {
            let (file, new) =
                (configurations.join("network.conflist"), configurations.join("network.new"));
            // The same network in another layout.
            let text = fs::read_to_string(&file)?;
            fs::write(&new, text.trim_end().to_owned() + &"\n".repeat(1 + number % 3))?;
            fs::rename(&new, &file)?;
        }
        _ => {}
    }
    Ok(())
}

/// The agent was killed before it wrote the file.
fn is_absent(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Starts a server and a client with sidecars, injected with the values of the component `cni`.
fn start_with_sidecars(namespace: &Namespace<'_>) -> Result<()> {
    let folder = TempDir::new()?;
    let file = folder.path().join("pods.json");
    let pods = [("server", SERVER), ("client", CLIENT)].map(|(name, command)| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"containers": [{"name": "app", "image": "busybox:1.37",
                "command": ["sh", "-c", command]}]}})
    });
    fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": pods}).to_string())?;
    let injected = KubeInject::new(file)
        .flags([
            ("--injectConfigFile", "manifests/base/inject_config.yaml"),
            ("--valuesFile", "manifests/components/cni/values.yaml"),
            ("--meshConfigFile", "manifests/base/mesh.yaml"),
        ])
        .run()?;
    ensure!(!injected.contains("NET_ADMIN"), "{injected}");
    namespace.apply(&injected)?;
    for name in ["server", "client"] {
        namespace.wait_for("condition=Ready", &pod(name))?;
    }
    Ok(())
}

/// Kills the pod's sandbox, and waits until the kubelet has made a new one.
fn kill_sandbox(namespace: &Namespace<'_>, name: &str) -> Result<()> {
    let before = namespace.get(&pod(name))?;
    pod_processes::kill_sandbox(&before)?;
    wait::until("the pod has a new sandbox", || {
        let now = namespace.get(&pod(name))?;
        ensure!(now["status"]["podIP"] != before["status"]["podIP"], "{:#}", now["status"]);
        Ok(())
    })?;
    namespace.wait_for("condition=Ready", &pod(name))
}

/// A request passes both sidecars.
fn both_envoys_count(namespace: &Namespace<'_>) -> Result<()> {
    let (server, client) = (namespace.get("pod/server")?, namespace.get("pod/client")?);
    let before = (connections(&client)?, connections(&server)?);
    let url = format!("http://{}:8080/", address_of(&server)?);
    let page = wait::until("the server answers", || {
        namespace.exec("client", "app", &["wget", "-q", "-O", "-", &url])
    })?;
    assert_eq!(page, "hello\n");
    let after = (connections(&client)?, connections(&server)?);
    ensure!(after.0.outbound > before.0.outbound, "the client's Envoy counts nothing");
    ensure!(after.1.inbound > before.1.inbound, "the server's Envoy counts nothing");
    Ok(())
}

/// A pod with the container that checks the rules, and an application that fails if it can connect:
/// no Envoy listens in this pod, so a captured connection is refused.
pub(crate) fn checking_pod(cluster: &Cluster, name: &str, is_requested: bool) -> Result<Value> {
    let arguments = json!([
        "istio-iptables",
        "-p",
        "15001",
        "-z",
        "15006",
        "-u",
        "1337",
        "-m",
        "REDIRECT",
        "-i",
        "*",
        "-x",
        "",
        "-b",
        "*",
        "-d",
        "15090,15021,15020",
        "--run-validation",
        "--skip-rule-apply"
    ]);
    let mut annotations = BTreeMap::from([(
        "sidecar.istio.io/status",
        json!({"initContainers": ["istio-validation"]}).to_string(),
    )]);
    if is_requested {
        annotations.insert("sidecar.outrigger.io/capture", json!({"args": arguments}).to_string());
    }
    let server = cluster.kubectl().must([
        "config",
        "view",
        "--minify",
        "--output=jsonpath={.clusters[0].cluster.server}",
    ])?;
    let server =
        server.trim().strip_prefix("https://").context("the API server has no address")?.to_owned();
    let check = format!("wget -O - http://{server}/ 2>&1 | grep 'Connection refused'");
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "restartPolicy": "Never",
            "initContainers": [{
                "name": "istio-validation",
                "image": "localhost/outrigger/istio-init:0.1.0",
                "args": arguments,
                "securityContext": {"runAsUser": 1337, "runAsGroup": 1337, "runAsNonRoot": true,
                    "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
            "containers": [{"name": "app", "image": "busybox:1.37", "command": ["sh", "-c", check]}],
        },
    }))
}

/// Waits until the pod has succeeded, without a restart.
pub(crate) fn succeeds_at_once(namespace: &Namespace<'_>, name: &str) -> Result<()> {
    namespace.wait_for("jsonpath={.status.phase}=Succeeded", &pod(name))?;
    let status = namespace.get(&pod(name))?;
    for list in ["initContainerStatuses", "containerStatuses"] {
        for container in status["status"][list].as_array().into_iter().flatten() {
            ensure!(container["restartCount"] == 0, "{name}: {container:#}");
        }
    }
    Ok(())
}

/// Waits for the Event about a pod that only the agent can judge.
pub(crate) fn is_refused_without_agent(namespace: &Namespace<'_>, name: &str) -> Result<()> {
    wait::until("the refusal names pod, reason and remedy", || {
        let events = namespace.kubectl(&[
            "get",
            "events",
            "--output=jsonpath={.items[*].message}",
            "--field-selector",
            &format!("involvedObject.name={name},reason=FailedCreatePodSandBox"),
        ])?;
        let pod = format!("pod {}/{name}: ", namespace.name());
        let expected = [
            &pod,
            "the node agent does not answer at ",
            "hint: check the pod istio-cni-node of this node",
        ];
        ensure!(expected.iter().all(|part| events.contains(part)), "{events}");
        Ok(())
    })
}

pub(crate) fn pod(name: &str) -> String {
    format!("pod/{name}")
}

/// Content of the node's network configurations.
pub(crate) fn configurations(cluster: &Cluster) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(cluster.network_configurations())? {
        let path = entry?.path();
        if path.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.insert(name, fs::read_to_string(&path)?);
        }
    }
    Ok(found)
}

/// The node agent on the node.
pub(crate) struct Agent {
    pub(crate) process: Process,
    flags: Vec<String>,
}

impl Agent {
    pub(crate) fn start(cluster: &Cluster) -> Result<Self> {
        let program = Programs::find()?.own("install-cni")?;
        let path = |path: &Path| path.display().to_string();
        let flags = [
            ("--mounted-cni-net-dir", path(&cluster.network_configurations())),
            ("--mounted-cni-bin-dir", path(&cluster.network_plugins())),
            ("--mounted-cni-cache-dir", "/var/lib/cni/results".to_owned()),
            ("--cni-agent-run-dir", path(&run_folder(cluster))),
        ];
        let flags: Vec<_> =
            flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect();
        let api = [
            "--kubeconfig".to_owned(),
            path(cluster.kubectl().kubeconfig()),
            "--node-name".to_owned(),
            cluster.node_name().to_owned(),
        ];
        // The privileges of the DaemonSet.
        let capabilities = "--bounding-set=-all,+dac_override,+net_admin,+sys_admin".to_owned();
        let limited = [capabilities, "--".to_owned(), path(&program)];
        let arguments = limited.iter().chain(&flags).chain(&api);
        let setpriv = Programs::find()?.system("setpriv")?;
        let process = Process::start(cluster.folder(), "install-cni", &setpriv, arguments)?;
        let mut agent = Self { process, flags };
        let flags = agent.flags.clone();
        agent.process.wait_until("the plugin is installed", || {
            let ready = run(&flags, &["ready"])?;
            ensure!(ready.status.success(), "{}", String::from_utf8_lossy(&ready.stderr));
            Ok(())
        })?;
        Ok(agent)
    }

    fn run(&self, command: &[&str]) -> Result<Output> {
        run(&self.flags, command)
    }

    pub(crate) fn succeeds(&self, command: &[&str]) -> Result<()> {
        let ran = self.run(command)?;
        ensure!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
        Ok(())
    }
}

/// Folder of the agent's socket.
pub(crate) fn run_folder(cluster: &Cluster) -> PathBuf {
    cluster.folder().node().join("istio-cni")
}

fn run(flags: &[String], command: &[&str]) -> Result<Output> {
    let program = Programs::find()?.own("install-cni")?;
    Command::new(program).args(command).args(flags).output().context("starting install-cni")
}

const SERVER: &str = "mkdir /www; echo hello >/www/index.html; exec httpd -f -p 8080 -h /www";
const CLIENT: &str = "trap exit TERM; sleep infinity & wait";
