//! Behaviours of the agent of 2017, and the differences.

use super::*;

#[test]
fn start_and_stop() {
    let mut world = World::serving(A);
    assert_eq!((world.running(), world.serving), (vec![(0, A)], Some(0)));
    world.send(Event::Quit);
    world.send(Event::Exited(0, ExitStatus::Clean));
    assert_eq!(world.exit, Some(Exit::Quit));
}

#[test]
fn second_apply_starts_next_epoch() {
    let mut world = World::serving(A);
    world.send(Event::Desired(B));
    world.send(Event::Checked(B, Verdict::Allowed));
    assert_eq!((world.running(), world.serving), (vec![(0, A), (1, B)], Some(0)));
    world.send(Event::Live(1));
    assert_eq!(world.serving, Some(1));
    world.send(Event::Exited(0, ExitStatus::Clean));
    assert_eq!(world.running(), [(1, B)]);
}

#[test]
fn third_apply_waits_for_exit_of_first_epoch() {
    let mut world = World::serving(A);
    world.send(Event::Desired(B));
    world.send(Event::Checked(B, Verdict::Allowed));
    world.send(Event::Desired(C));
    world.send(Event::Live(1));
    assert_eq!(world.running(), [(0, A), (1, B)]);
    world.send(Event::Exited(0, ExitStatus::Clean));
    world.hot_restart(C, 1);
    assert_eq!((world.running(), world.report), (vec![(2, C)], None));
}

#[test]
fn equal_bootstrap_starts_nothing() {
    let mut world = World::serving(A);
    world.send(Event::Desired(A));
    assert!(world.checking.is_empty());
    world.send(Event::Desired(B));
    world.send(Event::Desired(A));
    world.send(Event::Checked(B, Verdict::Allowed));
    assert_eq!(world.running(), [(0, A)]);
}

#[test]
fn parent_that_does_not_exit_is_killed() {
    let mut world = World::serving(A);
    world.send(Event::Desired(B));
    world.send(Event::Checked(B, Verdict::Allowed));
    world.send(Event::Live(1));
    world.wait_for(Timer::Kill(0));
    assert_eq!(world.killed, [0].into());
}

#[test]
fn failing_start_is_retried_with_doubled_delays() {
    let mut world = World::new(settings());
    world.send(Event::Desired(A));
    for _ in 0..RETRIES {
        world.fail_start();
    }
    let gap = |pair: &[(Duration, Revision)]| pair[1].0.saturating_sub(pair[0].0);
    let gaps: Vec<_> = world.spawned.windows(2).map(gap).collect();
    let doubled: Vec<_> = (0..RETRIES).map(|n| retries::FIRST_DELAY * 2_u32.pow(n)).collect();
    assert_eq!(gaps, doubled);
    assert_eq!(world.now, Duration::from_millis(204_600));
    world.send(Event::Exited(0, crash()));
    assert_eq!(world.exit, Some(Exit::StartFailed("exit code 1".to_owned())));
}

#[test]
fn start_that_hangs_is_killed_and_retried() {
    let mut world = World::new(settings());
    world.send(Event::Desired(A));
    world.wait_for(Timer::Guard(0));
    assert_eq!((world.now, &world.killed), (Duration::from_secs(60), &[0].into()));
    world.fail_start();
    assert_eq!(world.running(), [(0, A)]);
}

#[test]
fn first_envoy_waits_for_configuration_without_deadline() {
    let mut world = World::new(settings());
    world.send(Event::Desired(A));
    world.send(Event::Responding(0));
    assert_eq!(world.wait(), Some(Timer::RateLimit));
    assert_eq!(world.wait(), None);
    world.send(Event::Desired(B));
    assert_eq!(world.killed, [0].into());
    world.send(Event::Exited(0, crash()));
    assert_eq!((world.running(), world.report), (vec![(0, B)], None));
}

