//! Actions of the state machine, carried out: processes, files, timers, admin interface.

use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitStatus as ProcessStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::Child;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::bootstrap_files::BootstrapFiles;
use super::cgroup::{Memory, out_of_memory_kills};
use super::connections::{self, active_connections};
use super::error_output;
use super::machine::{
    Action, Connections, Event, Exit, ExitStatus, Revision, State, Timer, Verdict,
};
use super::parent_socket::ParentSocket;
use super::preconditions::{self, Preconditions, validate};
use super::process::{Process, describe, reap_orphans};
use super::shared_memory::SharedMemory;
use super::{Desired, Metrics, Options, command, guard};
use crate::admin::{Admin, AdminError};
use crate::channel::ControlPlane;
use crate::config::Role;
use crate::health::{Health, Part};

/// Message of a task.
#[derive(Debug)]
pub(super) enum Message {
    /// An event of the machine.
    Event(Event),
    /// The control plane is reachable, which a bootstrap needs.
    Reachable(Revision),
    /// The process of an epoch has ended, with this last error in its log.
    Ended(u32, io::Result<ProcessStatus>, Option<String>),
}

/// Processes, timers and outputs of supervision.
#[derive(Debug)]
pub(super) struct Executor {
    options: Options,
    health: Arc<Health>,
    metrics: Metrics,
    serving: watch::Sender<Option<u32>>,
    messages: mpsc::UnboundedSender<Message>,
    state: Option<State>,
    /// Reason against hot restarts in this container.
    no_hot_restart: Option<&'static str>,
    admin: Admin,
    files: BootstrapFiles,
    shared_memory: SharedMemory,
    revisions: Vec<(Revision, Arc<Desired>)>,
    next_revision: u64,
    epochs: BTreeMap<u32, Epoch>,
    /// Task and process id of a validation.
    validation: Option<(JoinHandle<()>, u32)>,
    timers: BTreeMap<Timer, Instant>,
    out_of_memory_kills: Option<u64>,
    exit: Option<Exit>,
}

/// Process of an epoch.
#[derive(Debug)]
struct Epoch {
    process: Process,
    revision: Revision,
    observer: JoinHandle<()>,
    is_live: bool,
    parent_socket: Option<ParentSocket>,
}

impl Executor {
    pub(super) fn new(
        options: Options,
        first: &Desired,
        health: Arc<Health>,
        metrics: Metrics,
        serving: watch::Sender<Option<u32>>,
        messages: mpsc::UnboundedSender<Message>,
    ) -> Self {
        let no_hot_restart = if !options.envoy.hot_restart {
            Some("hot restart is disabled")
        } else if !SharedMemory::is_writable() {
            Some("hot restart needs a writable /dev/shm")
        } else {
            None
        };
        metrics.epoch.set(-1);
        Self {
            state: Some(State::new(options.machine(first))),
            admin: Admin::new(options.admin),
            files: BootstrapFiles::new(&options.configuration),
            shared_memory: SharedMemory::new(options.envoy.base_id),
            no_hot_restart,
            options,
            health,
            metrics,
            serving,
            messages,
            revisions: Vec::new(),
            next_revision: 0,
            epochs: BTreeMap::new(),
            validation: None,
            timers: BTreeMap::new(),
            out_of_memory_kills: out_of_memory_kills(),
            exit: None,
        }
    }

    /// Returns the end of supervision, once.
    pub(super) fn take_exit(&mut self) -> Option<Exit> {
        self.exit.take()
    }

    /// Waits for the next timer and stops it.
    pub(super) async fn next_timer(&mut self) -> Timer {
        let next = self.timers.iter().min_by_key(|(_, at)| **at);
        let Some((timer, at)) = next.map(|(timer, at)| (*timer, *at)) else {
            return pending().await;
        };
        sleep_until(at).await;
        self.timers.remove(&timer);
        timer
    }

