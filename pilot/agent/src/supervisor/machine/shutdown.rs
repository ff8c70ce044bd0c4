//! Shutdown: draining, and the end of all processes.

use std::time::Duration;

use super::drain::{Continuation, Drain};
use super::epoch::Stage;
use super::{Action, Connections, Exit, Phase, State, Timer};

impl State {
    pub(super) fn drain_requested(&mut self, actions: &mut Vec<Action>) {
        if self.drained || !matches!(self.phase, Phase::Running) {
            return;
        }
        self.drained = true;
        if self.epochs.serving().is_some() {
            actions.push(Action::DrainListeners);
        }
    }

    /// SIGTERM drains. It ends at once after `POST /drain`, the second time, and before Envoy
    /// serves.
    pub(super) fn terminate(&mut self, actions: &mut Vec<Action>) {
        let exit = if self.has_served { Exit::Terminated } else { Exit::NeverServed };
        match &self.phase {
            Phase::Running if !self.drained => self.drain(exit, actions),
            Phase::Running | Phase::Draining(..) => self.end(exit, actions),
            Phase::Ending(_) | Phase::Ended => {}
        }
    }

    pub(super) fn drain(&mut self, exit: Exit, actions: &mut Vec<Action>) {
        if self.epochs.serving().is_none() {
            return self.end(exit, actions);
        }
        self.phase = Phase::Draining(Drain::default(), exit);
        self.drained = true;
        self.checking = None;
        for timer in [Timer::Retry, Timer::Recheck, Timer::RateLimit] {
            self.disarm(timer, actions);
        }
        let plan = self.settings.drain;
        // A child that starts may have closed the admin interface of its parent. It drains the
        // parent when it is live.
        if let Some((child, _)) = self.epochs.starting() {
            let longest = plan.deadline.unwrap_or(plan.deadline_if_unknown) / 2;
            self.arm(Timer::Guard(child), self.settings.guard.min(longest), actions);
        } else if !self.epochs.is_rejecting() {
            actions.push(Action::DrainListeners);
        }
        if let Some(deadline) = plan.deadline {
            self.arm(Timer::DrainDeadline, deadline, actions);
        }
        if plan.deadline.is_none_or(|deadline| plan.minimum < deadline) {
            self.arm(Timer::CountConnections, plan.minimum, actions);
        }
    }

    pub(super) fn connections(&mut self, count: Connections, actions: &mut Vec<Action>) {
        let Phase::Draining(drain, exit) = &mut self.phase else { return };
        // The statistics lack the connections of a parent, and a child that starts may not answer.
        let count = match count {
            Connections::Active(0) | Connections::Failed if self.epochs.in_transition() => {
                Connections::Active(1)
            }
            count => count,
        };
        match drain.counted(count) {
            Continuation::End => {
                let exit = exit.clone();
                return self.end(exit, actions);
            }
            Continuation::Limit if !self.armed.contains(&Timer::DrainDeadline) => {
                let plan = self.settings.drain;
                let rest = plan.deadline_if_unknown.saturating_sub(plan.minimum);
                self.arm(Timer::DrainDeadline, rest, actions);
            }
            Continuation::Limit | Continuation::CountAgain => {}
        }
        self.arm(Timer::CountConnections, COUNT_INTERVAL, actions);
    }

    pub(super) fn drain_expired(&mut self, timer: Timer, actions: &mut Vec<Action>) {
        let Phase::Draining(_, exit) = &self.phase else { return };
        match timer {
            Timer::DrainDeadline => self.end(exit.clone(), actions),
            _ => actions.push(Action::CountConnections),
        }
    }

    /// Ends all processes, then supervision.
    pub(super) fn end(&mut self, exit: Exit, actions: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Ending(_) | Phase::Ended) {
            return;
        }
        for timer in std::mem::take(&mut self.armed) {
            actions.push(Action::Disarm(timer));
        }
        self.checking = None;
        self.phase = Phase::Ending(exit);
        let living: Vec<_> = self.epochs.iter().collect();
        for (epoch, stage) in living {
            if stage == Stage::Serving {
                // Envoy writes its access logs before it exits.
                actions.push(Action::Terminate(epoch));
                self.arm(Timer::Kill(epoch), FLUSH, actions);
            } else {
                actions.push(Action::Kill(epoch));
            }
        }
        self.finish(actions);
    }

    pub(super) fn finish(&mut self, actions: &mut Vec<Action>) {
        if let Phase::Ending(exit) = &self.phase
            && self.epochs.is_empty()
        {
            actions.push(Action::Exit(exit.clone()));
            self.phase = Phase::Ended;
        }
    }
}

/// Interval between counts of connections.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);
/// Time for Envoy to write its logs at its end.
const FLUSH: Duration = Duration::from_secs(1);