#[test]
fn changed_bootstrap_resets_retry_budget() {
    let mut world = World::new(settings());
    world.send(Event::Desired(A));
    for _ in 0..RETRIES {
        world.fail_start();
    }
    world.send(Event::Desired(B));
    for _ in 0..RETRIES {
        world.fail_start();
    }
    assert_eq!(world.exit, None);
}

#[test]
fn start_recovers_after_failures() {
    let mut world = World::new(settings());
    world.send(Event::Desired(A));
    world.fail_start();
    assert_eq!(world.report.as_deref(), Some("Envoy did not start: exit code 1"));
    world.send(Event::Live(0));
    assert_eq!((world.serving, world.report), (Some(0), None));
}

#[test]
fn failed_hot_restart_keeps_old_envoy() {
    let mut world = World::serving(A);
    world.send(Event::Desired(B));
    for _ in 0..=RETRIES {
        world.send(Event::Checked(B, Verdict::Allowed));
        world.send(Event::Exited(1, crash()));
        while world.checking.is_empty() && world.wait().is_some() {}
    }
    assert_eq!((world.running(), world.serving, &world.exit), (vec![(0, A)], Some(0), &None));
    let expected = "Envoy keeps its old bootstrap: the new one failed: exit code 1; \
                    no further attempt until it changes";
    assert_eq!(world.report.as_deref(), Some(expected));
    world.send(Event::Desired(C));
    world.hot_restart(C, 0);
    assert_eq!((world.running(), world.report), (vec![(1, C)], None));
}

#[test]
fn epoch_that_misses_its_guard_is_killed() {
    let mut world = World::serving(A);
    world.send(Event::Desired(B));
    world.send(Event::Checked(B, Verdict::Allowed));
    world.wait_for(Timer::Guard(1));
    world.send(Event::Exited(1, crash()));
    let expected = "Envoy keeps its old bootstrap: the new one failed: \
                    it was not live within 60 s";
    assert_eq!(world.report.as_deref(), Some(expected));
    world.wait_for(Timer::Retry);
    world.hot_restart(B, 0);
    assert_eq!((world.running(), world.report), (vec![(1, B)], None));
}

#[test]
fn rejected_bootstrap_starts_no_process() {
    let mut world = World::serving(A);
    world.send(Event::Desired(B));
    world.send(Event::Checked(B, Verdict::Rejected("no such field".to_owned())));
    assert_eq!(world.spawned.len(), 1);
    let expected =
        "Envoy keeps its old bootstrap: the new one failed: Envoy rejects it: no such field";
    assert_eq!(world.report.as_deref(), Some(expected));
}

#[test]
fn lost_admin_interface_is_restored_after_bad_bootstrap() {
    let mut world = World::serving(A);
    world.send(Event::Desired(B));
    for _ in 0..=RETRIES {
        world.send(Event::Checked(B, Verdict::Allowed));
        world.send(Event::Exited(1, crash()));
        world.send(Event::AdminLost);
        while world.checking.is_empty() && world.wait().is_some() {}
    }
    assert_eq!(world.checking, [A]);
    world.hot_restart(A, 0);
    assert_eq!((world.running(), world.serving), (vec![(1, A)], Some(1)));
    assert!(world.report.is_some_and(|report| report.contains("the new one failed")));
}

#[test]
fn bootstrap_that_reverts_restores_lost_admin_interface() {
    let mut world = World::serving(A);
    world.send(Event::Desired(B));
    world.send(Event::Checked(B, Verdict::Allowed));
    world.send(Event::Exited(1, crash()));
    world.send(Event::AdminLost);
    world.send(Event::Desired(A));
    world.hot_restart(A, 0);
    assert_eq!((world.running(), world.report), (vec![(1, A)], None));
}

#[test]
fn missing_precondition_is_checked_again() {
    let mut world = World::serving(A);
    world.send(Event::Desired(B));
    world.send(Event::Checked(B, Verdict::Blocked("memory for one Envoy only".to_owned())));
    let expected = "Envoy keeps its old bootstrap: memory for one Envoy only";
    assert_eq!(world.report.as_deref(), Some(expected));
    world.wait_for(Timer::Recheck);
    world.hot_restart(B, 0);
    assert_eq!((world.running(), world.report), (vec![(1, B)], None));
}

