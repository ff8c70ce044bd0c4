//! The plugin and its agent as processes: ADD beside an empty static plugin and beside Istio's, reinsertion after
//! an overwrite, memory of the agent.
//!
//! The median of many calls counts, since a pod waits for each. `make bench` builds the programs.

#![expect(clippy::print_stdout, reason = "figures are what it is for")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::api_servers::ApiServers;
use e2e::istio_programs::IstioPrograms;
use e2e::netns::Namespace;
use e2e::programs::{Programs, repository};
use e2e::wait;
use serde_json::{Value, json};
use tempfile::TempDir;

fn main() -> Result<()> {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("left out: only `make bench` has what is measured here");
        return Ok(());
    }
    let folder = TempDir::new()?;
    let plugin = repository().join("dist/istio-cni").canonicalize().context("make build")?;
    let empty = empty_plugin(folder.path())?;
    println!("{} bytes: istio-cni", fs::metadata(&plugin)?.len());
    println!("\n| ADD, median and 99 % of {CALLS} | ms | ms | median above an empty plugin |");
    println!("| --- | --- | --- | --- |");
    let run_dir = folder.path().join("run");
    fs::create_dir(&run_dir)?;
    let nothing = measured(&empty, &config(&run_dir, &plain()), "web")?;
    row("an empty static plugin", nothing, nothing);
    row("captured pod", measured(&plugin, &config(&run_dir, &captured()), "web")?, nothing);
    row("pod without a sidecar", measured(&plugin, &config(&run_dir, &plain()), "web")?, nothing);
    if let Some(istio) = IstioPrograms::find_if_any("ADD of Istio's plugin")? {
        of_istio(&istio, folder.path(), nothing)?;
    }
    reinsertion(folder.path())?;
    memory(folder.path())
}

/// Median and 99th percentile in milliseconds.
#[derive(Clone, Copy)]
struct Times {
    median: f64,
    last: f64,
}

impl Times {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        Self { median: times[times.len() / 2], last: times[times.len() * 99 / 100] }
    }
}

fn row(title: &str, times: Times, nothing: Times) {
    let Times { median, last } = times;
    println!("| {title} | {median:.2} | {last:.2} | +{:.2} |", median - nothing.median);
}

/// Calls a plugin in a fresh network namespace each time.
fn measured(plugin: &Path, config: &Value, pod: &str) -> Result<Times> {
    let text = config.to_string();
    let times = (0..CALLS).map(|_| {
        let namespace = Namespace::create()?;
        namespace.ip("addr add 192.0.2.2/24 dev lo\nroute add default via 192.0.2.1 dev lo")?;
        let mut command = Command::new(plugin);
        command.env_clear().env("CNI_COMMAND", "ADD").env("CNI_NETNS", namespace.path());
        command.env("CNI_CONTAINERID", "c").env("CNI_IFNAME", "eth0").env("CNI_PATH", "/nowhere");
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env(
            "CNI_ARGS",
            format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME={pod};K8S_POD_UID=u"),
        );
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let start = Instant::now();
        let mut child = command.spawn().context("starting the plugin")?;
        // An empty plugin ends without reading.
        let _ = child.stdin.take().context("no input")?.write_all(text.as_bytes());
        let output = child.wait_with_output()?;
        let elapsed = start.elapsed().as_secs_f64() * 1_000.0;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        Ok(elapsed)
    });
    Ok(Times::of(times.collect::<Result<_>>()?))
}

/// Istio's plugin asks the API server about each pod.
fn of_istio(istio: &IstioPrograms, folder: &Path, nothing: Times) -> Result<()> {
    let plugin = istio.program("istio-cni")?;
    let servers = ApiServers::start(&Programs::find()?, 1)?;
    let kubectl = servers.kubectl();
    kubectl.must(["create", "namespace", "shop"])?;
    kubectl.must(["create", "serviceaccount", "default", "--namespace=shop"])?;
    for (name, annotations) in [("captured", captured()), ("plain", plain())] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "annotations": annotations},
            "spec": {"containers": [
                {"name": "app", "image": "app"},
                {"name": "istio-proxy", "image": "proxyv2", "args": ["proxy", "sidecar"]}]}});
        kubectl.must_with_input(["create", "--filename=-"], &pod.to_string())?;
    }
    let run_dir = folder.join("istio");
    fs::create_dir(&run_dir)?;
    fs::copy(servers.admin_kubeconfig(), run_dir.join("istio-cni-kubeconfig"))?;
    let config = config(&run_dir, &json!({}));
    for (title, pod) in
        [("Istio's plugin, captured pod", "captured"), ("Istio's, pod without a sidecar", "plain")]
    {
        row(title, measured(&plugin, &config, pod)?, nothing);
    }
    Ok(())
}

fn config(run_dir: &Path, annotations: &Value) -> Value {
    json!({
        "cniVersion": "1.0.0", "name": "lab", "type": "istio-cni",
        "cni_agent_run_dir": run_dir,
        "plugin_log_level": "error",
        "exclude_namespaces": ["kube-system"],
        "runtimeConfig": {"io.kubernetes.cri.pod-annotations": annotations},
        "prevResult": {"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "/n"}],
            "ips": [{"address": "192.0.2.2/24", "interface": 0}]},
    })
}

