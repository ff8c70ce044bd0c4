//! Invariants in all orders of a few events, and in random orders of many. [`World::check`] has the
//! invariants.

use proptest::prelude::*;

use super::*;

/// Input of a random step. Epochs and timers are picked from those that exist.
#[derive(Clone, Copy, Debug)]
enum OrderStep {
    Desire(u64),
    Allow,
    Block,
    Reject,
    FailCheck,
    Respond,
    Live(bool),
    Crash(bool),
    ExitCleanly(bool),
    Wait,
    AdminLost,
    Drain,
    Connections(Connections),
    Quit,
    Terminate,
}

impl World {
    /// Turns a step into an event that is possible now, and sends it.
    fn take(&mut self, step: OrderStep) {
        let checked = self.checking.first().copied();
        let pick = |newest: bool| {
            let mut living = self.living.keys().copied();
            if newest { living.next_back() } else { living.next() }
        };
        let verdict = |verdict| checked.map(|revision| Event::Checked(revision, verdict));
        let event = match step {
            OrderStep::Desire(revision) => Some(Event::Desired(Revision(revision))),
            OrderStep::Allow => verdict(Verdict::Allowed),
            OrderStep::Block => verdict(Verdict::Blocked(String::new())),
            OrderStep::Reject => verdict(Verdict::Rejected(String::new())),
            OrderStep::FailCheck => verdict(Verdict::Failed(String::new())),
            OrderStep::Respond => pick(true).map(Event::Responding),
            OrderStep::Live(newest) => pick(newest).map(Event::Live),
            OrderStep::Crash(newest) => pick(newest).map(|epoch| Event::Exited(epoch, crash())),
            OrderStep::ExitCleanly(newest) => {
                pick(newest).map(|epoch| Event::Exited(epoch, ExitStatus::Clean))
            }
            OrderStep::Wait => {
                self.wait();
                return;
            }
            OrderStep::AdminLost => Some(Event::AdminLost),
            OrderStep::Drain => Some(Event::DrainRequested),
            OrderStep::Connections(count) => {
                Some(Event::Connections(count)).filter(|_| self.counting)
            }
            OrderStep::Quit => Some(Event::Quit),
            OrderStep::Terminate => Some(Event::Terminate),
        };
        if let Some(event) = event {
            self.send(event);
        }
    }

    /// Cooperates with the machine until nothing is scheduled. Every process obeys.
    fn settle(&mut self) {
        for _ in 0..200 {
            if let Some(epoch) = self.killed.first().copied() {
                self.send(Event::Exited(epoch, crash()));
            } else if let Some(revision) = self.checking.first().copied() {
                self.send(Event::Checked(revision, Verdict::Allowed));
            } else if self.counting {
                self.send(Event::Connections(Connections::Active(0)));
            } else if let Some(epoch) = self.starting() {
                self.send(Event::Live(epoch));
            } else if self.wait().is_none() {
                return;
            }
        }
        panic!("it does not settle: {self:?}");
    }

    fn starting(&self) -> Option<u32> {
        self.living.keys().copied().find(|epoch| self.state.epochs.is_starting(*epoch))
    }

    /// Checks the end of a history after which all goes well.
    fn settles_at_desired(mut self) {
        self.settle();
        let Some(desired) = self.state.desired.filter(|_| self.exit.is_none()) else { return };
        let serving = self.state.epochs.serving().map(|epoch| epoch.revision);
        let is_kept = self.state.drained || self.state.retries.is_exhausted(desired);
        assert!(serving == Some(desired) || (is_kept && serving.is_some()), "{self:?}");
    }
}

/// All orders of steps, to this depth, from each of several states.
#[test]
fn all_orders_of_a_few_events_keep_invariants() {
    const STEPS: [OrderStep; 11] = [
        OrderStep::Desire(1),
        OrderStep::Desire(2),
        OrderStep::Allow,
        OrderStep::Reject,
        OrderStep::Respond,
        OrderStep::Live(true),
        OrderStep::Crash(true),
        OrderStep::Crash(false),
        OrderStep::ExitCleanly(false),
        OrderStep::Wait,
        OrderStep::Terminate,
    ];
    fn explore(world: &World, depth: u32) {
        world.clone().settles_at_desired();
        if depth == 0 || world.exit.is_some() {
            return;
        }
        for step in STEPS {
            let mut next = world.clone();
            next.take(step);
            explore(&next, depth - 1);
        }
    }
    explore(&World::new(settings()), 4);
    explore(&World::serving(A), 4);
    explore(&World::restarting(), 4);
    let mut alone = World::restarting();
    alone.send(Event::Exited(0, crash()));
    explore(&alone, 4);
}

fn steps() -> impl Strategy<Value = OrderStep> {
    prop_oneof![
        4 => (1_u64..5).prop_map(OrderStep::Desire),
        4 => Just(OrderStep::Allow),
        1 => Just(OrderStep::Block),
        1 => Just(OrderStep::Reject),
        1 => Just(OrderStep::FailCheck),
        2 => Just(OrderStep::Respond),
        5 => any::<bool>().prop_map(OrderStep::Live),
        4 => any::<bool>().prop_map(OrderStep::Crash),
        2 => any::<bool>().prop_map(OrderStep::ExitCleanly),
        8 => Just(OrderStep::Wait),
        1 => Just(OrderStep::AdminLost),
        1 => Just(OrderStep::Connections(Connections::Active(1))),
        1 => Just(OrderStep::Connections(Connections::Unknown)),
        1 => Just(OrderStep::Connections(Connections::Failed)),
    ]
}

/// Mostly a working life, seldom its end.
fn steps_with_end() -> impl Strategy<Value = OrderStep> {
    prop_oneof![
        60 => steps(),
        1 => Just(OrderStep::Drain),
        1 => Just(OrderStep::Quit),
        1 => Just(OrderStep::Terminate),
    ]
}

proptest! {
    #[test]
    fn random_orders_keep_invariants(
        steps in prop::collection::vec(steps_with_end(), 0..120),
        exits in any::<bool>(),
    ) {
        let mut world =
            World::new(Settings { exit_on_changed_bootstrap: exits, ..settings() });
        for step in steps {
            world.take(step);
        }
        world.settles_at_desired();
    }

    /// Failing starts alone, so that budgets are exhausted often.
    #[test]
    fn failing_starts_never_exceed_their_budget(
        steps in prop::collection::vec(
            prop_oneof![
                10 => Just(OrderStep::Allow),
                10 => Just(OrderStep::Crash(true)),
                20 => Just(OrderStep::Wait),
                2 => Just(OrderStep::AdminLost),
                1 => (1_u64..3).prop_map(OrderStep::Desire),
            ],
            0..200,
        ),
    ) {
        let mut world = World::serving(A);
        for step in steps {
            world.take(step);
        }
        world.settles_at_desired();
    }
}
