//! The built `sidecar-injector`, started for one test and stopped with it.

use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use e2e::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Client, plain_get};

/// A running program that serves from files and defaults.
pub(crate) struct Program {
    child: Child,
    log: Receiver<Value>,
    /// The lines read from the log so far.
    seen: RefCell<Vec<Value>>,
    directory: TempDir,
    pub(crate) https: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// Address of the probes, if `--probeAddr` names one.
    pub(crate) probe: Option<SocketAddr>,
}

impl Program {
    /// Starts it with a certificate of its own, and waits until it listens.
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_in(TempDir::new().unwrap(), flags)
    }

    /// Starts it as [`Program::start`], with the CA written into `directory`.
    pub(crate) fn start_in(directory: TempDir, flags: &[&str]) -> Self {
        let ca = directory.path().join("ca.pem");
        let ca = ["--writeCaFile", ca.to_str().unwrap()];
        Self::spawn(directory, &[&ca, flags].concat())
    }

    /// Starts it with these flags. Defaults are added for addresses, the log and time limits.
    pub(crate) fn spawn(directory: TempDir, flags: &[&str]) -> Self {
        Self::spawn_by(command(), directory, flags)
    }

    /// Starts it as [`Program::spawn`], with a command that may have its own environment.
    pub(crate) fn spawn_by(mut command: Command, directory: TempDir, flags: &[&str]) -> Self {
        let usual = [
            ("--httpsAddr", "127.0.0.1:0"),
            ("--adminAddr", "127.0.0.1:0"),
            ("--log_output_level", "default:debug"),
            // On a busy machine, a test may stand still for longer than the defaults allow a
            // client.
            ("--handshake-timeout", "1h"),
            ("--header-timeout", "1h"),
            ("--idle-timeout", "1h"),
        ];
        let mut child = command
            .arg("--log_as_json")
            .args(usual.iter().filter(|(name, _)| !flags.contains(name)).flat_map(|(n, v)| [n, v]))
            .args(flags)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, log) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let entry = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if sender.send(entry).is_err() {
                    break;
                }
            }
        });
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut program = Self {
            child,
            log,
            seen: RefCell::default(),
            directory,
            https: nowhere,
            admin: nowhere,
            probe: None,
        };
        let listening = program.log("listening");
        let address = |key: &str| listening[key].as_str().unwrap().parse().unwrap();
        (program.https, program.admin) = (address("https"), address("admin"));
        program.probe = listening.get("probe").map(|_| address("probe"));
        program
    }

    /// Returns a path in the directory that is removed with the program.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Opens a new connection and completes its TLS handshake.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.https, &std::fs::read(self.path("ca.pem")).unwrap()).unwrap()
    }

    /// Returns the listening address and the CA to trust.
    pub(crate) fn endpoint(&self) -> (SocketAddr, Vec<u8>) {
        (self.https, std::fs::read(self.path("ca.pem")).unwrap())
    }

    /// Waits for the next log line with this message.
    pub(crate) fn log(&self, message: &str) -> Value {
        let deadline = Instant::now() + wait::TIMEOUT;
        let mut passed = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.log.recv_timeout(left) {
                Ok(entry) => {
                    self.seen.borrow_mut().push(entry.clone());
                    if entry["message"] == message {
                        return entry;
                    }
                    passed.push(entry.to_string());
                }
                Err(end) => panic!("{end}: no log line {message:?} after:\n{}", passed.join("\n")),
            }
        }
    }

    /// Returns the number of log lines so far with this message.
    pub(crate) fn count(&self, message: &str) -> usize {
        self.seen.borrow_mut().extend(self.log.try_iter());
        self.seen.borrow().iter().filter(|entry| entry["message"] == message).count()
    }

    /// Closes the reading end of its log, at the next line.
    pub(crate) fn stop_reading(&mut self) {
        self.log = channel().1;
    }

    /// Returns the value of a metric, by its name and labels as they are on the page.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let page = plain_get(self.admin, "/metrics").body;
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Waits until a metric has a value.
    pub(crate) fn metric_becomes(&self, name: &str, value: f64) {
        until(&format!("{name} is {value}"), || (self.metric(name) - value).abs() < f64::EPSILON);
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the program to exit.
    pub(crate) fn exit(&mut self) -> ExitStatus {
        let mut status = None;
        until("the program ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // After a failed test the program still runs. After a passed one it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the command for the program, without environment variables that would change its
/// behaviour.
pub(crate) fn command() -> Command {
    let mut command = crate::sidecar_injector();
    for name in [
        "KUBERNETES_SERVICE_HOST",
        "POD_NAMESPACE",
        "REVISION",
        "ENABLE_NATIVE_SIDECARS",
        "COMPLIANCE_POLICY",
        "PLATFORM",
    ] {
        command.env_remove(name);
    }
    command
}

/// Waits for a condition.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    wait::until(what, || condition().then_some(()).ok_or("it does not hold")).unwrap();
}
