//! The built `sidecar-injector`, started for one test and gone with it.

use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Client, plain_get};

/// A running program that serves from files and defaults.
pub(crate) struct Program {
    child: Child,
    log: Receiver<Value>,
    /// The lines that were taken from it.
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

    /// As [`Program::start`], with the CA written into `directory`.
    pub(crate) fn start_in(directory: TempDir, flags: &[&str]) -> Self {
        let ca = directory.path().join("ca.pem");
        let ca = ["--writeCaFile", ca.to_str().unwrap()];
        Self::spawn(directory, &[&ca, flags].concat())
    }

    /// Starts it with these flags, and with addresses, a log and time limits for those that they
    /// leave out.
    pub(crate) fn spawn(directory: TempDir, flags: &[&str]) -> Self {
        Self::spawn_by(command(), directory, flags)
    }

    /// As [`Program::spawn`], by a command that may have an environment of its own.
    pub(crate) fn spawn_by(mut command: Command, directory: TempDir, flags: &[&str]) -> Self {
        let usual = [
            ("--httpsAddr", "127.0.0.1:0"),
            ("--adminAddr", "127.0.0.1:0"),
            ("--log_output_level", "default:debug"),
            // On a busy machine, a test may stand still for longer than the defaults allow a client.
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

    /// The directory that is gone with the program.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A new connection with its TLS handshake done.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.https, &std::fs::read(self.path("ca.pem")).unwrap()).unwrap()
    }

    /// Where it listens, and the CA that it is trusted by.
    pub(crate) fn endpoint(&self) -> (SocketAddr, Vec<u8>) {
        (self.https, std::fs::read(self.path("ca.pem")).unwrap())
    }

    /// Waits for the next log line with this message.
    pub(crate) fn log(&self, message: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
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

    /// How many log lines so far have this message.
    pub(crate) fn count(&self, message: &str) -> usize {
        self.seen.borrow_mut().extend(self.log.try_iter());
        self.seen.borrow().iter().filter(|entry| entry["message"] == message).count()
    }

    /// Closes the reading end of its log, at the next line.
    pub(crate) fn stop_reading(&mut self) {
        self.log = channel().1;
    }

    /// The value of a metric, by its name and labels as they stand on the page.
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

    /// Waits for the program's own end.
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
        // After a failed test it still runs; after a passed one there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program, without anything of this environment that would change what it does.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidecar-injector"));
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
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Enough for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
