//! A pod: network namespace, files, control plane, agent.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use e2e::http::{Response, send};
use e2e::mesh_authority::MeshAuthority;
use e2e::netns::{Namespace, Owner};
use e2e::programs::Programs;
use e2e::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::control_plane::{Configuration, ControlPlane, PORT};

/// A pod with an agent. Ends with the value.
pub(crate) struct Pod {
    pub(crate) namespace: Rc<Namespace>,
    pub(crate) plane: Rc<ControlPlane>,
    pub(crate) environment: BTreeMap<&'static str, String>,
    pub(crate) arguments: Vec<&'static str>,
    /// `PROXY_CONFIG`.
    pub(crate) proxy_config: Value,
    pub(crate) status_port: u16,
    /// Wraps the agent, for example `unshare`.
    pub(crate) wrapper: Vec<String>,
    folder: TempDir,
    generation: u32,
    child: Option<Child>,
    base_ids: Vec<String>,
}

impl Pod {
    /// Prepares a pod whose Envoy passes HTTP from port 8080 on to the backend.
    pub(crate) fn new() -> Result<Self> {
        Self::with_configuration(Configuration::http(8080, BACKEND_PORT))
    }

    pub(crate) fn with_configuration(configuration: Configuration) -> Result<Self> {
        let namespace = Rc::new(Namespace::create()?);
        let authority = Arc::new(MeshAuthority::create()?);
        let plane = Rc::new(ControlPlane::start(&namespace, authority, configuration)?);
        Self::prepare(namespace, plane, "web")
    }

