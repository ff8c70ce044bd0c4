//! A serving Envoy that exits while its child starts.

use super::*;

/// Epoch 1 starts with B, and its parent has exited.
fn alone(status: ExitStatus) -> World {
    let mut world = World::restarting();
    world.send(Event::Exited(0, status));
    assert_eq!((world.running(), world.serving), (vec![(1, B)], None));
    assert!(world.killed.is_empty() && world.exit.is_none());
    world
}

fn exits_with(world: &World, message: &str) {
    let exit = world.exit.as_ref().expect("supervision ended");
    assert_eq!((exit.to_string().as_str(), exit.is_failure()), (message, true));
}

#[test]
fn child_without_parent_serves_once_it_is_live() {
    for status in [ExitStatus::Clean, crash()] {
        let mut world = alone(status);
        world.send(Event::Live(1));
        assert_eq!((world.serving, &world.report), (Some(1), &None));
        world.send(Event::Desired(C));
        world.hot_restart(C, 1);
        assert_eq!(world.running(), [(2, C)]);
    }
}

#[test]
fn child_without_parent_has_a_guard_of_its_own() {
    let mut world = World::restarting();
    world.wait_for(Timer::RateLimit);
    let lost = world.now;
    world.send(Event::Exited(0, crash()));
    world.send(Event::Responding(1));
    world.wait_for(Timer::Guard(1));
    assert_eq!(world.now.saturating_sub(lost), Duration::from_secs(60));
    assert_eq!(world.killed, [1].into());
    world.send(Event::Exited(1, crash()));
    let expected = "Envoy exited: exit code 1; its hot restart failed: it was not live within 60 s";
    exits_with(&world, expected);
}

#[test]
fn failed_child_without_parent_ends_agent() {
    let mut world = alone(ExitStatus::Failed("killed by SIGKILL".to_owned()));
    world.send(Event::Exited(1, crash()));
    exits_with(&world, "Envoy exited: killed by SIGKILL; its hot restart failed: exit code 1");
}

#[test]
fn change_waits_until_a_child_without_parent_is_live() {
    let mut world = alone(crash());
    world.send(Event::Responding(1));
    world.send(Event::Desired(C));
    assert!(world.killed.is_empty() && world.checking.is_empty());
    world.send(Event::Live(1));
    world.hot_restart(C, 1);
    assert_eq!(world.running(), [(2, C)]);
}

#[test]
fn sigterm_ends_a_child_without_parent_at_once() {
    let mut world = alone(crash());
    world.send(Event::Terminate);
    assert_eq!(world.killed, [1].into());
    world.send(Event::Exited(1, crash()));
    assert_eq!(world.exit, Some(Exit::Terminated));
}

#[test]
fn requested_drain_applies_to_a_child_without_parent() {
    let mut world = alone(crash());
    world.send(Event::DrainRequested);
    world.send(Event::Live(1));
    assert_eq!(world.drained, 1);
}

/// An unseen child may have taken over, and have told its parent to exit.
#[test]
fn clean_exit_after_a_rejected_child_names_both() {
    for is_parent_first in [true, false] {
        let mut world = World::restarting();
        world.wait_for(Timer::Guard(1));
        let (parent, child) = (Event::Exited(0, ExitStatus::Clean), Event::Exited(1, crash()));
        let order = if is_parent_first { [parent, child] } else { [child, parent] };
        for event in order {
            world.send(event);
        }
        let expected =
            "Envoy exited: exit code 0; its hot restart failed: it was not live within 60 s";
        exits_with(&world, expected);
    }
}

#[test]
fn success_makes_a_failed_child_forgotten() {
    let mut world = World::restarting();
    world.send(Event::Exited(1, crash()));
    world.wait_for(Timer::Retry);
    world.hot_restart(B, 0);
    world.send(Event::Exited(1, crash()));
    exits_with(&world, "Envoy exited: exit code 1");
}
