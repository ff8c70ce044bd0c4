//! Pure state machine of Envoy's epochs: `(State, Event) -> (State, Vec<Action>)`.
//!
//! Time enters as events: an action arms a named timer, and its expiry is an event.
//!
//! - A new epoch starts only while exactly one Envoy runs, or none. So there are never more than
//!   two.
//! - A start that fails is repeated by the [retry budget](retries). A serving Envoy stays
//!   meanwhile, also when the budget is exhausted. Without one, exhaustion ends the agent with an
//!   error, and so does a bootstrap that Envoy rejects: it is validated after the first failure.
//! - The first Envoy must respond within its guard, the next ones must be live: they are to replace
//!   one that serves.
//! - A serving Envoy that exits ends the agent, as in Istio. Exit code 0, as after `/quitquitquit` of
//!   Envoy's own admin interface, is no error: so Jobs end their sidecar.
//! - SIGTERM before any Envoy has served is an error: the kubelet ends a container so after a failed
//!   `postStart` hook, and restarts it under `restartPolicy: OnFailure` only after an error.
//! - A child that starts when its parent exits goes on alone. If it is live within another guard,
//!   it serves; else the agent ends.
//! - A child closes the admin interface of its parent early. If the child then fails, the parent
//!   serves without admin interface ("silenced"), and another hot restart, of the desired bootstrap
//!   or of the parent's own, brings it back.
//! - At SIGTERM, a child that starts has half of the drain's time to become live: it drains its
//!   parent, whose admin interface may be closed. After its failure, the parent drains.

pub mod drain;
mod epoch;
pub mod event;
mod rate_limit;
pub mod retries;
mod shutdown;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use drain::Drain;
use epoch::{Epochs, Stage};
pub use event::{Action, Connections, Event, Exit, ExitStatus, Revision, Timer, Verdict};
use rate_limit::RateLimit;
use retries::Retries;

/// Settings of the machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settings {
    /// Time until a new epoch must be live.
    pub guard: Duration,
    /// Time after which a parent must have exited, longer than `--parent-shutdown-time-s`.
    pub parent_exit: Duration,
    /// Drains and exits where a hot restart is impossible.
    pub exit_on_changed_bootstrap: bool,
    /// Drain at SIGTERM.
    pub drain: drain::Plan,
}

/// State of supervision.
#[derive(Clone, Debug)]
pub struct State {
    settings: Settings,
    phase: Phase,
    desired: Option<Revision>,
    epochs: Epochs,
    /// Revision whose preconditions are being checked.
    checking: Option<Revision>,
    /// True if the serving Envoy has lost its admin interface to a child that failed.
    silenced: bool,
    /// Exit status of the serving Envoy, whose child starts and goes on alone.
    lost_parent: Option<ExitStatus>,
    /// Failure of the last child, while its parent serves.
    failed_child: Option<String>,
    /// True after `POST /drain` and SIGTERM: the serving Envoy drains.
    drained: bool,
    /// True once an Envoy has been live.
    has_served: bool,
    retries: Retries,
    rate: RateLimit,
    armed: BTreeSet<Timer>,
}

#[derive(Clone, Debug)]
enum Phase {
    Running,
    Draining(Drain, Exit),
    Ending(Exit),
    Ended,
}