    /// Prepares a pod of a service account.
    pub(crate) fn prepare(
        namespace: Rc<Namespace>,
        plane: Rc<ControlPlane>,
        account: &str,
    ) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        for name in [
            "etc/istio/proxy",
            "etc/istio/pod",
            "etc/istio/config",
            "etc/istio/custom-bootstrap",
            "var/lib/istio/data",
            "var/run/secrets/tokens",
            "var/run/secrets/istio",
            "var/run/secrets/workload-spiffe-uds",
            "var/run/secrets/credential-uds",
        ] {
            fs::create_dir_all(folder.path().join(name))?;
        }
        let root = plane.authority.root().to_owned();
        let uid = folder.path().display().to_string();
        let environment = BTreeMap::from([
            ("PILOT_CERT_PROVIDER", "istiod".to_owned()),
            ("CA_ADDR", format!("127.0.0.1:{PORT}")),
            ("ISTIOD_SAN", "istiod.istio-system.svc".to_owned()),
            ("POD_NAME", "web-1".to_owned()),
            ("POD_NAMESPACE", "shop".to_owned()),
            ("POD_UID", uid),
            ("INSTANCE_IP", "127.0.0.1".to_owned()),
            ("SERVICE_ACCOUNT", account.to_owned()),
            ("TRUST_DOMAIN", "cluster.local".to_owned()),
            ("ISTIO_META_CLUSTER_ID", "Kubernetes".to_owned()),
        ]);
        let proxy_config = json!({
            "binaryPath": Programs::find()?.envoy()?,
            "discoveryAddress": format!("127.0.0.1:{PORT}"),
            "drainDuration": "1s",
            "concurrency": 1,
        });
        let mut pod = Self {
            namespace,
            plane,
            environment,
            arguments: vec!["--parentShutdownDuration", "2s"],
            proxy_config,
            status_port: 15020,
            wrapper: Vec::new(),
            folder,
            generation: 0,
            child: None,
            base_ids: Vec::new(),
        };
        pod.write_token(None)?;
        pod.write("var/run/secrets/istio/root-cert.pem", &root)?;
        for name in ["labels", "annotations"] {
            symlink(format!("..data/{name}"), pod.path("etc/istio/pod").join(name))?;
        }
        pod.annotate(&[])?;
        Ok(pod)
    }

    /// Sets the annotations, as the kubelet does: by another target of `..data`.
    pub(crate) fn annotate(&mut self, annotations: &[(&str, &str)]) -> Result<()> {
        self.generation += 1;
        let mount = self.path("etc/istio/pod");
        let generation = format!("..{}", self.generation);
        fs::create_dir(mount.join(&generation))?;
        let lines = annotations.iter().map(|(key, value)| format!("{key}={value:?}\n"));
        fs::write(mount.join(&generation).join("annotations"), lines.collect::<String>())?;
        fs::write(mount.join(&generation).join("labels"), "app=\"web\"\n")?;
        symlink(&generation, mount.join("..tmp"))?;
        fs::rename(mount.join("..tmp"), mount.join("..data"))?;
        Ok(())
    }

    /// Replaces the token by one with this expiry, in seconds of Unix time.
    pub(crate) fn write_token(&self, expiry: Option<u64>) -> Result<()> {
        let account = &self.environment["SERVICE_ACCOUNT"];
        let subject = format!("system:serviceaccount:shop:{account}");
        let claims = json!({ "sub": subject, "exp": expiry });
        let token = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()));
        self.write("var/run/secrets/tokens/istio-token", &token)
    }

    /// Runs the agent as the proxy's user. It may read programs in folders of other users.
    pub(crate) fn become_proxy_user(&mut self) -> Result<()> {
        let capability = "+dac_read_search";
        self.wrapper = ["setpriv", "--reuid=1337", "--regid=1337", "--clear-groups"]
            .into_iter()
            .chain(["--inh-caps", capability, "--ambient-caps", capability])
            .map(str::to_owned)
            .collect();
        give(self.folder.path(), Owner { uid: 1337, gid: 1337 })
    }

    /// Starts the agent.
    pub(crate) fn start(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.path("log"))?;
        let mut command = self.command();
        command.args(["proxy", "sidecar", "--domain", "shop.svc.cluster.local"]);
        command.args(&self.arguments);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.child = Some(self.namespace.run(|| command.spawn())??);
        Ok(())
    }

    /// Starts the agent and waits until it is ready.
    pub(crate) fn started(mut self) -> Result<Self> {
        self.start()?;
        self.wait_until_ready()?;
        Ok(self)
    }

    /// Runs a command of the program to its end, and returns its output.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.command();
        command.args(arguments);
        self.namespace.output(&mut command, "")
    }

    fn command(&self) -> Command {
        let program = env!("CARGO_BIN_EXE_pilot-agent").to_owned();
        let words: Vec<_> = self.wrapper.iter().cloned().chain([program]).collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(self.folder.path());
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").envs(&self.environment);
        command.env("PROXY_CONFIG", self.proxy_config.to_string());
        command
    }

    pub(crate) fn wait_until_ready(&mut self) -> Result<()> {
        self.wait_for_readiness(200, "ready")?;
        self.remember_base_id();
        Ok(())
    }

    /// Waits until readiness has this status, and its text contains another text.
    pub(crate) fn wait_for_readiness(&self, status: u16, text: &str) -> Result<()> {
        let what = format!("readiness is {status} with {text:?}");
        let found = wait::until(&what, || {
            let answer = self.readiness()?;
            ensure!(answer.status == status && answer.body.contains(text), "{answer:?}");
            Ok::<_, anyhow::Error>(())
        });
        found.with_context(|| self.log())
    }

    /// Waits until no part of the agent has a condition.
    pub(crate) fn wait_for_no_condition(&self) -> Result<()> {
        let found = wait::until("no condition is left", || {
            let answer = self.readiness()?;
            ensure!(answer.body == "ready\n", "{answer:?}");
            Ok::<_, anyhow::Error>(())
        });
        found.with_context(|| self.log())
    }

    pub(crate) fn readiness(&self) -> Result<Response> {
        self.get(self.status_port, "/healthz/ready")
    }

    pub(crate) fn get(&self, port: u16, path: &str) -> Result<Response> {
        self.send(port, "GET", path)
    }

    pub(crate) fn post(&self, port: u16, path: &str) -> Result<Response> {
        self.send(port, "POST", path)
    }

    fn send(&self, port: u16, method: &str, path: &str) -> Result<Response> {
        self.namespace.run(|| send(([127, 0, 0, 1], port).into(), method, path))?
    }

    /// Waits until Envoy passes requests on from this port.
    pub(crate) fn wait_for_answer(&self, port: u16) -> Result<()> {
        let found = wait::until("the backend answers", || {
            let answer = self.get(port, "/")?;
            ensure!(answer.body == "answer of the backend", "{answer:?}");
            Ok::<_, anyhow::Error>(())
        });
        found.with_context(|| self.log())
    }

    /// Waits until an epoch serves alone.
    pub(crate) fn wait_for_epoch(&mut self, epoch: u32) -> Result<()> {
        let found = wait::until(&format!("epoch {epoch} serves alone"), || {
            let page = self.get(self.status_port, "/stats/prometheus")?.body;
            let line = page.lines().find(|line| line.starts_with("istio_agent_envoy_epoch "));
            let serving = line.context("no metric of the epoch")?;
            let envoys = self.envoys();
            let is_alone = envoys.iter().map(|(number, _)| *number).eq([epoch]);
            ensure!(serving.ends_with(&format!(" {epoch}")) && is_alone, "{serving} {envoys:?}");
            Ok::<_, anyhow::Error>(())
        });
        found.with_context(|| self.log())
    }

    /// Returns epoch and process id of the Envoys.
    pub(crate) fn envoys(&self) -> Vec<(u32, i32)> {
        let mut envoys: Vec<_> = self
            .processes()
            .into_iter()
            .filter(|(_, words)| words[0].ends_with("/envoy"))
            .filter_map(|(pid, words)| {
                let epoch = after(&words, "--restart-epoch").unwrap_or_else(|| "0".to_owned());
                Some((epoch.parse().ok()?, pid)).filter(|_| !words.iter().any(|w| w == "validate"))
            })
            .collect();
        envoys.sort_unstable();
        envoys
    }

    /// Keeps the base id of the running Envoys, for the check of shared memory.
    fn remember_base_id(&mut self) {
        for (_, words) in self.processes() {
            self.base_ids.extend(after(&words, "--base-id"));
        }
        self.base_ids.sort_unstable();
        self.base_ids.dedup();
    }

    /// Returns the processes in the pod's folder, with their arguments.
    fn processes(&self) -> Vec<(i32, Vec<String>)> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = entries.filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let folder = fs::read_link(entry.path().join("cwd")).ok()?;
            let words = fs::read_to_string(entry.path().join("cmdline")).ok()?;
            let words = words.split('\0').map(str::to_owned).collect();
            Some((pid, words)).filter(|_| folder == self.folder.path())
        });
        processes.collect()
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let child = self.child.as_ref().context("the agent runs")?;
        kill_process(Pid::from_child(child), signal).context("sending a signal to the agent")
    }

    /// True unless the agent has exited.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Waits for the agent's exit.
    pub(crate) fn exited(&mut self) -> Result<ExitStatus> {
        let child = self.child.as_mut().context("the agent runs")?;
        let status = wait::until("the agent exits", || match child.try_wait() {
            Ok(Some(status)) => Ok(status),
            other => Err(format!("{other:?}")),
        });
        let status = status.with_context(|| self.log())?;
        self.child = None;
        Ok(status)
    }

    /// Waits for the agent's successful exit, and checks that nothing is left behind.
    pub(crate) fn ended(&mut self) -> Result<()> {
        let status = self.exited()?;
        ensure!(status.success(), "{status}\n{}", self.log());
        wait::until("no process is left", || match self.processes() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:?}")),
        })?;
        for base_id in &self.base_ids {
            let segment = format!("/dev/shm/envoy_shared_memory_{base_id}0");
            ensure!(!Path::new(&segment).exists(), "{segment} is left");
        }
        Ok(())
    }

    /// Ends the agent without draining, and checks that nothing is left behind.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let answer = self.post(self.status_port, "/quitquitquit")?;
        ensure!(answer.status == 200, "{answer:?}");
        self.ended()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Replaces a file.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path(name);
        let new = path.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(new, path)?;
        Ok(())
    }

    /// Returns the folder of bootstraps in the agent's mount namespace.
    pub(crate) fn disk(&self) -> Result<PathBuf> {
        let agent = self.child.as_ref().context("the agent runs")?.id();
        Ok(PathBuf::from(format!("/proc/{agent}/cwd/etc/istio/proxy")))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.remember_base_id();
        if let Some(child) = &mut self.child {
            // The kernel ends its Envoys.
            let _ = child.kill();
            let _ = child.wait();
        }
        for base_id in &self.base_ids {
            let _ = fs::remove_file(format!("/dev/shm/envoy_shared_memory_{base_id}0"));
        }
    }
}

/// Kills a process.
pub(crate) fn kill(pid: i32) -> Result<()> {
    kill_process(Pid::from_raw(pid).context("a process id")?, Signal::KILL).context("killing")
}

fn after(words: &[String], flag: &str) -> Option<String> {
    let at = words.iter().position(|word| word == flag)?;
    words.get(at + 1).cloned()
}

/// Makes a folder and everything in it an owner's.
fn give(folder: &Path, owner: Owner) -> Result<()> {
    chown(folder, Some(owner.uid), Some(owner.gid))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            give(&entry.path(), owner)?;
        } else if entry.file_type()?.is_file() {
            chown(entry.path(), Some(owner.uid), Some(owner.gid))?;
        }
    }
    Ok(())
}

/// Port of the backend.
pub(crate) const BACKEND_PORT: u16 = 9090;