    pub(super) fn desire(&mut self, desired: &Arc<Desired>) {
        self.send(Event::Settings(self.options.machine(desired)));
        let known = self.revisions.iter().find(|(_, known)| known.has_same_envoy(desired));
        let revision = if let Some((revision, _)) = known {
            *revision
        } else {
            let epochs = &self.epochs;
            let runs = |revision| epochs.values().any(|epoch| epoch.revision == revision);
            self.revisions.retain(|(revision, _)| runs(*revision));
            self.next_revision += 1;
            let revision = Revision(self.next_revision);
            self.revisions.push((revision, Arc::clone(desired)));
            revision
        };
        self.send(Event::Desired(revision));
    }

    pub(super) fn receive(&mut self, message: Message) {
        match message {
            Message::Event(event) => {
                match event {
                    Event::Checked(..) => self.validation = None,
                    Event::Live(epoch) => {
                        if let Some(epoch) = self.epochs.get_mut(&epoch) {
                            epoch.is_live = true;
                        }
                    }
                    _ => {}
                }
                self.send(event);
            }
            Message::Reachable(revision) => self.validate(revision),
            Message::Ended(epoch, status, error) => self.ended(epoch, status, error),
        }
    }

    /// Sends an event to the machine, and carries its actions out.
    pub(super) fn send(&mut self, event: Event) {
        tracing::debug!("supervision: {event:?}");
        let Some(state) = self.state.take() else { return };
        let (state, actions) = state.next(event);
        self.state = Some(state);
        for action in actions {
            self.act(action);
        }
    }

    pub(super) fn reap_orphans(&self) {
        if std::process::id() == 1 {
            let epochs = self.epochs.values().map(|epoch| epoch.process.id());
            let validation = self.validation.as_ref().map(|(_, pid)| *pid);
            reap_orphans(&epochs.chain(validation).collect::<Vec<_>>());
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Check(revision) => self.check(revision),
            Action::Spawn { epoch, revision } => {
                if let Err(reason) = self.spawn(epoch, revision) {
                    self.files.remove(epoch);
                    self.post(Event::Exited(epoch, ExitStatus::Failed(reason)));
                }
            }
            Action::Terminate(epoch) => self.signal(epoch, Signal::TERM),
            Action::Kill(epoch) => self.signal(epoch, Signal::KILL),
            Action::Arm(timer, delay) => drop(self.timers.insert(timer, Instant::now() + delay)),
            Action::Disarm(timer) => drop(self.timers.remove(&timer)),
            Action::DrainListeners => self.drain_listeners(),
            Action::CountConnections => self.count_connections(),
            Action::Publish(epoch) => {
                if let Some(epoch) = epoch {
                    tracing::info!("Envoy serves (epoch {epoch})");
                }
                self.metrics.epoch.set(epoch.map_or(-1, i64::from));
                self.serving.send_replace(epoch);
            }
            Action::Report(Some(condition)) => {
                if self.health.set(Part::Bootstrap, condition.as_str()) {
                    tracing::warn!("{condition}");
                }
            }
            Action::Report(None) => self.health.clear(Part::Bootstrap),
            Action::CountFailure => drop(self.metrics.failures.inc()),
            Action::Exit(exit) => self.finish(exit),
        }
    }

    fn spawn(&mut self, epoch: u32, revision: Revision) -> Result<(), String> {
        let desired = self.bootstrap(revision).ok_or("its bootstrap is unknown")?;
        let path = self.files.write(epoch, &desired.bootstrap).map_err(|error| {
            format!("writing its bootstrap in {}: {error}", self.options.configuration.display())
        })?;
        if self.epochs.is_empty() {
            self.shared_memory.remove();
        } else if let Err(error) = self.shared_memory.clear_initializing() {
            tracing::warn!("Envoy's shared memory: {error}");
        }
        let hot_restart = self.no_hot_restart.is_none();
        let arguments =
            command::arguments(&self.options.envoy, &desired, &path, hot_restart, epoch);
        let Options { agent, envoy, .. } = &self.options;
        let (process, mut child) =
            Process::start(agent, &envoy.binary, &arguments, Stdio::inherit(), Stdio::piped())
                .map_err(|error| format!("starting {}: {error}", agent.display()))?;
        tracing::info!("starting Envoy (epoch {epoch}, process {})", process.id());
        self.metrics.starts.inc();
        let messages = self.messages.clone();
        let (tail, output) = watch::channel(Vec::new());
        let passed_on = child
            .stderr
            .take()
            .map(|stderr| tokio::spawn(error_output::pass_on(stderr, io::stderr(), tail)));
        tokio::spawn(async move {
            let status = child.wait().await;
            if let Some(passed_on) = passed_on {
                // A process that Envoy's wrapper left behind may keep the pipe open.
                let _ = timeout(OUTPUT_TIMEOUT, passed_on).await;
            }
            let error = error_output::reason(&output.borrow());
            // The receiver ends with supervision.
            let _ = messages.send(Message::Ended(epoch, status, error));
        });
        let observer =
            tokio::spawn(guard::observe(self.admin.clone(), epoch, self.messages.clone()));
        let epoch_of_process =
            Epoch { process, revision, observer, is_live: false, parent_socket: None };
        self.epochs.insert(epoch, epoch_of_process);
        Ok(())
    }

