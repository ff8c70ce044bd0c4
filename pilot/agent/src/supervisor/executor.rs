//! Actions of the state machine, carried out: processes, files, timers, admin interface.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus as ProcessStatus;
use std::sync::Arc;
use std::time::SystemTime;

use rustix::process::Signal;
use tokio::sync::{mpsc, watch};

use super::bootstrap_files::BootstrapFiles;
use super::cgroup::{Memory, out_of_memory_kills};
use super::machine::{Action, Event, Exit, ExitStatus, Revision, State, Timer, Verdict};
use super::parent_socket::ParentSocket;
use super::preconditions::{self, Preconditions};
use super::process::{describe, reap_orphans};
use super::revisions::Revisions;
use super::running_envoy::{Ended, RunningEnvoy};
use super::shared_memory::SharedMemory;
use super::timers::Timers;
use super::validation::{self, Validation};
use super::{Desired, Message, Metrics, Options, command, connections};
use crate::admin::{Admin, AdminError};
use crate::channel::ControlPlane;
use crate::config::Role;
use crate::health::{Health, Part};

/// Processes, timers and outputs of supervision.
#[derive(Debug)]
pub(super) struct Executor {
    options: Options,
    health: Arc<Health>,
    metrics: Metrics,
    serving: watch::Sender<Option<u32>>,
    messages: mpsc::UnboundedSender<Message>,
    state: Option<State>,
    started: SystemTime,
    /// Reason against hot restarts in this container.
    no_hot_restart: Option<&'static str>,
    admin: Admin,
    files: BootstrapFiles,
    shared_memory: SharedMemory,
    revisions: Revisions,
    envoys: BTreeMap<u32, RunningEnvoy>,
    validation: Option<Validation>,
    timers: Timers,
    out_of_memory_kills: Option<u64>,
    exit: Option<Exit>,
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
            started: SystemTime::now(),
            admin: Admin::new(options.admin),
            files: BootstrapFiles::new(&options.configuration),
            shared_memory: SharedMemory::new(options.envoy.base_id),
            no_hot_restart,
            options,
            health,
            metrics,
            serving,
            messages,
            revisions: Revisions::default(),
            envoys: BTreeMap::new(),
            validation: None,
            timers: Timers::default(),
            out_of_memory_kills: out_of_memory_kills(),
            exit: None,
        }
    }

    /// Returns the end of supervision, once.
    pub(super) fn take_exit(&mut self) -> Option<Exit> {
        self.exit.take()
    }

    /// Waits for the next timer.
    pub(super) async fn next_timer(&mut self) -> Timer {
        self.timers.next().await
    }

    pub(super) fn desire(&mut self, desired: &Arc<Desired>) {
        self.send(Event::Settings(self.options.machine(desired)));
        let runs = |revision| self.envoys.values().any(|envoy| envoy.revision == revision);
        let revision = self.revisions.number(desired, runs);
        self.send(Event::Desired(revision));
    }

    pub(super) fn receive(&mut self, message: Message) {
        match message {
            Message::Event(event) => {
                match event {
                    Event::Checked(..) => self.validation = None,
                    Event::Live(epoch) => {
                        if let Some(envoy) = self.envoys.get_mut(&epoch) {
                            envoy.is_live = true;
                        }
                    }
                    _ => {}
                }
                self.send(event);
            }
            Message::Reachable(revision) => self.validate(revision),
            Message::Ended(ended) => self.ended(ended),
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
            let envoys = self.envoys.values().map(RunningEnvoy::process);
            let validation = self.validation.as_ref().map(Validation::process);
            reap_orphans(&envoys.chain(validation).collect::<Vec<_>>());
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Check(revision) => self.check(revision),
            Action::Validate(revision) => self.validate(revision),
            Action::Spawn { epoch, revision } => {
                if let Err(reason) = self.spawn(epoch, revision) {
                    self.files.remove(epoch);
                    self.post(Event::Exited(epoch, ExitStatus::Failed(reason)));
                }
            }
            Action::Terminate(epoch) => self.signal(epoch, Signal::TERM),
            Action::Kill(epoch) => self.signal(epoch, Signal::KILL),
            Action::Arm(timer, delay) => self.timers.arm(timer, delay),
            Action::Disarm(timer) => self.timers.disarm(timer),
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
        let desired = self.revisions.bootstrap(revision).ok_or("its bootstrap is unknown")?;
        let path = self.files.write(epoch, &desired.bootstrap).map_err(|error| {
            format!("writing its bootstrap in {}: {error}", self.options.configuration.display())
        })?;
        if self.envoys.is_empty() {
            self.shared_memory.remove();
        } else if let Err(error) = self.shared_memory.clear_initializing() {
            tracing::warn!("Envoy's shared memory: {error}");
        }
        let hot_restart = self.no_hot_restart.is_none();
        let arguments =
            command::arguments(&self.options.envoy, &desired, &path, hot_restart, epoch);
        let numbers = (epoch, revision);
        let (admin, messages) = (self.admin.clone(), &self.messages);
        let envoy = RunningEnvoy::start(&self.options, &arguments, numbers, admin, messages)
            .map_err(|error| format!("starting {}: {error}", self.options.agent.display()))?;
        self.metrics.starts.inc();
        self.envoys.insert(epoch, envoy);
        Ok(())
    }

    fn ended(&mut self, Ended { epoch, status, error }: Ended) {
        let Some(envoy) = self.envoys.remove(&epoch) else { return };
        self.files.remove(epoch);
        self.hold_parent_socket(epoch);
        let status = match status {
            Ok(status) if status.success() => ExitStatus::Clean,
            Ok(status) => {
                let failure = self.failure(status);
                ExitStatus::Failed(match error.filter(|_| !envoy.is_live) {
                    Some(error) => format!("{failure}: {error}"),
                    None => failure,
                })
            }
            Err(error) => ExitStatus::Failed(format!("waiting for it: {error}")),
        };
        tracing::info!("Envoy exited (epoch {epoch}): {status}");
        self.send(Event::Exited(epoch, status));
        if !envoy.is_live && !self.envoys.is_empty() {
            self.probe_admin();
        }
    }

    /// Takes the address of an exited parent for the child that will send it a message.
    fn hold_parent_socket(&mut self, parent: u32) {
        let child = parent.checked_add(1).and_then(|child| self.envoys.get_mut(&child));
        let Some(child) = child else { return };
        match ParentSocket::bind(self.options.envoy.base_id, parent, self.started) {
            Ok(socket) => child.parent_socket = Some(socket),
            Err(error) => tracing::warn!("holding the socket of an exited Envoy: {error}"),
        }
    }

    /// Describes a failure. A kill for lack of memory is suspected if the cgroup counted one, and
    /// lack of shared memory after SIGBUS.
    fn failure(&mut self, status: ProcessStatus) -> String {
        let text = describe(status);
        let kills = out_of_memory_kills();
        let has_killed = kills > std::mem::replace(&mut self.out_of_memory_kills, kills);
        if has_killed && status.signal() == Some(Signal::KILL.as_raw()) {
            let cause = "probably for lack of memory; raise the container's memory limit";
            return format!("{text}, {cause}");
        }
        if status.signal() == Some(Signal::BUS.as_raw()) {
            return format!("{text}, probably for lack of space in /dev/shm");
        }
        text
    }

    fn check(&mut self, revision: Revision) {
        let Some(desired) = self.revisions.bootstrap(revision) else { return };
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
        // Its file has the name of the next one's.
        self.validation = None;
        match self.start_validation(revision) {
            Ok(validation) => self.validation = Some(validation),
            Err(reason) => self.post(Event::Checked(revision, Verdict::Failed(reason))),
        }
    }

    fn start_validation(&self, revision: Revision) -> Result<Validation, String> {
        let desired = self.revisions.bootstrap(revision).ok_or("it is unknown")?;
        let candidate = validation::candidate(&desired.bootstrap);
        let file = self.files.write_candidate(&candidate).map_err(|error| {
            format!("writing it in {}: {error}", self.options.configuration.display())
        })?;
        Validation::start(&self.options, &desired, file, revision, self.messages.clone())
            .map_err(|error| format!("starting its validation: {error}"))
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
            let count = connections::count(admin, &envoy).await;
            // The receiver ends with supervision.
            let _ = messages.send(Message::Event(Event::Connections(count)));
        });
    }

    fn finish(&mut self, exit: Exit) {
        self.validation = None;
        if self.no_hot_restart.is_none() {
            self.shared_memory.remove();
        }
        self.exit = Some(exit);
    }

    fn signal(&self, epoch: u32, signal: Signal) {
        if let Some(envoy) = self.envoys.get(&epoch) {
            envoy.signal(signal);
        }
    }

    /// Queues an event.
    fn post(&self, event: Event) {
        // The receiver ends with supervision.
        let _ = self.messages.send(Message::Event(event));
    }
}
