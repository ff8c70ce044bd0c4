//! Starts that fail.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::wait;
use serde_json::json;

use crate::fixture::Agent;
use crate::tests;

tests![
    envoy_that_exits_at_once_is_retried,
    error_of_a_failed_start_is_reported,
    rejected_bootstrap_of_first_envoy_ends_agent_at_once,
    invalid_regexp_is_named,
    envoy_that_hangs_is_killed_and_retried,
    envoy_waits_for_its_configuration_beyond_the_guard,
    memory_limit_keeps_old_bootstrap,
    kill_for_lack_of_memory_is_named,
    full_shared_memory_is_named,
    process_1_reaps_orphans,
];

/// A script that behaves like this at the first two starts, and then becomes Envoy.
fn twice(fault: &str) -> String {
    format!(
        "if [ -e $FOLDER/second ]; then exec $ENVOY \"$@\"; fi\n\
         if [ -e $FOLDER/first ]; then touch $FOLDER/second; fi\n\
         touch $FOLDER/first\n{fault}"
    )
}

fn envoy_that_exits_at_once_is_retried() -> Result<()> {
    let mut agent = Agent::new()?.with_script(&twice("exit 1"))?.started()?;
    ensure!(agent.log().contains("Envoy did not start: exit code 1"), "{}", agent.log());
    agent.wait_for_log("conditions []")?;
    ensure!(agent.version()? == "a");
    agent.stop()
}

fn error_of_a_failed_start_is_reported() -> Result<()> {
    let script = twice("exec $ENVOY --log-level bad");
    let mut agent = Agent::new()?.with_script(&script)?.started()?;
    let error = "error: invalid log level specified 'bad'";
    ensure!(agent.log().contains(&format!("\n{error}\n")), "{}", agent.log());
    agent.wait_for_log(&format!("Envoy did not start: exit code 1: {error}"))?;
    agent.stop()
}

fn rejected_bootstrap_of_first_envoy_ends_agent_at_once() -> Result<()> {
    let mut agent = Agent::new()?;
    let mut bootstrap = agent.bootstrap("a");
    bootstrap["static_resources"]["clusters"] = 7.into();
    agent.apply(&bootstrap)?;
    agent.start()?;
    ensure!(!agent.ended()?.success());
    let expected = "exit: Envoy did not start: it rejects its bootstrap or a flag: ";
    ensure!(agent.log().contains(expected), "{}", agent.log());
    agent.has_no_shared_memory()
}

/// From the annotation `sidecar.istio.io/statsInclusionRegexps`, for example.
fn invalid_regexp_is_named() -> Result<()> {
    let mut agent = Agent::new()?;
    let mut bootstrap = agent.bootstrap("a");
    bootstrap["stats_config"]["stats_matcher"]["inclusion_list"]["patterns"] =
        json!([{ "safe_regex": { "regex": "orders(" } }]);
    agent.apply(&bootstrap)?;
    agent.start()?;
    ensure!(!agent.ended()?.success());
    let expected =
        "exit: Envoy did not start: it rejects its bootstrap or a flag: missing ): orders(\n";
    ensure!(agent.log().contains(expected), "{}", agent.log());
    agent.has_no_shared_memory()
}

fn envoy_that_hangs_is_killed_and_retried() -> Result<()> {
    let agent = Agent::new()?
        .with(|settings| settings.guard = Duration::from_secs(2))
        .with_script(&twice("exec sleep 600"))?;
    let mut agent = agent.started()?;
    let expected = "Envoy did not start: it was not live within 2 s";
    ensure!(agent.log().contains(expected), "{}", agent.log());
    agent.stop()
}

fn envoy_waits_for_its_configuration_beyond_the_guard() -> Result<()> {
    let mut agent = Agent::new()?.with(|settings| settings.guard = Duration::from_secs(2));
    agent.apply(&agent.waiting_bootstrap())?;
    agent.start()?;
    let envoy = agent.envoy(0)?;
    // Longer than the guard: another process that needs as long as it.
    let mut other = Agent::new()?
        .with(|settings| settings.guard = Duration::from_secs(3))
        .with_script(&twice("exec sleep 600"))?;
    other.start()?;
    other.wait_for_log("it was not live within 3 s")?;
    ensure!(agent.envoys() == [(0, envoy)], "{}", agent.log());
    agent.apply(&agent.bootstrap("b"))?;
    agent.wait_for_log("serving Some(0)")?;
    ensure!(agent.version()? == "b");
    agent.stop()
}

