//! One running agent in a network namespace of its own.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::netns::Namespace;
use e2e::wait;
use tempfile::TempDir;

use crate::envoy;

/// An agent, ended with the value.
pub(crate) struct Agent {
    child: Child,
    namespace: Namespace,
    executed: Instant,
    started: UnixListener,
    _folder: TempDir,
}

impl Agent {
    /// Returns the time from exec of the stand-in for Envoy to its message, in milliseconds.
    pub(crate) fn start_of_envoy_alone() -> Result<f64> {
        let folder = tempfile::tempdir()?;
        let envoy = folder.path().join(envoy::NAME);
        fs::copy(std::env::current_exe()?, &envoy)?;
        let started = UnixListener::bind(folder.path().join(envoy::STARTED))?;
        let executed = Instant::now();
        let mut child = Command::new(envoy).current_dir(folder.path()).spawn()?;
        started.accept()?;
        let elapsed = executed.elapsed();
        child.kill()?;
        child.wait()?;
        Ok(elapsed.as_secs_f64() * 1_000.0)
    }

    /// Starts the program as an injected sidecar's container does.
    pub(crate) fn start(program: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let root = folder.path();
        for part in FOLDERS {
            fs::create_dir_all(root.join(part))?;
        }
        let envoy = root.join(envoy::NAME);
        fs::copy(std::env::current_exe()?, &envoy)?;
        fs::write(root.join("etc/istio/pod/labels"), "app=\"web\"\n")?;
        fs::write(root.join("etc/istio/pod/annotations"), "")?;
        // Istio's agent needs a template, and its image has a long one.
        fs::write(root.join("var/lib/istio/envoy/envoy_bootstrap_tmpl.json"), "{}")?;
        fs::write(root.join("var/run/secrets/tokens/istio-token"), "token")?;
        let key = rcgen::generate_simple_self_signed(["istiod.istio-system.svc".to_owned()])?;
        fs::write(root.join("var/run/secrets/istio/root-cert.pem"), key.cert.pem())?;
        let started = UnixListener::bind(root.join(envoy::STARTED))?;
        let namespace = Namespace::create()?;
        let mut command = Command::new(program);
        command
            .args(["proxy", "sidecar", "--domain", "shop.svc.cluster.local"])
            .args(["--proxyLogLevel=warning", "--log_output_level=default:error"])
            .env_clear()
            .envs(ENVIRONMENT)
            .env(
                "PROXY_CONFIG",
                format!(
                    r#"{{"binaryPath":"{}","terminationDrainDuration":"0s"}}"#,
                    envoy.display()
                ),
            )
            .current_dir(root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let (executed, child) = namespace.run(move || (Instant::now(), command.spawn()))?;
        let child = child.context("starting the agent")?;
        Ok(Self { child, namespace, executed, started, _folder: folder })
    }

    /// Waits for Envoy, and returns the time since the agent's exec in milliseconds.
    pub(crate) fn wait_until_envoy_started(&self) -> Result<f64> {
        self.started.accept().context("waiting for Envoy")?;
        Ok(self.executed.elapsed().as_secs_f64() * 1_000.0)
    }

    pub(crate) fn wait_until_status_answers(&self) -> Result<()> {
        wait::until("the status port answers", || self.scrape()).map(drop)
    }

    /// Returns the resident memory in MB.
    pub(crate) fn memory(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: f64 = line.context("no VmRSS")?.trim().trim_end_matches(" kB").parse()?;
        Ok(kib * 1024.0 / 1e6)
    }

    /// Returns the CPU time of a span of idleness, in percent of a core.
    pub(crate) fn cpu_share(&self, span: Duration) -> Result<f64> {
        let before = self.cpu_time()?;
        std::thread::sleep(span);
        Ok((self.cpu_time()? - before) / span.as_secs_f64() * 100.0)
    }

    fn cpu_time(&self) -> Result<f64> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id()))?;
        let mut nanoseconds = 0.0;
        for task in tasks {
            let times = fs::read_to_string(task?.path().join("schedstat"))?;
            nanoseconds += times.split(' ').next().unwrap_or_default().parse::<f64>()?;
        }
        Ok(nanoseconds / 1e9)
    }

    /// Reads the merged statistics, and returns their length.
    pub(crate) fn scrape(&self) -> Result<usize> {
        self.namespace.run(|| {
            let mut stream = TcpStream::connect(("127.0.0.1", 15020))?;
            stream.set_read_timeout(Some(wait::TIMEOUT))?;
            write!(
                stream,
                "GET /stats/prometheus HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
            )?;
            let mut buffer = vec![0; 65_536];
            let mut length = 0;
            loop {
                match stream.read(&mut buffer)? {
                    0 => break,
                    count => length += count,
                }
            }
            ensure!(length > 0, "an empty answer");
            Ok(length)
        })?
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // The agent takes Envoy with it; Istio's does so when it is asked to end.
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        );
        let child = &mut self.child;
        let _ = wait::until_within("the agent ends", Duration::from_secs(10), || {
            if matches!(child.try_wait(), Ok(None)) { Err("it runs") } else { Ok(()) }
        });
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const FOLDERS: [&str; 8] = [
    "etc/istio/proxy",
    "etc/istio/pod",
    "var/run/secrets/tokens",
    "var/run/secrets/istio",
    "var/run/secrets/workload-spiffe-uds",
    "var/run/secrets/credential-uds",
    "var/lib/istio/data",
    "var/lib/istio/envoy",
];
const ENVIRONMENT: [(&str, &str); 9] = [
    ("PILOT_CERT_PROVIDER", "istiod"),
    ("CA_ADDR", "127.0.0.1:15012"),
    ("POD_NAME", "web"),
    ("POD_NAMESPACE", "shop"),
    ("INSTANCE_IP", "127.0.0.1"),
    ("SERVICE_ACCOUNT", "default"),
    ("HOST_IP", "127.0.0.1"),
    ("TRUST_DOMAIN", "cluster.local"),
    ("MINIMUM_DRAIN_DURATION", "0s"),
];
