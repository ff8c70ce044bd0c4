//! Draining and shutdown.

use super::*;

fn draining() -> World {
    let mut world = World::serving(A);
    world.send(Event::Terminate);
    assert_eq!(world.drained, 1);
    world
}

fn exits_with(mut world: World, exit: &Exit) {
    assert_eq!(world.killed, [0].into());
    world.send(Event::Exited(0, ExitStatus::Clean));
    assert_eq!(world.exit.as_ref(), Some(exit));
}

#[test]
fn drain_ends_at_its_deadline() {
    let mut world = draining();
    while world.killed.is_empty() {
        world.wait();
        if world.counting {
            world.send(Event::Connections(Connections::Active(3)));
        }
    }
    assert_eq!(world.now, Duration::from_secs(10));
    exits_with(world, &Exit::Terminated);
}

#[test]
fn changed_settings_apply_to_the_next_drain() {
    let mut world = World::serving(A);
    let deadline = Some(Duration::from_secs(4));
    let drain = drain::Plan { deadline, ..settings().drain };
    world.send(Event::Settings(Settings { drain, ..settings() }));
    world.send(Event::Terminate);
    world.wait_for(Timer::DrainDeadline);
    assert_eq!(world.now, Duration::from_secs(4));
    exits_with(world, &Exit::Terminated);
}

#[test]
fn parent_of_a_started_child_keeps_its_time() {
    let shorter = Settings { parent_exit: Duration::from_secs(3), ..settings() };
    for (has_started, expected) in [(true, 20), (false, 3)] {
        let mut world = World::serving(A);
        if !has_started {
            world.send(Event::Settings(shorter.clone()));
        }
        world.send(Event::Desired(B));
        world.send(Event::Checked(B, Verdict::Allowed));
        world.send(Event::Settings(shorter.clone()));
        world.send(Event::Live(1));
        world.wait_for(Timer::Kill(0));
        assert_eq!(world.now, Duration::from_secs(expected));
    }
}

#[test]
fn drain_ends_with_the_last_connection() {
    let mut world = draining();
    world.wait_for(Timer::CountConnections);
    assert_eq!(world.now, Duration::from_secs(2));
    world.send(Event::Connections(Connections::Active(1)));
    world.wait_for(Timer::CountConnections);
    world.send(Event::Connections(Connections::Active(0)));
    assert_eq!(world.now, Duration::from_secs(3));
    exits_with(world, &Exit::Terminated);
}

#[test]
fn drain_waits_for_a_retiring_parent() {
    let mut world = World::serving(A);
    world.send(Event::Desired(B));
    world.send(Event::Checked(B, Verdict::Allowed));
    world.send(Event::Live(1));
    world.send(Event::Terminate);
    world.wait_for(Timer::CountConnections);
    world.send(Event::Connections(Connections::Active(0)));
    assert!(world.killed.is_empty());
    world.send(Event::Exited(0, ExitStatus::Clean));
    world.wait_for(Timer::CountConnections);
    world.send(Event::Connections(Connections::Active(0)));
    assert_eq!(world.killed, [1].into());
}

#[test]
fn drain_without_deadline_has_one_if_count_is_unknown() {
    let mut plan = settings().drain;
    plan.deadline = None;
    let mut world = World::new(Settings { drain: plan, ..settings() });
    world.send(Event::Desired(A));
    world.send(Event::Live(0));
    world.send(Event::Terminate);
    while world.killed.is_empty() {
        world.wait();
        if world.counting {
            world.send(Event::Connections(Connections::Unknown));
        }
    }
    assert_eq!(world.now, Duration::from_secs(10));
    exits_with(world, &Exit::Terminated);
}

#[test]
fn five_failed_counts_end_the_drain() {
    let mut world = draining();
    for _ in 0..5 {
        world.wait_for(Timer::CountConnections);
        world.send(Event::Connections(Connections::Failed));
    }
    assert_eq!(world.now, Duration::from_secs(6));
    exits_with(world, &Exit::Terminated);
}

#[test]
fn requested_drain_serves_until_sigterm() {
    let mut world = World::serving(A);
    world.send(Event::DrainRequested);
    assert_eq!((world.drained, world.serving), (1, Some(0)));
    world.send(Event::Desired(B));
    assert!(world.checking.is_empty(), "a drained Envoy is not restarted");
    world.send(Event::Terminate);
    exits_with(world, &Exit::Terminated);
}

#[test]
fn requested_drain_is_repeated_when_a_child_failed() {
    let mut world = World::restarting();
    world.send(Event::DrainRequested);
    world.send(Event::Exited(1, crash()));
    assert_eq!((world.drained, world.draining), (2, Some(0)));
}

