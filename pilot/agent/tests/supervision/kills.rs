//! kill -9 of Envoy and of the agent.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::random::{Random, rounds, seed};
use e2e::wait;
use rustix::process::{Pid, Signal, getpgid, kill_process, test_kill_process};

use crate::fixture::{Agent, kill};
use crate::load::{Clients, Protocol};
use crate::tests;

tests![
    killed_envoy_ends_agent_with_error,
    foreign_sigterm_to_envoy_ends_agent,
    killed_parent_leaves_its_child_serving,
    parent_killed_at_each_step_leaves_its_child_serving,
    parent_killed_before_it_answers_leaves_child_serving,
    exits_of_parent_and_rejected_child_are_named,
    killed_agent_takes_envoy_with_it,
    stopped_envoy_is_killed_by_the_next_agent,
    envoy_is_in_a_process_group_of_its_own,
    killed_agent_takes_both_envoys_of_a_hot_restart_with_it,
    random_kills_under_load_leave_nothing_behind,
];

fn killed_envoy_ends_agent_with_error() -> Result<()> {
    let mut agent = Agent::new()?.started()?;
    kill(agent.envoy(0)?)?;
    ensure!(!agent.ended()?.success());
    ensure!(agent.log().contains("exit: Envoy exited: killed by SIGKILL"), "{}", agent.log());
    agent.has_no_shared_memory()
}

fn foreign_sigterm_to_envoy_ends_agent() -> Result<()> {
    let mut agent = Agent::new()?.started()?;
    let pid = Pid::from_raw(agent.envoy(0)?).context("process id")?;
    kill_process(pid, Signal::TERM)?;
    ensure!(agent.ended()?.success(), "{}", agent.log());
    ensure!(agent.log().contains("exit: Envoy exited on its own"), "{}", agent.log());
    agent.has_no_shared_memory()
}

/// A child tells its parent to exit before its own child takes over, and aborts if that fails.
fn killed_parent_leaves_its_child_serving() -> Result<()> {
    let mut agent = Agent::new()?.started()?;
    agent.apply(&agent.bootstrap("b"))?;
    agent.wait_for_log("serving Some(1)")?;
    kill_parent(&agent, 0);
    for version in ["c", "d", "e"] {
        agent.hot_restart(version)?;
    }
    ensure!(!agent.log().contains("connection refused"), "{}", agent.log());
    agent.stop()
}

/// The parent is killed before the child's first message, at several times during its messages, and
/// while the child waits for its configuration.
fn parent_killed_at_each_step_leaves_its_child_serving() -> Result<()> {
    let mut agent = Agent::new()?.started()?;
    for epoch in 0..6 {
        let version = format!("version {epoch}");
        agent.apply(&agent.bootstrap(&version))?;
        agent.envoy(epoch + 1)?;
        std::thread::sleep(Duration::from_millis(u64::from(epoch) * 20));
        kill_parent(&agent, epoch);
        agent.wait_for_log(&format!("serving Some({})", epoch + 1))?;
        agent.wait_for_version(&version)?;
        wait::until("the parent has ended", || {
            ensure!(agent.envoys().len() == 1, "{:?}", agent.envoys());
            Ok::<_, anyhow::Error>(())
        })?;
    }
    agent.apply(&agent.slow_bootstrap("slow"))?;
    agent.wait_for_waiting_child()?;
    kill_parent(&agent, 6);
    agent.wait_for_log("serving None")?;
    agent.wait_for_log("serving Some(7)")?;
    agent.wait_for_version("slow")?;
    agent.hot_restart("last")?;
    agent.stop()
}

/// Kills the parent of a child, unless the child has told it to exit already.
fn kill_parent(agent: &Agent, parent: u32) {
    if let Some((_, pid)) = agent.envoys().iter().find(|(epoch, _)| *epoch == parent) {
        drop(kill(*pid));
    }
}

/// The answer that the child waits for never comes from its parent.
fn parent_killed_before_it_answers_leaves_child_serving() -> Result<()> {
    let mut agent = Agent::new()?.started()?;
    let parent = agent.envoy(0)?;
    kill_process(Pid::from_raw(parent).context("process id")?, Signal::STOP)?;
    agent.apply(&agent.bootstrap("b"))?;
    let child = agent.envoy(1)?;
    wait::until("the child waits for an answer", || {
        let function = fs::read_to_string(format!("/proc/{child}/wchan"))?;
        ensure!(function.contains("skb_wait_for_more_packets"), "it waits in {function}");
        Ok::<_, anyhow::Error>(())
    })?;
    kill(parent)?;
    agent.wait_for_log("serving Some(1)")?;
    agent.wait_for_version("b")?;
    agent.hot_restart("c")?;
    agent.stop()
}