fn captured() -> Value {
    let request = json!({"args": ["-p", "15001", "-z", "15006", "-u", "1337", "-m", "REDIRECT", "-i",
        "*", "-b", "*", "-d", "15090,15021,15020", "--run-validation", "--skip-rule-apply"]});
    json!({
        "sidecar.istio.io/status": json!({"initContainers": ["istio-validation"]}).to_string(),
        "sidecar.outrigger.io/capture": request.to_string(),
    })
}

fn plain() -> Value {
    json!({"kubernetes.io/config.seen": "now"})
}

/// A static program that does nothing.
fn empty_plugin(folder: &Path) -> Result<PathBuf> {
    let (source, program) = (folder.join("empty.rs"), folder.join("empty"));
    fs::write(&source, "fn main() {}\n")?;
    let mut rustc = Command::new("rustc");
    rustc.args(["-C", "target-feature=+crt-static", "-C", "opt-level=z", "-C", "panic=abort"]);
    rustc.args(["-C", "strip=symbols", "-o"]).arg(&program).arg(&source);
    let output = rustc.output().context("starting rustc")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(program)
}

/// Folders of a node with the agent on it.
struct Node {
    folder: PathBuf,
    agent: Child,
}

impl Node {
    fn start(folder: PathBuf, further: &[String]) -> Result<Self> {
        for name in ["net.d", "bin"] {
            fs::create_dir_all(folder.join(name))?;
        }
        fs::write(folder.join("net.d/10-lab.conflist"), PRIMARY)?;
        let mut agent = Command::new(repository().join("dist/install-cni"));
        agent.env_clear().args(further);
        for (flag, value) in [
            ("--mounted-cni-net-dir", "net.d"),
            ("--mounted-cni-bin-dir", "bin"),
            ("--mounted-cni-cache-dir", "cache"),
            ("--cni-agent-run-dir", "run"),
        ] {
            agent.arg(flag).arg(folder.join(value));
        }
        let agent = agent.stderr(Stdio::null()).spawn().context("starting install-cni")?;
        let node = Self { folder, agent };
        node.wait_for_entry()?;
        Ok(node)
    }

    fn wait_for_entry(&self) -> Result<()> {
        let deadline = Instant::now() + wait::TIMEOUT;
        while !self.folder.join("net.d/00-istio-cni.conflist").exists() {
            if Instant::now() > deadline {
                bail!("no entry");
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn resident_kib(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.agent.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        Ok(line.context("no VmRSS")?.trim().trim_end_matches(" kB").parse()?)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.agent.kill();
        let _ = self.agent.wait();
    }
}

/// Time from the removal of the entry until it is back. The budget of writes is five at once.
fn reinsertion(folder: &Path) -> Result<()> {
    let mut times = Vec::new();
    for round in 0..10 {
        let node = Node::start(folder.join(format!("node-{round}")), &[])?;
        for _ in 0..3 {
            let start = Instant::now();
            fs::remove_file(node.folder.join("net.d/00-istio-cni.conflist"))?;
            node.wait_for_entry()?;
            times.push(start.elapsed().as_secs_f64() * 1_000.0);
        }
    }
    let Times { median, last } = Times::of(times);
    println!("\nreinsertion: median {median:.2} ms, longest {last:.2} ms");
    Ok(())
}

/// Resident memory of the agent with 250 pods on its node.
fn memory(folder: &Path) -> Result<()> {
    let alone = Node::start(folder.join("alone"), &[])?.resident_kib()?;
    let servers = ApiServers::start(&Programs::find()?, 1)?;
    let kubectl = servers.kubectl();
    kubectl.must(["create", "serviceaccount", "default", "--namespace=default"])?;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "lab"}});
    kubectl.must_with_input(["create", "--filename=-"], &node.to_string())?;
    let pods: Vec<_> = (0..250)
        .map(|number| {
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("web-{number}"), "namespace": "default",
                    "annotations": captured()},
                "spec": {"nodeName": "lab", "initContainers": [{"name": "istio-validation", "image": "i"}],
                    "containers": [{"name": "app", "image": "app"}, {"name": "istio-proxy", "image": "p"}]}})
        })
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": pods});
    kubectl.must_with_input(["create", "--filename=-"], &list.to_string())?;
    let flags = [
        "--kubeconfig".to_owned(),
        servers.admin_kubeconfig().display().to_string(),
        "--node-name".to_owned(),
        "lab".to_owned(),
    ];
    let node = Node::start(folder.join("busy"), &flags)?;
    // The list has been read when the memory no longer grows.
    let (mut before, mut same) = (0, 0);
    while same < 20 {
        std::thread::sleep(Duration::from_millis(250));
        let now = node.resident_kib()?;
        same = if now == before { same + 1 } else { 0 };
        before = now;
    }
    println!("memory of the agent: {alone} KiB without an API server, {before} KiB with 250 pods");
    Ok(())
}

const CALLS: usize = 200;
const PRIMARY: &str =
    "{\"cniVersion\":\"1.0.0\",\"name\":\"lab\",\"plugins\":[{\"type\":\"bridge\"}]}\n";