#[test]
fn missing_precondition_drains_and_exits_if_chosen() {
    let mut world = World::new(Settings { exit_on_changed_bootstrap: true, ..settings() });
    world.send(Event::Desired(A));
    world.send(Event::Live(0));
    world.send(Event::Desired(B));
    world.send(Event::Checked(B, Verdict::Blocked("hot restart is disabled".to_owned())));
    assert_eq!(world.drained, 1);
    world.wait_for(Timer::DrainDeadline);
    world.send(Event::Exited(0, ExitStatus::Clean));
    assert_eq!(world.exit, Some(Exit::BootstrapChanged));
}

#[test]
fn two_starts_and_a_stop_leave_no_process() {
    let mut world = World::serving(A);
    world.send(Event::Desired(B));
    world.send(Event::Checked(B, Verdict::Allowed));
    world.send(Event::Quit);
    assert_eq!(world.killed, [0, 1].into());
    world.send(Event::Exited(1, crash()));
    world.send(Event::Exited(0, ExitStatus::Clean));
    assert_eq!(world.exit, Some(Exit::Quit));
}

#[test]
fn quit_of_envoys_own_admin_interface_is_no_error() {
    let mut world = World::serving(A);
    world.send(Event::Exited(0, ExitStatus::Clean));
    let exit = world.exit.expect("supervision ended");
    assert!(!exit.is_failure(), "{exit}");
    let mut world = World::serving(A);
    world.send(Event::Exited(0, crash()));
    let exit = world.exit.expect("supervision ended");
    assert!(exit.is_failure(), "{exit}");
}

#[test]
fn killed_parent_leaves_its_live_child_serving() {
    let mut world = World::serving(A);
    world.send(Event::Desired(B));
    world.send(Event::Checked(B, Verdict::Allowed));
    world.send(Event::Live(1));
    world.send(Event::Exited(0, crash()));
    assert_eq!((world.running(), world.serving), (vec![(1, B)], Some(1)));
    assert!(world.exit.is_none());
}

#[test]
fn change_during_drain_of_parent_is_reported() {
    let mut world = World::serving(A);
    world.send(Event::Desired(B));
    world.send(Event::Checked(B, Verdict::Allowed));
    world.send(Event::Live(1));
    assert_eq!(world.report, None);
    world.send(Event::Desired(C));
    let report = world.report.clone().expect("the change is reported");
    assert!(report.contains("the previous Envoy still drains"), "{report}");
    world.send(Event::Desired(B));
    assert_eq!(world.report, None);
}

#[test]
fn burst_of_changes_starts_at_most_ten_and_one_per_second() {
    let mut world = World::new(settings());
    world.send(Event::Desired(A));
    // Each start fails at once, and each failure comes with a new bootstrap.
    for change in 10..110 {
        let epoch = world.living.keys().next().copied();
        if let Some(epoch) = epoch {
            world.send(Event::Exited(epoch, crash()));
        }
        world.send(Event::Desired(Revision(change)));
        if let Some(revision) = world.checking.first().copied() {
            world.send(Event::Checked(revision, Verdict::Allowed));
        }
    }
    assert_eq!(world.spawned.len(), 10);
    world.wait();
    assert_eq!((world.spawned.len(), world.now), (11, Duration::from_secs(1)));
    assert_eq!(world.running(), [(0, Revision(109))]);
}

#[test]
fn burst_of_changes_ends_with_the_last_one() {
    let mut world = World::serving(A);
    for change in 10..1000 {
        world.send(Event::Desired(Revision(change)));
    }
    let last = Revision(999);
    world.send(Event::Checked(Revision(10), Verdict::Allowed));
    while world.checking != [last] {
        world.wait();
    }
    world.hot_restart(last, 0);
    assert_eq!(world.running(), [(1, last)]);
}
