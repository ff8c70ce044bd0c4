//! The state machine against a simulated Envoy, with a simulated clock.

mod behaviours;
mod lonely_child;
mod orders;
mod shutdown;
mod validation;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;
use crate::supervisor::machine::retries::RETRIES;

/// Simulated processes and timers. Checks the invariants after every step.
#[derive(Clone, Debug)]
struct World {
    state: State,
    now: Duration,
    timers: BTreeMap<Timer, Duration>,
    living: BTreeMap<u32, Revision>,
    killed: BTreeSet<u32>,
    checking: Vec<Revision>,
    counting: bool,
    serving: Option<u32>,
    report: Option<String>,
    /// Spawned revisions with their times.
    spawned: Vec<(Duration, Revision)>,
    /// Attempts, checks included, since the desired revision changed.
    attempts: BTreeMap<Revision, u32>,
    drained: u32,
    /// The epoch that drains.
    draining: Option<u32>,
    terminated: bool,
    exit: Option<Exit>,
}

const A: Revision = Revision(1);
const B: Revision = Revision(2);
const C: Revision = Revision(3);

fn settings() -> Settings {
    Settings {
        guard: Duration::from_secs(60),
        parent_exit: Duration::from_secs(20),
        exit_on_changed_bootstrap: false,
        drain: drain::Plan {
            minimum: Duration::from_secs(2),
            deadline: Some(Duration::from_secs(10)),
            deadline_if_unknown: Duration::from_secs(10),
        },
    }
}

fn crash() -> ExitStatus {
    ExitStatus::Failed("exit code 1".to_owned())
}

impl World {
    fn new(settings: Settings) -> Self {
        Self {
            state: State::new(settings),
            now: Duration::ZERO,
            timers: BTreeMap::new(),
            living: BTreeMap::new(),
            killed: BTreeSet::new(),
            checking: Vec::new(),
            counting: false,
            serving: None,
            report: None,
            spawned: Vec::new(),
            attempts: BTreeMap::new(),
            drained: 0,
            draining: None,
            terminated: false,
            exit: None,
        }
    }

    /// A world in which epoch 0 serves this revision.
    fn serving(revision: Revision) -> Self {
        let mut world = Self::new(settings());
        world.send(Event::Desired(revision));
        world.send(Event::Live(0));
        world
    }