    fn ended(&mut self, epoch: u32, status: io::Result<ProcessStatus>, last_error: Option<String>) {
        let Some(Epoch { observer, is_live, .. }) = self.epochs.remove(&epoch) else {
            return;
        };
        observer.abort();
        self.files.remove(epoch);
        self.hold_parent_socket(epoch);
        let status = match status {
            Ok(status) if status.success() => ExitStatus::Clean,
            Ok(status) => {
                let failure = self.failure(status);
                ExitStatus::Failed(match last_error.filter(|_| !is_live) {
                    Some(error) => format!("{failure}: {error}"),
                    None => failure,
                })
            }
            Err(error) => ExitStatus::Failed(format!("waiting for it: {error}")),
        };
        match &status {
            ExitStatus::Clean => tracing::info!("Envoy exited (epoch {epoch})"),
            ExitStatus::Failed(reason) => tracing::info!("Envoy exited (epoch {epoch}): {reason}"),
        }
        self.send(Event::Exited(epoch, status));
        if !is_live && !self.epochs.is_empty() {
            self.probe_admin();
        }
    }

    /// Takes the address of an exited parent for the child that will send it a message.
    fn hold_parent_socket(&mut self, parent: u32) {
        let child = parent.checked_add(1).and_then(|child| self.epochs.get_mut(&child));
        let Some(child) = child else { return };
        match ParentSocket::bind(self.options.envoy.base_id, parent) {
            Ok(socket) => child.parent_socket = Some(socket),
            Err(error) => tracing::warn!("holding the socket of an exited Envoy: {error}"),
        }
    }

    /// Describes a failure. A kill for lack of memory is suspected if the cgroup counted one.
    fn failure(&mut self, status: ProcessStatus) -> String {
        let text = describe(status);
        let kills = out_of_memory_kills();
        let has_killed = kills > std::mem::replace(&mut self.out_of_memory_kills, kills);
        if has_killed && status.signal() == Some(Signal::KILL.as_raw()) {
            let cause = "probably for lack of memory; raise the container's memory limit";
            return format!("{text}, {cause}");
        }
        text
    }

    fn check(&mut self, revision: Revision) {
        let Some(desired) = self.bootstrap(revision) else { return };
        let conditions = if desired.is_dynamic() { self.health.conditions() } else { Vec::new() };
        let condition = |parts: &[Part]| {
            let found = conditions.iter().find(|(part, _)| parts.contains(part));
            found.map(|(_, text)| text.clone())
        };
        let preconditions = Preconditions {
            hot_restart: self.no_hot_restart,
            memory: Memory::read(),
            control_plane: condition(&[Part::ControlPlane]),
            rejected: condition(&[Part::Clusters, Part::Listeners]),
        };
        if let Some(reason) = preconditions.missing() {
            return self.post(Event::Checked(revision, Verdict::Blocked(reason)));
        }
        // The serving Envoy may keep its stream to another address.
        let server = self.options.control_plane.as_ref().map(ControlPlane::server);
        let Some(server) = server.filter(|_| desired.is_dynamic()) else {
            return self.validate(revision);
        };
        let messages = self.messages.clone();
        tokio::spawn(async move {
            let message = match server.connect().await {
                Ok(_) => Message::Reachable(revision),
                Err(error) => {
                    let reason = preconditions::unreachable(&error.to_string());
                    Message::Event(Event::Checked(revision, Verdict::Blocked(reason)))
                }
            };
            // The receiver ends with supervision.
            let _ = messages.send(message);
        });
    }

