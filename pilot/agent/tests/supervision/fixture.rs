//! An agent in a network namespace, and its remains.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::netns::Namespace;
use e2e::programs::Programs;
use e2e::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::agent::Settings;

/// An agent with its folder. Ends with the value, together with its Envoys.
pub(crate) struct Agent {
    pub(crate) namespace: Rc<Namespace>,
    pub(crate) port: u16,
    folder: TempDir,
    settings: Settings,
    child: Option<Child>,
}

impl Agent {
    /// Prepares an agent in a namespace of its own. Envoy answers "a" on port 8080.
    pub(crate) fn new() -> Result<Self> {
        Self::in_namespace(Rc::new(Namespace::create()?), 8080, 15000)
    }

    pub(crate) fn in_namespace(
        namespace: Rc<Namespace>,
        port: u16,
        admin_port: u16,
    ) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Ten times a large base id exceeds 31 bits, which Envoy's names show.
        let own =
            230_000_000 + std::process::id() % 100_000 * 100 + NEXT.fetch_add(1, Ordering::Relaxed);
        let settings = Settings {
            envoy: Programs::find()?.envoy()?,
            admin_port,
            base_id: own,
            guard: Duration::from_secs(20),
            drain_duration: Duration::from_secs(30),
            hot_restart: true,
            exit_on_changed_bootstrap: false,
        };
        let agent = Self { namespace, port, folder: tempfile::tempdir()?, settings, child: None };
        agent.apply(&agent.bootstrap("a"))?;
        Ok(agent)
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Uses a shell script instead of Envoy; `$ENVOY` is Envoy, and `$FOLDER` the agent's folder.
    /// Envoy itself validates.
    pub(crate) fn with_script(self, script: &str) -> Result<Self> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.path("envoy.sh");
        let envoy = self.settings.envoy.display();
        let folder = self.folder.path().display();
        let validate = "case \"$*\" in *'--mode validate') exec $ENVOY \"$@\";; esac";
        let variables = format!("ENVOY={envoy}\nFOLDER={folder}\n");
        fs::write(&path, format!("#!/bin/sh\n{variables}{validate}\n{script}\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(self.with(|settings| settings.envoy = path))
    }

    /// Starts the agent.
    pub(crate) fn start(&mut self) -> Result<()> {
        self.start_by(&[])
    }

    /// Starts the agent by another program, for example `unshare`.
    pub(crate) fn start_by(&mut self, wrapper: &[&str]) -> Result<()> {
        fs::write(self.path("settings.json"), serde_json::to_string(&self.settings)?)?;
        fs::write(self.path("log"), "")?;
        let log = File::options().append(true).open(self.path("log"))?;
        let own = std::env::current_exe()?;
        let own = own.to_str().context("a path")?;
        let words: Vec<_> = wrapper.iter().copied().chain([own, "supervise"]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(self.folder.path());
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        self.child = Some(self.namespace.run(|| command.spawn())??);
        Ok(())
    }

    /// Starts the agent and waits until epoch 0 serves.
    pub(crate) fn started(mut self) -> Result<Self> {
        self.start()?;
        self.wait_for_log("serving Some(0)")?;
        Ok(self)
    }

    /// Bootstrap of an Envoy that answers with this text.
    pub(crate) fn bootstrap(&self, text: &str) -> Value {
        let direct = json!({ "status": 200, "body": { "inline_string": text } });
        let routes = json!([
            { "match": { "prefix": "/version" }, "direct_response": direct },
            { "match": { "prefix": "/" }, "route": { "cluster": "backend", "timeout": "60s" } },
        ]);
        let address =
            |port: u16| json!({ "socket_address": { "address": "127.0.0.1", "port_value": port } });
        let endpoint = json!({ "endpoint": { "address": address(BACKEND_PORT) } });
        json!({
            "node": { "id": "test", "cluster": "test" },
            "admin": { "address": address(self.admin_port()) },
            "static_resources": {
                "listeners": [{
                    "name": "main",
                    "address": address(self.port),
                    "filter_chains": [{ "filters": [{
                        "name": "http",
                        "typed_config": {
                            "@type": format!("{TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager"),
                            "stat_prefix": "main",
                            "http_filters": [{
                                "name": "router",
                                "typed_config": { "@type": format!("{TYPES}.filters.http.router.v3.Router") },
                            }],
                            "route_config": { "virtual_hosts": [
                                { "name": "all", "domains": ["*"], "routes": routes },
                            ] },
                        },
                    }] }],
                }],
                "clusters": [{
                    "name": "backend",
                    "type": "STATIC",
                    "load_assignment": {
                        "cluster_name": "backend",
                        "endpoints": [{ "lb_endpoints": [endpoint] }],
                    },
                }],
            },
        })
    }

    /// A bootstrap with which Envoy waits for listeners that never come.
    pub(crate) fn waiting_bootstrap(&self) -> Value {
        let mut bootstrap = self.bootstrap("never");
        let service = json!([{ "envoy_grpc": { "cluster_name": "backend" } }]);
        let source = json!({ "ads": {}, "initial_fetch_timeout": "0s" });
        bootstrap["dynamic_resources"] = json!({
            "lds_config": source,
            "cds_config": source,
            "ads_config": {
                "api_type": "DELTA_GRPC",
                "transport_api_version": "V3",
                "grpc_services": service,
            },
        });
        let options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
        bootstrap["static_resources"]["clusters"][0]["typed_extension_protocol_options"] = json!({
            options: {
                "@type": format!("type.googleapis.com/{options}"),
                "explicit_http_config": { "http2_protocol_options": {} },
            },
        });
        bootstrap
    }

    /// A bootstrap with which Envoy waits for some seconds, and then serves without the control
    /// plane.
    pub(crate) fn slow_bootstrap(&self, text: &str) -> Value {
        let mut bootstrap = self.waiting_bootstrap();
        bootstrap["static_resources"]["listeners"] =
            self.bootstrap(text)["static_resources"]["listeners"].take();
        for source in ["lds_config", "cds_config"] {
            bootstrap["dynamic_resources"][source]["initial_fetch_timeout"] = "4s".into();
        }
        bootstrap
    }

    /// Changes the bootstrap, as the agent finds it.
    pub(crate) fn apply(&self, bootstrap: &Value) -> Result<()> {
        fs::write(self.path("new.json"), bootstrap.to_string())?;
        fs::rename(self.path("new.json"), self.path("bootstrap.json"))?;
        Ok(())
    }

    /// Applies a bootstrap that answers with this text, and waits until it serves and the parent
    /// has exited.
    pub(crate) fn hot_restart(&self, text: &str) -> Result<()> {
        self.apply(&self.bootstrap(text))?;
        self.wait_for_version(text)?;
        wait::until("the parent exits", || match self.envoys() {
            envoys if envoys.len() == 1 => Ok(()),
            envoys => Err(format!("{envoys:?}")),
        })
    }

    /// Waits until Envoy answers with this text.
    pub(crate) fn wait_for_version(&self, text: &str) -> Result<()> {
        wait::until("the new Envoy answers", || match self.version() {
            Ok(version) if version == text => Ok(()),
            other => Err(format!("{other:?}\n{}", self.log())),
        })
    }

    /// Waits until the admin interface is that of a child that is not live.
    pub(crate) fn wait_for_waiting_child(&self) -> Result<()> {
        wait::until("the child has the admin port", || {
            let info = self.http(self.admin_port(), "GET /server_info")?;
            ensure!(info.contains("PRE_INITIALIZING"), "{info}");
            Ok::<_, anyhow::Error>(())
        })
    }

    /// Asks Envoy for the text of its bootstrap.
    pub(crate) fn version(&self) -> Result<String> {
        let answer = self.http(self.port, "GET /version")?;
        let (_, body) = answer.rsplit_once("\r\n").context("no body")?;
        Ok(body.to_owned())
    }

    /// Sends an HTTP request on a connection of its own, and returns the answer.
    pub(crate) fn http(&self, port: u16, request: &str) -> Result<String> {
        self.namespace.run(|| {
            let mut stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.set_read_timeout(Some(wait::TIMEOUT))?;
            write!(stream, "{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        })?
    }

    pub(crate) fn admin_port(&self) -> u16 {
        self.settings.admin_port
    }

    /// Writes a request of the status port.
    pub(crate) fn request(&mut self, request: &str) -> Result<()> {
        let stdin = self.child.as_mut().and_then(|child| child.stdin.as_mut());
        writeln!(stdin.context("the agent runs")?, "{request}").context("writing a request")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn wait_for_log(&self, text: &str) -> Result<()> {
        wait::until(&format!("the log has {text:?}"), || {
            let log = self.log();
            if log.contains(text) { Ok(()) } else { Err(log) }
        })
    }

    /// Returns the process ids of Envoys (and scripts) by epoch.
    pub(crate) fn envoys(&self) -> Vec<(u32, i32)> {
        let base = self.settings.base_id.to_string();
        let mut envoys: Vec<_> = processes()
            .into_iter()
            .filter_map(|(pid, words)| {
                let after = |flag: &str| {
                    let at = words.iter().position(|word| word == flag)?;
                    words.get(at + 1).cloned()
                };
                let is_own =
                    after("--base-id")? == base && words.iter().all(|w| w != "envoy-child");
                Some((after("--restart-epoch")?.parse().ok()?, pid)).filter(|_| is_own)
            })
            .collect();
        envoys.sort_unstable();
        envoys
    }

    /// Waits until an epoch's process exists, and returns its id.
    pub(crate) fn envoy(&self, epoch: u32) -> Result<i32> {
        wait::until(&format!("epoch {epoch} runs"), || {
            let envoys = self.envoys();
            let found = envoys.iter().find(|(number, _)| *number == epoch).map(|(_, pid)| *pid);
            found.ok_or(format!("{envoys:?}"))
        })
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let child = self.child.as_ref().context("the agent runs")?;
        kill_process(Pid::from_child(child), signal).context("sending a signal to the agent")
    }

    /// Waits for the agent's exit, checks that nothing is left behind, and returns its status.
    pub(crate) fn ended(&mut self) -> Result<ExitStatus> {
        let status = self.exited()?;
        wait::until("no process is left", || {
            let left = self.remains();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        })?;
        let files: Vec<_> = fs::read_dir(self.folder.path())?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.starts_with("envoy-rev"))
            .collect();
        ensure!(status.code().is_none() || files.is_empty(), "{files:?} are left");
        Ok(status)
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
        if let Err(error) = &status {
            bail!("{error:#}\n{}", self.log());
        }
        self.child = None;
        status
    }

    /// Terminates the agent, and checks that nothing is left behind, in shared memory either.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.request("quit")?;
        let status = self.ended()?;
        ensure!(status.success(), "{status}\n{}", self.log());
        self.has_no_shared_memory()
    }

    pub(crate) fn has_no_shared_memory(&self) -> Result<()> {
        let segment = self.shared_memory();
        ensure!(!segment.exists(), "{} is left", segment.display());
        Ok(())
    }

    /// Returns the path of Envoy's segment.
    pub(crate) fn shared_memory(&self) -> PathBuf {
        let base_id = self.settings.base_id;
        Path::new("/dev/shm").join(format!("envoy_shared_memory_{base_id}0"))
    }

    /// Returns the zombies among the children of an agent that is process 1 of its namespace.
    pub(crate) fn zombies(&self) -> Result<Vec<String>> {
        let unshare = self.child.as_ref().context("the agent runs")?.id();
        let agent = children(unshare)?.pop().context("unshare has a child")?;
        let status = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/status")).ok();
        let mut zombies: Vec<_> = children(agent)?.iter().filter_map(status).collect();
        zombies.retain(|status| status.contains("State:\tZ"));
        Ok(zombies)
    }

    /// Returns living processes of the agent.
    fn remains(&self) -> Vec<(i32, Vec<String>)> {
        let folder = self.folder.path().to_str().unwrap_or_default();
        let mut processes = processes();
        processes.retain(|(_, words)| words.iter().any(|word| word.contains(folder)));
        processes
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // The kernel ends its Envoys.
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_file(self.shared_memory());
    }
}

/// Kills a process.
pub(crate) fn kill(pid: i32) -> Result<()> {
    kill_process(Pid::from_raw(pid).context("a process id")?, Signal::KILL).context("killing")
}

fn children(pid: u32) -> Result<Vec<u32>> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    text.split_whitespace().map(|word| word.parse().context("a process id")).collect()
}

/// Returns living processes with their arguments.
fn processes() -> Vec<(i32, Vec<String>)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        // A zombie has no arguments.
        let words = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        Some((pid, words.split('\0').map(str::to_owned).collect()))
    });
    processes.collect()
}

/// Port of the backend of a load test.
pub(crate) const BACKEND_PORT: u16 = 9090;
const TYPES: &str = "type.googleapis.com/envoy.extensions";