fn exits_of_parent_and_rejected_child_are_named() -> Result<()> {
    let mut agent =
        Agent::new()?.with(|settings| settings.guard = Duration::from_secs(3)).started()?;
    agent.apply(&agent.waiting_bootstrap())?;
    agent.wait_for_waiting_child()?;
    kill_process(Pid::from_raw(agent.envoy(0)?).context("process id")?, Signal::TERM)?;
    ensure!(!agent.ended()?.success());
    let expected =
        "exit: Envoy exited: exit code 0; its hot restart failed: it was not live within 3 s";
    ensure!(agent.log().contains(expected), "{}", agent.log());
    agent.has_no_shared_memory()
}

/// The segment is left until the next start of the same agent, which makes its own.
fn killed_agent_takes_envoy_with_it() -> Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let mut agent = Agent::new()?.started()?;
    agent.signal(Signal::KILL)?;
    agent.ended()?;
    let left = fs::metadata(agent.shared_memory())?.ino();
    // A process that was killed while it held the lock.
    fs::write(agent.shared_memory(), "broken")?;
    let mut other = Agent::new()?.started()?;
    ensure!(fs::metadata(agent.shared_memory())?.ino() == left, "another agent leaves it alone");
    other.stop()?;
    let mut again = agent.started()?;
    ensure!(fs::metadata(again.shared_memory())?.ino() != left, "the segment is a new one");
    ensure!(again.version()? == "a");
    again.stop()
}

/// Envoy replaces SIGKILL at its parent's end by SIGTERM, which a stopped process does not take.
fn stopped_envoy_is_killed_by_the_next_agent() -> Result<()> {
    let mut agent = Agent::new()?.started()?;
    let envoy = Pid::from_raw(agent.envoy(0)?).context("process id")?;
    kill_process(envoy, Signal::STOP)?;
    agent.signal(Signal::KILL)?;
    agent.exited()?;
    ensure!(test_kill_process(envoy).is_ok(), "it outlives its agent");
    let mut again = agent.started()?;
    let left = again.envoys();
    ensure!(left.len() == 1 && again.envoy(0)? != envoy.as_raw_nonzero().get(), "{left:?}");
    again.stop()
}

/// A signal to the agent's group, such as a terminal's, would end Envoy without a drain.
fn envoy_is_in_a_process_group_of_its_own() -> Result<()> {
    let mut agent = Agent::new()?.started()?;
    let envoy = Pid::from_raw(agent.envoy(0)?).context("process id")?;
    ensure!(getpgid(Some(envoy))? == envoy);
    agent.stop()
}

fn killed_agent_takes_both_envoys_of_a_hot_restart_with_it() -> Result<()> {
    let mut agent = Agent::new()?.started()?;
    agent.apply(&agent.waiting_bootstrap())?;
    agent.envoy(1)?;
    agent.signal(Signal::KILL)?;
    agent.ended()?;
    agent.apply(&agent.bootstrap("b"))?;
    agent.start()?;
    wait::until("it serves again", || {
        let version = agent.version()?;
        ensure!(version == "b", "{version}");
        Ok::<_, anyhow::Error>(())
    })?;
    agent.stop()
}

/// The test is the kubelet: it starts the agent again after each exit.
fn random_kills_under_load_leave_nothing_behind() -> Result<()> {
    let duration = Duration::from_secs(rounds(8, 120));
    let mut agent = Agent::new()?.started()?;
    let clients = Clients::start(&agent.namespace, agent.port, &[Protocol::Http1], "/version")?;
    let seed = seed();
    let mut random = Random::new(seed, "supervision");
    let (start, mut round) = (Instant::now(), 0);
    while start.elapsed() < duration {
        round += 1;
        let context = || format!("round {round}, seed {seed}");
        let version = round.to_string();
        agent.apply(&agent.bootstrap(&version))?;
        std::thread::sleep(Duration::from_millis(random.roll(600)));
        let envoys = agent.envoys();
        let target = random.roll(envoys.len() as u64 + 1);
        match envoys.get(usize::try_from(target)?) {
            // It may have exited meanwhile.
            Some((_, pid)) => drop(kill(*pid)),
            None => agent.signal(Signal::KILL)?,
        }
        wait::until("it serves the new version again", || {
            if !agent.is_running() {
                agent.start()?;
            }
            let current = agent.version()?;
            ensure!(current == version, "{current}");
            Ok::<_, anyhow::Error>(())
        })
        .with_context(context)
        .with_context(|| agent.log())?;
    }
    let reports = clients.finish()?;
    ensure!(reports.iter().all(|(_, report)| report.answered > 0), "{reports:?}");
    let Err(error) = agent.stop() else { return Ok(()) };
    // The last killed Envoy ends its agent, which may come after the other one has answered.
    agent.exited().with_context(|| format!("{error:#}"))?;
    agent.start()?;
    agent.wait_for_version(&round.to_string())?;
    agent.stop()
}