    fn send(&mut self, event: Event) {
        match &event {
            Event::Exited(epoch, _) => {
                self.living.remove(epoch);
                self.killed.remove(epoch);
            }
            Event::Timer(timer) => drop(self.timers.remove(timer)),
            Event::Checked(revision, _) => self.checking.retain(|other| other != revision),
            Event::Desired(revision) if self.state.desired != Some(*revision) => {
                self.attempts.clear();
            }
            Event::Connections(_) => self.counting = false,
            Event::Terminate => self.terminated = true,
            _ => {}
        }
        let (state, actions) = self.state.clone().next(event);
        self.state = state;
        for action in actions {
            self.act(action);
        }
        self.check();
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Check(revision) | Action::Validate(revision) => self.checking.push(revision),
            Action::Spawn { epoch, revision } => {
                assert!(!self.terminated, "no start after SIGTERM");
                assert!(self.living.insert(epoch, revision).is_none(), "one process per epoch");
                assert!(epoch == 0 || self.living.contains_key(&(epoch - 1)), "epoch has a parent");
                self.spawned.push((self.now, revision));
                let attempts = self.attempts.entry(revision).or_default();
                *attempts += 1;
                assert!(*attempts <= RETRIES + 1, "the retry budget holds");
            }
            Action::Terminate(epoch) | Action::Kill(epoch) => {
                assert!(self.living.contains_key(&epoch), "only a living process gets a signal");
                self.killed.insert(epoch);
            }
            Action::Arm(timer, delay) => drop(self.timers.insert(timer, self.now + delay)),
            Action::Disarm(timer) => drop(self.timers.remove(&timer)),
            Action::DrainListeners => {
                assert!(self.serving.is_some(), "an Envoy serves");
                self.drained += 1;
                self.draining = self.serving;
            }
            Action::CountConnections => self.counting = true,
            Action::Publish(epoch) => self.serving = epoch,
            Action::Report(report) => self.report = report,
            Action::CountFailure => {}
            Action::Exit(exit) => {
                assert!(self.living.is_empty(), "no process is left behind");
                assert!(self.exit.replace(exit).is_none(), "supervision ends once");
            }
        }
    }

    fn check(&self) {
        assert!(self.living.len() <= 2, "two processes at most");
        let armed: BTreeSet<_> = self.timers.keys().copied().collect();
        assert_eq!(armed, self.state.armed);
        assert_eq!(self.serving.is_some(), self.state.epochs.serving().is_some());
        if self.state.lost_parent.is_some() && matches!(self.state.phase, Phase::Running) {
            let (child, _) = self.living.first_key_value().expect("a child is left");
            assert!(self.living.len() == 1 && self.serving.is_none());
            let is_bounded = armed.contains(&Timer::Guard(*child)) || self.killed.contains(child);
            assert!(is_bounded, "a child without parent has a deadline");
        }
        if matches!(self.state.phase, Phase::Draining(..)) {
            let stages = || self.state.epochs.iter().map(|(_, stage)| stage);
            let fails = stages().any(|stage| matches!(stage, Stage::Starting | Stage::Rejected));
            assert!(fails || self.draining == self.serving, "the serving Envoy drains");
        }
        if self.exit.is_some() {
            assert!(self.timers.is_empty(), "no timer outlives supervision");
            return;
        }
        let next = self.timers.keys().any(|timer| *timer != Timer::RateLimit)
            || !self.killed.is_empty()
            || !self.checking.is_empty()
            || self.counting
            || self
                .state
                .waiting()
                .is_some_and(|(_, revision)| Some(revision) == self.state.desired);
        let limited = self.timers.contains_key(&Timer::RateLimit);
        if self.state.target().is_some() {
            assert!(next || limited, "a difference from the desired state has a scheduled action");
        } else if !matches!(self.state.phase, Phase::Running) {
            assert!(next, "shutdown has a scheduled action");
        }
    }

    /// Lets time pass until the next timer expires.
    fn wait(&mut self) -> Option<Timer> {
        let (timer, at) = self.timers.iter().min_by_key(|(_, at)| **at).map(|(t, at)| (*t, *at))?;
        self.now = self.now.max(at);
        self.send(Event::Timer(timer));
        Some(timer)
    }

    /// Lets time pass until a timer expires.
    fn wait_for(&mut self, timer: Timer) {
        while self.wait().expect("the timer is armed") != timer {}
    }

    /// Lets the first Envoy fail, and waits for its next start.
    fn fail_start(&mut self) {
        self.send(Event::Exited(0, crash()));
        if let Some(revision) = self.checking.first().copied() {
            self.send(Event::Checked(revision, Verdict::Allowed));
        }
        while self.living.is_empty() {
            self.wait().expect("a start is scheduled");
        }
    }

    /// A world in which epoch 0 serves A, and epoch 1 starts with B.
    fn restarting() -> Self {
        let mut world = Self::serving(A);
        world.send(Event::Desired(B));
        world.send(Event::Checked(B, Verdict::Allowed));
        world
    }

    /// Lets the hot restart to a revision succeed: check, spawn, live, exit of the parent.
    fn hot_restart(&mut self, revision: Revision, parent: u32) {
        self.send(Event::Checked(revision, Verdict::Allowed));
        self.send(Event::Live(parent + 1));
        self.send(Event::Exited(parent, ExitStatus::Clean));
    }

    fn running(&self) -> Vec<(u32, Revision)> {
        self.living.iter().map(|(epoch, revision)| (*epoch, *revision)).collect()
    }
}