    fn validate(&mut self, revision: Revision) {
        let Some(desired) = self.bootstrap(revision) else { return };
        match self.start_validation(&desired) {
            Ok((process, child, file)) => {
                let messages = self.messages.clone();
                let task = tokio::spawn(async move {
                    let verdict = validate(child, file).await;
                    // The receiver ends with supervision.
                    let _ = messages.send(Message::Event(Event::Checked(revision, verdict)));
                });
                self.validation = Some((task, process.id()));
            }
            Err(reason) => self.post(Event::Checked(revision, Verdict::Rejected(reason))),
        }
    }

    fn start_validation(&self, desired: &Desired) -> Result<(Process, Child, PathBuf), String> {
        let file = self.files.write_candidate(&desired.bootstrap).map_err(|error| {
            format!("writing it in {}: {error}", self.options.configuration.display())
        })?;
        let mut arguments = command::arguments(&self.options.envoy, desired, &file, false, 0);
        arguments.extend(["--mode".into(), "validate".into()]);
        let Options { agent, envoy, .. } = &self.options;
        let (process, child) =
            Process::start(agent, &envoy.binary, &arguments, Stdio::null(), Stdio::piped())
                .map_err(|error| format!("starting its validation: {error}"))?;
        Ok((process, child, file))
    }

    /// Detects that a child closed the admin interface of the serving Envoy before it failed.
    fn probe_admin(&self) {
        let (admin, messages) = (self.admin.clone(), self.messages.clone());
        tokio::spawn(async move {
            if let Err(AdminError::Connect { .. }) = admin.get("/server_info").await {
                // The receiver ends with supervision.
                let _ = messages.send(Message::Event(Event::AdminLost));
            }
        });
    }

    fn drain_listeners(&self) {
        let path = match self.options.role {
            Role::Sidecar => "/drain_listeners?inboundonly&graceful&skip_exit",
            Role::Router => "/drain_listeners?graceful&skip_exit",
        };
        let admin = self.admin.clone();
        tracing::info!("draining Envoy");
        tokio::spawn(async move {
            if let Err(error) = admin.post(path).await {
                tracing::warn!("draining: {error}");
            }
        });
    }

    fn count_connections(&self) {
        let (admin, messages) = (self.admin.clone(), self.messages.clone());
        let envoy = self.options.envoy.clone();
        tokio::spawn(async move {
            let admin = admin.with_timeout(COUNT_TIMEOUT);
            let count = match admin.get(connections::PATH).await {
                Ok(stats) => active_connections(&stats, &envoy),
                Err(error) => {
                    tracing::warn!("counting connections: {error}");
                    Connections::Failed
                }
            };
            // The receiver ends with supervision.
            let _ = messages.send(Message::Event(Event::Connections(count)));
        });
    }

    fn finish(&mut self, exit: Exit) {
        if let Some((task, _)) = self.validation.take() {
            task.abort();
        }
        if self.no_hot_restart.is_none() {
            self.shared_memory.remove();
        }
        self.exit = Some(exit);
    }

    fn signal(&self, epoch: u32, signal: Signal) {
        if let Some(epoch) = self.epochs.get(&epoch) {
            epoch.process.signal(signal);
        }
    }

    fn bootstrap(&self, revision: Revision) -> Option<Arc<Desired>> {
        let found = self.revisions.iter().find(|(known, _)| *known == revision);
        found.map(|(_, desired)| Arc::clone(desired))
    }

    /// Queues an event.
    fn post(&self, event: Event) {
        // The receiver ends with supervision.
        let _ = self.messages.send(Message::Event(event));
    }
}

/// Envoy may be busy, and the drain has a deadline.
const COUNT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time to read the rest of an exited Envoy's output.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);