#[test]
fn requested_drain_applies_to_an_envoy_that_starts() {
    let mut world = World::new(settings());
    world.send(Event::DrainRequested);
    world.send(Event::Desired(A));
    world.send(Event::Live(0));
    assert_eq!(world.drained, 1);
}

#[test]
fn second_sigterm_ends_the_drain() {
    let mut world = draining();
    world.send(Event::Terminate);
    exits_with(world, &Exit::Terminated);
}

#[test]
fn crash_during_the_drain_is_an_error() {
    let mut world = draining();
    world.send(Event::Exited(0, crash()));
    assert!(world.exit.as_ref().is_some_and(Exit::is_failure), "{:?}", world.exit);
}

#[test]
fn sigterm_before_start_ends_at_once() {
    let mut world = World::new(settings());
    world.send(Event::Terminate);
    assert_eq!(world.exit, Some(Exit::NeverServed));
    world.send(Event::Desired(A));
    assert!(world.spawned.is_empty());
}

/// Signal of a kubelet after a failed `postStart` hook that waits for the proxy.
#[test]
fn sigterm_before_envoy_served_is_an_error() {
    let mut world = World::new(settings());
    world.send(Event::Desired(A));
    world.send(Event::Responding(0));
    world.send(Event::Terminate);
    assert_eq!(world.killed, [0].into());
    world.send(Event::Exited(0, crash()));
    assert_eq!(world.exit, Some(Exit::NeverServed));
    assert!(Exit::NeverServed.is_failure());
}

#[test]
fn sigterm_between_two_envoys_is_no_error() {
    let mut world = World::serving(A);
    world.send(Event::DrainRequested);
    world.send(Event::Terminate);
    exits_with(world, &Exit::Terminated);
}

#[test]
fn sigterm_during_hot_restart_drains_the_child_once_live() {
    let mut world = World::restarting();
    world.send(Event::Terminate);
    assert_eq!((world.drained, world.killed.len()), (0, 0));
    world.send(Event::Live(1));
    assert_eq!((world.drained, world.serving), (1, Some(1)));
    world.wait_for(Timer::DrainDeadline);
    assert_eq!(world.now, Duration::from_secs(10));
    world.send(Event::Exited(0, crash()));
    world.send(Event::Exited(1, ExitStatus::Clean));
    assert_eq!(world.exit, Some(Exit::Terminated));
}

#[test]
fn parent_drains_after_its_child_failed_or_was_late() {
    for is_late in [false, true] {
        let mut world = World::restarting();
        world.send(Event::Terminate);
        if is_late {
            world.wait_for(Timer::Guard(1));
            // Half of the drain's time.
            assert_eq!((world.now, &world.killed), (Duration::from_secs(5), &[1].into()));
            world.send(Event::Live(1));
        }
        assert_eq!(world.drained, 0);
        world.send(Event::Exited(1, crash()));
        assert_eq!((world.drained, world.serving), (1, Some(0)));
        world.wait_for(Timer::DrainDeadline);
        exits_with(world, &Exit::Terminated);
    }
}

#[test]
fn sigterm_waits_for_a_killed_child_to_drain_its_parent() {
    let mut world = World::restarting();
    world.wait_for(Timer::Guard(1));
    world.send(Event::Terminate);
    assert_eq!(world.drained, 0);
    world.send(Event::Exited(1, crash()));
    assert_eq!((world.drained, world.serving), (1, Some(0)));
}

#[test]
fn counts_do_not_end_the_drain_while_a_child_starts() {
    for count in [Connections::Active(0), Connections::Failed] {
        let mut plan = settings().drain;
        plan.deadline_if_unknown = Duration::from_secs(40);
        plan.deadline = None;
        let mut world = World::restarting();
        world.send(Event::Settings(Settings { drain: plan, ..settings() }));
        world.send(Event::Terminate);
        for _ in 0..6 {
            world.wait_for(Timer::CountConnections);
            world.send(Event::Connections(count));
        }
        assert!(world.killed.is_empty());
    }
}

#[test]
fn second_sigterm_during_hot_restart_ends_both() {
    let mut world = World::restarting();
    world.send(Event::Terminate);
    world.send(Event::Terminate);
    assert_eq!(world.killed, [0, 1].into());
    world.send(Event::Exited(1, crash()));
    exits_with(world, &Exit::Terminated);
}

#[test]
fn envoy_that_ignores_sigterm_is_killed() {
    let mut world = World::serving(A);
    world.send(Event::Quit);
    world.wait_for(Timer::Kill(0));
    exits_with(world, &Exit::Quit);
}