impl State {
    /// Returns the state before the first bootstrap.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            phase: Phase::Running,
            desired: None,
            epochs: Epochs::default(),
            checking: None,
            silenced: false,
            lost_parent: None,
            failed_child: None,
            drained: false,
            has_served: false,
            retries: Retries::default(),
            rate: RateLimit::default(),
            armed: BTreeSet::new(),
        }
    }

    /// Returns the next state, and the actions to carry out in this order.
    #[must_use]
    pub fn next(mut self, event: Event) -> (Self, Vec<Action>) {
        let mut actions = Vec::new();
        self.step(event, &mut actions);
        (self, actions)
    }

    fn step(&mut self, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Settings(settings) => self.change(settings),
            Event::Desired(revision) => self.desire(revision, actions),
            Event::Checked(revision, verdict) => self.checked(revision, verdict, actions),
            Event::Responding(epoch) => self.responding(epoch, actions),
            Event::Live(epoch) => self.live(epoch, actions),
            Event::Exited(epoch, status) => self.exited(epoch, status, actions),
            Event::AdminLost => self.admin_lost(actions),
            Event::Timer(timer) if self.armed.remove(&timer) => self.expired(timer, actions),
            Event::Timer(_) => {}
            Event::DrainRequested => self.drain_requested(actions),
            Event::Connections(count) => self.connections(count, actions),
            Event::Quit => self.end(Exit::Quit, actions),
            Event::Terminate => self.terminate(actions),
        }
    }

    /// Applies changed settings. A parent lives as long as its child was told at its start.
    fn change(&mut self, settings: Settings) {
        let before = std::mem::replace(&mut self.settings, settings).parent_exit;
        if self.epochs.in_transition() {
            self.settings.parent_exit = self.settings.parent_exit.max(before);
        }
    }

    fn desire(&mut self, revision: Revision, actions: &mut Vec<Action>) {
        if self.desired == Some(revision) {
            return;
        }
        self.desired = Some(revision);
        self.retries = Retries::default();
        self.disarm(Timer::Retry, actions);
        self.disarm(Timer::Recheck, actions);
        if self.runs_desired() {
            self.failed_child = None;
            actions.push(Action::Report(None));
        }
        if let Some((epoch, _)) = self.waiting() {
            self.epochs.reject(epoch);
            actions.push(Action::Kill(epoch));
        }
        self.reconcile(actions);
    }

    /// Returns the first epoch, if it responds and is not live.
    fn waiting(&self) -> Option<(u32, Revision)> {
        let starting = self.epochs.starting().filter(|_| self.epochs.serving().is_none());
        starting.filter(|(epoch, _)| !self.armed.contains(&Timer::Guard(*epoch)))
    }

    /// Without a control plane, the first Envoy waits for its configuration as long as it takes.
    /// Its replacement would wait too.
    fn responding(&mut self, epoch: u32, actions: &mut Vec<Action>) {
        let starting = self.epochs.starting().filter(|(number, _)| *number == epoch);
        let is_desired = starting.map(|(_, revision)| revision) == self.desired;
        let is_first = self.epochs.serving().is_none() && self.lost_parent.is_none();
        if starting.is_some() && is_desired && is_first {
            self.disarm(Timer::Guard(epoch), actions);
        }
    }

    /// Starts an epoch if one is needed and none is in transition. Each transition ends with an
    /// event that calls this again.
    fn reconcile(&mut self, actions: &mut Vec<Action>) {
        let waits = self.checking.is_some()
            || self.epochs.in_transition()
            || self.armed.contains(&Timer::Retry)
            || self.armed.contains(&Timer::Recheck);
        let Some(target) = self.target() else { return };
        if self.epochs.is_retiring() {
            let message = "the changed bootstrap waits: the previous Envoy still drains";
            actions.push(Action::Report(Some(message.to_owned())));
        }
        if waits {
            return;
        }
        if self.armed.insert(Timer::RateLimit) {
            actions.push(Action::Arm(Timer::RateLimit, rate_limit::INTERVAL));
        }
        if !self.rate.take() {
            return;
        }
        if self.epochs.serving().is_some() {
            self.checking = Some(target);
            actions.push(Action::Check(target));
        } else {
            self.spawn(target, actions);
        }
    }

    /// Returns the revision to start: the desired one unless it runs or its budget is exhausted,
    /// else that of a silenced Envoy.
    fn target(&self) -> Option<Revision> {
        let desired = self.desired.filter(|_| matches!(self.phase, Phase::Running))?;
        let Some(serving) = self.epochs.serving() else { return Some(desired) };
        let candidates = [
            Some(desired).filter(|_| desired != serving.revision || self.silenced),
            Some(serving.revision).filter(|_| self.silenced),
        ];
        let mut candidates = candidates.into_iter().flatten().filter(|_| !self.drained);
        candidates.find(|revision| !self.retries.is_exhausted(*revision))
    }

    fn spawn(&mut self, revision: Revision, actions: &mut Vec<Action>) {
        let epoch = self.epochs.start(revision);
        actions.push(Action::Spawn { epoch, revision });
        self.arm(Timer::Guard(epoch), self.settings.guard, actions);
    }

    fn checked(&mut self, revision: Revision, verdict: Verdict, actions: &mut Vec<Action>) {
        if self.checking != Some(revision) {
            return;
        }
        self.checking = None;
        // The state may have changed during the check.
        let is_wanted = self.target() == Some(revision) && !self.epochs.in_transition();
        let serves = self.epochs.serving().is_some();
        match verdict {
            _ if !is_wanted => self.reconcile(actions),
            Verdict::Rejected(reason) if !serves => {
                self.end(Exit::BootstrapRejected(reason), actions);
            }
            _ if !serves => self.arm(Timer::Retry, retries::FIRST_DELAY, actions),
            Verdict::Allowed => self.spawn(revision, actions),
            Verdict::Rejected(reason) => {
                self.failed(revision, &format!("Envoy rejects it: {reason}"), actions);
            }
            Verdict::Failed(reason) => self.failed(revision, &reason, actions),
            Verdict::Blocked(_) if self.settings.exit_on_changed_bootstrap => {
                self.drain(Exit::BootstrapChanged, actions);
            }
            Verdict::Blocked(reason) => {
                let message = format!("Envoy keeps its old bootstrap: {reason}");
                actions.push(Action::Report(Some(message)));
                self.arm(Timer::Recheck, RECHECK, actions);
            }
        }
    }

    fn live(&mut self, epoch: u32, actions: &mut Vec<Action>) {
        if !self.epochs.is_starting(epoch) {
            return;
        }
        self.disarm(Timer::Guard(epoch), actions);
        if let Some(parent) = self.epochs.hand_over(epoch) {
            self.arm(Timer::Kill(parent), self.settings.parent_exit, actions);
        }
        self.has_served = true;
        self.silenced = false;
        self.lost_parent = None;
        self.failed_child = None;
        actions.push(Action::Publish(Some(epoch)));
        if self.runs_desired() {
            actions.push(Action::Report(None));
        }
        if self.drained {
            actions.push(Action::DrainListeners);
        }
        self.reconcile(actions);
    }

    fn exited(&mut self, epoch: u32, status: ExitStatus, actions: &mut Vec<Action>) {
        let Some(exited) = self.epochs.remove(epoch) else { return };
        self.disarm(Timer::Guard(epoch), actions);
        self.disarm(Timer::Kill(epoch), actions);
        if exited.stage == Stage::Serving {
            actions.push(Action::Publish(None));
        }
        match (&self.phase, exited.stage) {
            (Phase::Ending(_), _) => self.finish(actions),
            (Phase::Draining(_, exit), Stage::Serving) => {
                let exit = match status {
                    ExitStatus::Clean => exit.clone(),
                    ExitStatus::Failed(reason) => Exit::EnvoyExited(reason),
                };
                self.end(exit, actions);
            }
            (Phase::Draining(..), Stage::Starting | Stage::Rejected) => {
                actions.push(Action::DrainListeners);
            }
            (Phase::Draining(..) | Phase::Ended, _) => {}
            (Phase::Running, Stage::Serving) => self.serving_exited(status, actions),
            (Phase::Running, Stage::Starting) => {
                let reason = match status {
                    ExitStatus::Clean => "it exited before it was live".to_owned(),
                    ExitStatus::Failed(reason) => reason,
                };
                self.start_exited(exited.revision, reason, actions);
            }
            (Phase::Running, Stage::Rejected) => {
                self.start_exited(exited.revision, self.missed_guard(), actions);
            }
            (Phase::Running, Stage::Retiring) => self.reconcile(actions),
        }
    }

    fn serving_exited(&mut self, status: ExitStatus, actions: &mut Vec<Action>) {
        if let Some((child, _)) = self.epochs.starting() {
            self.lost_parent = Some(status);
            // It may have to start over with its listeners.
            return self.arm(Timer::Guard(child), self.settings.guard, actions);
        }
        let exit = match (status, self.failed_child.take()) {
            (ExitStatus::Clean, None) => Exit::EnvoyQuit,
            (ExitStatus::Failed(reason), None) => Exit::EnvoyExited(reason),
            (parent, Some(child)) => both_exited(&parent, &child),
        };
        self.end(exit, actions);
    }

    /// The exit of an epoch that was not live.
    fn start_exited(&mut self, revision: Revision, reason: String, actions: &mut Vec<Action>) {
        if let Some(parent) = self.lost_parent.take() {
            actions.push(Action::CountFailure);
            return self.end(both_exited(&parent, &reason), actions);
        }
        if self.drained && self.epochs.serving().is_some() {
            // The child may have had the admin interface.
            actions.push(Action::DrainListeners);
        }
        self.failed(revision, &reason, actions);
        self.failed_child = Some(reason).filter(|_| self.epochs.serving().is_some());
    }

    fn missed_guard(&self) -> String {
        format!("it was not live within {} s", self.settings.guard.as_secs())
    }

    /// Counts a failed start and schedules the next one within the budget.
    fn failed(&mut self, revision: Revision, reason: &str, actions: &mut Vec<Action>) {
        let delay = self.retries.failed(revision);
        let serves = self.epochs.serving().is_some();
        if !serves && delay.is_none() && self.desired == Some(revision) {
            return self.end(Exit::StartFailed(reason.to_owned()), actions);
        }
        actions.push(Action::CountFailure);
        if !serves && self.desired != Some(revision) {
            return self.reconcile(actions);
        }
        let what = match (serves, self.desired == Some(revision)) {
            (true, true) => "Envoy keeps its old bootstrap: the new one failed",
            (true, false) => "Envoy has no admin interface: restarting it failed",
            (false, _) => "Envoy did not start",
        };
        let next = if delay.is_some() { "" } else { "; no further attempt until it changes" };
        actions.push(Action::Report(Some(format!("{what}: {reason}{next}"))));
        if !serves && delay == Some(retries::FIRST_DELAY) {
            self.checking = Some(revision);
            return actions.push(Action::Validate(revision));
        }
        // A revision that is no longer desired does not delay the desired one.
        if let Some(delay) = delay.filter(|_| self.target() == Some(revision)) {
            self.arm(Timer::Retry, delay, actions);
        }
        self.reconcile(actions);
    }

    fn admin_lost(&mut self, actions: &mut Vec<Action>) {
        if self.epochs.serving().is_some() && !self.epochs.in_transition() {
            self.silenced = true;
            self.reconcile(actions);
        }
    }

    fn expired(&mut self, timer: Timer, actions: &mut Vec<Action>) {
        match timer {
            Timer::Guard(epoch) => {
                self.epochs.reject(epoch);
                self.failed_child = Some(self.missed_guard());
                actions.push(Action::Kill(epoch));
            }
            Timer::Kill(epoch) => actions.push(Action::Kill(epoch)),
            Timer::Retry | Timer::Recheck => self.reconcile(actions),
            Timer::RateLimit => {
                if self.rate.refill() {
                    self.arm(Timer::RateLimit, rate_limit::INTERVAL, actions);
                }
                self.reconcile(actions);
            }
            Timer::CountConnections | Timer::DrainDeadline => self.drain_expired(timer, actions),
        }
    }

    fn runs_desired(&self) -> bool {
        let serving = self.epochs.serving().map(|epoch| epoch.revision);
        serving == self.desired && !self.silenced
    }

    fn arm(&mut self, timer: Timer, delay: Duration, actions: &mut Vec<Action>) {
        self.armed.insert(timer);
        actions.push(Action::Arm(timer, delay));
    }

    fn disarm(&mut self, timer: Timer, actions: &mut Vec<Action>) {
        if self.armed.remove(&timer) {
            actions.push(Action::Disarm(timer));
        }
    }
}

/// The end of an Envoy and of the child that was to replace it.
fn both_exited(parent: &ExitStatus, child: &str) -> Exit {
    Exit::EnvoyExited(format!("{parent}; its hot restart failed: {child}"))
}

/// Interval between checks of preconditions that do not hold.
const RECHECK: Duration = Duration::from_secs(10);
