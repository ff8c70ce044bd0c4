//! The shell of a reader.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use e2e::netns::Namespace;
use e2e::wait;
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::fixture::{Fixture, OWN};

/// A running bash in the folder of a page. Standard output and standard error are one stream, as
/// on a terminal.
pub(crate) struct Shell {
    bash: Child,
    input: ChildStdin,
    output: Receiver<Vec<u8>>,
    folder: TempDir,
    /// The network namespace for `istio-init`, and the other end of its link.
    pod: [Namespace; 2],
}

/// Output and exit code of a command.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) output: String,
    pub(crate) code: i32,
}

impl Shell {
    /// Starts bash with our programs, kubectl and Helm in its PATH, as the administrator of the cluster.
    /// `istio-init` runs in the network namespace of a pod.
    pub(crate) fn start(fixture: &Fixture) -> Result<Self> {
        let folder = TempDir::new().context("making a folder for a page")?;
        let home = folder.path().join("home");
        let programs = home.join("bin");
        for folder in [&programs, &home.join(".kube"), &folder.path().join("work")] {
            fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        for name in OWN.into_iter().chain(["kubectl"]) {
            symlink(fixture.program(name)?, programs.join(name))?;
        }
        for name in ["outrigger", "kubectl-outrigger"] {
            symlink(fixture.program("istioctl")?, programs.join(name))?;
        }
        symlink(fixture.programs.envoy()?, programs.join("envoy"))?;
        symlink(fixture.programs.helm()?, programs.join("helm"))?;
        write_kubeconfig(fixture, &home.join(".kube/config"))?;
        let pod = pod()?;
        let mut bash = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "bash", "--noprofile", "--norc"])
            .current_dir(folder.path().join("work"))
            .env_clear()
            .env("HOME", &home)
            .env("KUBECACHEDIR", home.join("cache"))
            .env("LANG", "C.UTF-8")
            .env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", programs.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .process_group(0)
            .spawn()
            .context("starting bash")?;
        let input = bash.stdin.take().context("a piped input")?;
        let output = read(bash.stdout.take().context("a piped output")?);
        let mut shell = Self { bash, input, output, folder, pod };
        let pod = shell.pod[0].name();
        let in_pod = format!(
            "exec 2>&1; for program in istio-init iptables nft; do \
             eval \"$program() {{ ip netns exec {pod} $(type -P $program) \\\"\\$@\\\"; }}\"; done"
        );
        shell.run(&in_pod)?;
        Ok(shell)
    }

    /// Returns the folder in which the commands run.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Runs a command, and waits for its end.
    pub(crate) fn run(&mut self, command: &str) -> Result<Answer> {
        // The subshell passes the exit code on to `echo $?`.
        writeln!(self.input, "{{ {command}\n}} </dev/null\n{TELL}")
            .and_then(|()| self.input.flush())
            .context("writing to bash")?;
        let deadline = Instant::now() + wait::TIMEOUT;
        let mut all = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(part) => all.extend(part),
                Err(_) => {
                    bail!("`{command}` did not end: {}", String::from_utf8_lossy(&all));
                }
            }
            let said = String::from_utf8_lossy(&all);
            if let Some((output, rest)) = said.split_once(MARK)
                && let Some((code, _)) = rest.split_once(MARK)
            {
                let code = code.parse().context("reading an exit code")?;
                return Ok(Answer { output: output.to_owned(), code });
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Its background jobs too.
        let _ = kill_process_group(Pid::from_child(&self.bash), Signal::KILL);
        let _ = self.bash.wait();
    }
}

/// Passes what a program writes on to a channel.
fn read(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if sender.send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Writes a kubeconfig with a context of the name that the pages use.
fn write_kubeconfig(fixture: &Fixture, path: &Path) -> Result<()> {
    let admin = fs::read(fixture.servers.admin_kubeconfig()).context("reading a kubeconfig")?;
    let mut config: serde_json::Value = serde_json::from_slice(&admin)?;
    let mut context = config["contexts"][0].clone();
    context["name"] = "production".into();
    config["contexts"].as_array_mut().context("contexts")?.push(context);
    fs::write(path, config.to_string()).context("writing a kubeconfig")?;
    // Helm warns of one that others can read.
    fs::set_permissions(path, Permissions::from_mode(0o600)).context("protecting a kubeconfig")
}

/// Creates the network namespace of a pod: loopback, and `eth0` with addresses and routes.
fn pod() -> Result<[Namespace; 2]> {
    let (pod, node) = (Namespace::create()?, Namespace::create()?);
    pod.connect("eth0", &node, "veth0")?;
    pod.ip("address add 10.244.1.7/24 dev eth0\nroute add default via 10.244.1.1 dev eth0")?;
    Ok([pod, node])
}

const TELL: &str = "code=$?; printf '\\036%d\\036' $code; (exit $code)";
const MARK: char = '\u{1e}';
