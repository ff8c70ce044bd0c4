//! Hot restarts.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::netns::Namespace;
use e2e::wait;
use rustix::process::Signal;
use serde_json::json;

use crate::fixture::{Agent, kill};
use crate::load::{Clients, Protocol, start_backend};
use crate::tests;

tests![
    three_hot_restarts_lose_no_request,
    bad_bootstrap_keeps_old_envoy,
    child_that_is_not_live_in_time_is_ended,
    child_killed_at_each_step_leaves_parent_serving,
    disabled_hot_restart_keeps_old_bootstrap,
    read_only_shared_memory_keeps_old_bootstrap,
    two_agents_share_a_network_namespace,
];

fn three_hot_restarts_lose_no_request() -> Result<()> {
    let agent = Agent::new()?;
    start_backend(&agent.namespace)?;
    let mut agent = agent.started()?;
    let protocols = [Protocol::Http1, Protocol::Http2];
    let clients = Clients::start(&agent.namespace, agent.port, &protocols, "/")?;
    for version in ["b", "c", "d"] {
        agent.hot_restart(version)?;
    }
    clients.wait_for(10_000)?;
    for (protocol, report) in clients.finish()? {
        ensure!(report.lost.is_empty(), "{protocol:?}: {report:?}");
        ensure!(report.connections >= 4, "{protocol:?} used its connections again: {report:?}");
    }
    agent.wait_for_log("serving Some(3)")?;
    agent.stop()
}

fn bad_bootstrap_keeps_old_envoy() -> Result<()> {
    let mut agent = Agent::new()?.started()?;
    let mut bootstrap = agent.bootstrap("bad");
    bootstrap["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["name"] =
        5.into();
    agent.apply(&bootstrap)?;
    let rejected = "Envoy keeps its old bootstrap: the new one failed: Envoy rejects it: ";
    agent.wait_for_log(rejected)?;
    bootstrap = agent.bootstrap("bad");
    bootstrap["stats_config"]["stats_matcher"]["inclusion_list"]["patterns"] =
        json!([{ "safe_regex": { "regex": "orders(" } }]);
    agent.apply(&bootstrap)?;
    agent.wait_for_log(&format!("{rejected}missing ): orders("))?;
    ensure!(agent.version()? == "a");
    ensure!(agent.http(agent.admin_port(), "GET /ready")?.contains("LIVE"), "admin answers");
    agent.hot_restart("b")?;
    agent.wait_for_log("conditions []")?;
    agent.stop()
}

fn child_that_is_not_live_in_time_is_ended() -> Result<()> {
    let mut agent =
        Agent::new()?.with(|settings| settings.guard = Duration::from_millis(1500)).started()?;
    agent.apply(&agent.waiting_bootstrap())?;
    agent.wait_for_log("it was not live within 1 s")?;
    ensure!(agent.version()? == "a");
    // The old bootstrap once more: it restores the admin interface.
    agent.apply(&agent.bootstrap("a"))?;
    wait::until("the admin interface answers", || {
        agent.http(agent.admin_port(), "GET /ready").map_err(|error| format!("{error:#}"))
    })?;
    agent.hot_restart("b")?;
    agent.stop()
}

/// The child is killed when it starts, while it initializes, and right after it took over.
fn child_killed_at_each_step_leaves_parent_serving() -> Result<()> {
    let mut agent = Agent::new()?.started()?;
    agent.apply(&agent.waiting_bootstrap())?;
    kill(agent.envoy(1)?)?;
    wait::until("the failure is reported", || {
        ensure!(agent.log().contains("the new one failed: killed by SIGKILL"));
        Ok::<_, anyhow::Error>(())
    })?;
    ensure!(agent.version()? == "a");
    for _ in 0..2 {
        let child = agent.envoy(1)?;
        wait::until("the child has the admin port", || {
            let info = agent.http(agent.admin_port(), "GET /server_info")?;
            let is_child = info.contains("PRE_INITIALIZING");
            ensure!(is_child || !agent.envoys().contains(&(1, child)), "{info}");
            Ok::<_, anyhow::Error>(())
        })?;
        kill(child).ok();
        ensure!(agent.version()? == "a");
    }
    agent.hot_restart("b")?;
    // Once it has taken over, its end is the end of the serving Envoy.
    let epoch = agent.envoys()[0].0 + 1;
    agent.apply(&agent.bootstrap("c"))?;
    agent.wait_for_log(&format!("serving Some({epoch})"))?;
    kill(agent.envoy(epoch)?)?;
    ensure!(!agent.ended()?.success());
    ensure!(agent.log().contains("exit: Envoy exited: killed by SIGKILL"), "{}", agent.log());
    agent.has_no_shared_memory()
}

fn disabled_hot_restart_keeps_old_bootstrap() -> Result<()> {
    let mut agent = Agent::new()?.with(|settings| settings.hot_restart = false);
    agent.start()?;
    agent.wait_for_log("serving Some(0)")?;
    agent.apply(&agent.bootstrap("b"))?;
    agent.wait_for_log("Envoy keeps its old bootstrap: hot restart is disabled")?;
    ensure!(agent.version()? == "a");
    agent.apply(&agent.bootstrap("a"))?;
    agent.wait_for_log("conditions []")?;
    agent.stop()
}

fn read_only_shared_memory_keeps_old_bootstrap() -> Result<()> {
    let mut agent = Agent::new()?;
    let script = "mount -t tmpfs -o ro tmpfs /dev/shm && exec \"$0\" \"$@\"";
    agent.start_by(&["unshare", "--mount", "sh", "-c", script])?;
    agent.wait_for_log("serving Some(0)")?;
    agent.apply(&agent.bootstrap("b"))?;
    agent.wait_for_log("Envoy keeps its old bootstrap: hot restart needs a writable /dev/shm")?;
    ensure!(agent.version()? == "a");
    agent.stop()
}

fn two_agents_share_a_network_namespace() -> Result<()> {
    let namespace = Rc::new(Namespace::create()?);
    let mut one = Agent::in_namespace(Rc::clone(&namespace), 8080, 15000)?.started()?;
    let mut other = Agent::in_namespace(namespace, 8081, 15100)?.started()?;
    one.apply(&one.bootstrap("one"))?;
    other.hot_restart("other")?;
    one.hot_restart("one")?;
    one.signal(Signal::KILL)?;
    one.ended()?;
    ensure!(other.version()? == "other");
    one.started()?.stop()?;
    other.stop()
}
