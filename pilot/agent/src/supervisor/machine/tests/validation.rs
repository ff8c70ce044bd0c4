//! Validation of the bootstrap after the first failed start.

use super::*;

fn failed_start() -> World {
    let mut world = World::new(settings());
    world.send(Event::Desired(A));
    world.send(Event::Exited(0, crash()));
    assert_eq!((&world.checking, world.timers.len()), (&vec![A], 1));
    world
}

#[test]
fn rejected_bootstrap_of_first_envoy_ends_agent() {
    let mut world = failed_start();
    world.send(Event::Checked(A, Verdict::Rejected("no such field".to_owned())));
    assert_eq!(world.exit, Some(Exit::BootstrapRejected("no such field".to_owned())));
}

#[test]
fn accepted_bootstrap_is_retried_and_not_validated_again() {
    for verdict in [Verdict::Allowed, Verdict::Failed("killed".to_owned())] {
        let mut world = failed_start();
        world.send(Event::Checked(A, verdict));
        world.wait_for(Timer::Retry);
        assert_eq!(world.running(), [(0, A)]);
        world.send(Event::Exited(0, crash()));
        assert!(world.checking.is_empty());
        world.wait_for(Timer::Retry);
        assert_eq!(world.running(), [(0, A)]);
    }
}

#[test]
fn changed_bootstrap_replaces_a_rejected_one() {
    let mut world = failed_start();
    world.send(Event::Desired(B));
    world.send(Event::Checked(A, Verdict::Rejected("no such field".to_owned())));
    assert_eq!((world.running(), world.exit), (vec![(0, B)], None));
}

#[test]
fn sigterm_ends_a_validation() {
    let mut world = failed_start();
    world.send(Event::Terminate);
    assert_eq!(world.exit, Some(Exit::NeverServed));
    world.send(Event::Checked(A, Verdict::Allowed));
    assert!(world.living.is_empty());
}