fn memory_limit_keeps_old_bootstrap() -> Result<()> {
    in_memory_group("limit", memory_limit)
}

fn kill_for_lack_of_memory_is_named() -> Result<()> {
    in_memory_group("kill", out_of_memory)
}

fn in_memory_group(name: &str, test: fn(&str) -> Result<()>) -> Result<()> {
    let group = format!("/sys/fs/cgroup/memory/outrigger-{name}-{}", std::process::id());
    if fs::create_dir(&group).is_err() {
        return e2e::skipped_tests::record(
            "memory limit of a cgroup",
            "no memory cgroup, version 1",
        );
    }
    let outcome = test(&group);
    // The processes have ended; else the folder stays, which the outcome explains.
    let removed = fs::remove_dir(&group);
    outcome.and_then(|()| Ok(removed?))
}

fn memory_limit(group: &str) -> Result<()> {
    let mut agent = Agent::new()?;
    start_in(&mut agent, group)?;
    agent.wait_for_log("serving Some(0)")?;
    // Enough for one Envoy, and too little for two.
    let stat = fs::read_to_string(format!("{group}/memory.stat"))?;
    let used = stat.lines().find_map(|line| line.strip_prefix("total_rss ")?.parse::<u64>().ok());
    let limit = used.context("total_rss in memory.stat")? * 2;
    fs::write(format!("{group}/memory.limit_in_bytes"), limit.to_string())?;
    agent.apply(&agent.bootstrap("b"))?;
    agent.wait_for_log("a second Envoy needs more memory than the limit of")?;
    ensure!(agent.version()? == "a");
    fs::write(format!("{group}/memory.limit_in_bytes"), "1G")?;
    agent.hot_restart("b")?;
    agent.stop()
}

fn out_of_memory(group: &str) -> Result<()> {
    fs::write(format!("{group}/memory.limit_in_bytes"), "64M")?;
    // `tail` keeps all that it reads. An Envoy without enough memory may read its program again and
    // again instead of being killed.
    let mut agent = Agent::new()?.with_script(&twice("exec tail /dev/zero"))?;
    start_in(&mut agent, group)?;
    agent.wait_for_log("Envoy did not start: killed by SIGKILL, probably for lack of memory")?;
    fs::write(format!("{group}/memory.limit_in_bytes"), "1G")?;
    agent.wait_for_log("serving Some(0)")?;
    agent.stop()
}

fn full_shared_memory_is_named() -> Result<()> {
    let mut agent = Agent::new()?;
    let script = "mount -t tmpfs -o size=4k tmpfs /dev/shm && head -c 4096 /dev/zero >/dev/shm/full \
                  && exec \"$0\" \"$@\"";
    agent.start_by(&["unshare", "--mount", "sh", "-c", script])?;
    let reason = "killed by SIGBUS, probably for lack of space in /dev/shm";
    agent.wait_for_log(&format!("Envoy did not start: {reason}"))?;
    ensure!(!agent.log().contains(&format!("{reason}: #")), "a backtrace: {}", agent.log());
    agent.stop()
}

fn start_in(agent: &mut Agent, group: &str) -> Result<()> {
    let script = format!("echo $$ > {group}/cgroup.procs && exec \"$0\" \"$@\"");
    agent.start_by(&["sh", "-c", &script])
}

fn process_1_reaps_orphans() -> Result<()> {
    let orphan = "(sleep 0.1 & echo started) & exec $ENVOY \"$@\"";
    let mut agent = Agent::new()?.with_script(&format!("{orphan}\n"))?;
    // Before it is Envoy, the script starts a process whose parent exits.
    agent.start_by(&["unshare", "--pid", "--fork", "--mount-proc"])?;
    agent.wait_for_log("serving Some(0)")?;
    wait::until("no zombie is left", || {
        let zombies = agent.zombies()?;
        ensure!(zombies.is_empty(), "{zombies:?}");
        Ok::<_, anyhow::Error>(())
    })?;
    agent.stop()
}
