//! Drain and shutdown.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::wait;
use rustix::process::Signal;

use crate::fixture::Agent;
use crate::load::{Clients, Protocol, start_backend};
use crate::tests;

tests![
    slow_requests_finish_during_drain,
    sigterm_after_drain_request_exits_at_once,
    sigterm_while_a_child_starts_drains_it_once_live,
    quit_ends_without_draining,
    quit_of_envoy_itself_ends_agent_without_error,
    sigterm_before_envoy_serves_is_an_error,
    changed_bootstrap_drains_and_ends_agent_if_chosen,
];

/// The drain lasts until the slow requests are answered, and ends long before its deadline.
fn slow_requests_finish_during_drain() -> Result<()> {
    for signal in [Signal::TERM, Signal::INT] {
        let (mut agent, clients) = with_slow_requests(Agent::new()?)?;
        agent.signal(signal)?;
        are_answered(clients)?;
        ensure!(agent.ended()?.success(), "{signal:?}: {}", agent.log());
        agent.has_no_shared_memory()?;
    }
    Ok(())
}

/// The kubelet starts the container again, after an exit code other than 0 only.
fn changed_bootstrap_drains_and_ends_agent_if_chosen() -> Result<()> {
    let (mut agent, clients) = with_slow_requests(Agent::new()?.with(|settings| {
        settings.hot_restart = false;
        settings.exit_on_changed_bootstrap = true;
    }))?;
    agent.apply(&agent.bootstrap("b"))?;
    are_answered(clients)?;
    ensure!(agent.ended()?.code() == Some(1), "{}", agent.log());
    ensure!(agent.log().contains("exit: the bootstrap changed"), "{}", agent.log());
    let mut again = agent.started()?;
    ensure!(again.version()? == "b");
    again.stop()
}

/// Starts an agent whose drain has no end, and sends it slow requests.
fn with_slow_requests(agent: Agent) -> Result<(Agent, Clients)> {
    let agent = agent.with(|settings| settings.drain_duration = HOUR);
    start_backend(&agent.namespace)?;
    let agent = agent.started()?;
    let protocols = [Protocol::Http1, Protocol::Http2];
    let clients = Clients::start(&agent.namespace, agent.port, &protocols, "/slow")?;
    wait::until("both requests are in flight", || {
        let stats = agent.http(agent.admin_port(), "GET /stats?filter=rq_active")?;
        ensure!(stats.contains("cluster.backend.upstream_rq_active: 2"), "{stats}");
        Ok::<_, anyhow::Error>(())
    })?;
    Ok((agent, clients))
}

fn are_answered(clients: Clients) -> Result<()> {
    // The clients send one request each.
    for (protocol, report) in clients.finish()? {
        ensure!(report.lost.is_empty() && report.answered > 0, "{protocol:?}: {report:?}");
    }
    Ok(())
}

fn sigterm_after_drain_request_exits_at_once() -> Result<()> {
    let mut agent = Agent::new()?.with(|settings| settings.drain_duration = HOUR).started()?;
    agent.request("drain")?;
    wait_for_drain(&agent)?;
    ensure!(agent.version()? == "a");
    agent.signal(Signal::TERM)?;
    ensure!(agent.ended()?.success());
    agent.has_no_shared_memory()
}

/// The child has closed the admin interface of its parent, which serves until the child is live.
fn sigterm_while_a_child_starts_drains_it_once_live() -> Result<()> {
    let mut agent = Agent::new()?.with(|settings| settings.drain_duration = HOUR).started()?;
    agent.apply(&agent.slow_bootstrap("slow"))?;
    agent.wait_for_waiting_child()?;
    agent.signal(Signal::TERM)?;
    wait_for_drain(&agent)?;
    ensure!(agent.version()? == "slow");
    agent.signal(Signal::TERM)?;
    ensure!(agent.ended()?.success());
    agent.has_no_shared_memory()
}

/// Waits until Envoy closes a connection after each answer.
fn wait_for_drain(agent: &Agent) -> Result<()> {
    wait::until("Envoy drains", || {
        let clients = Clients::start(&agent.namespace, agent.port, &[Protocol::Http1], "/version")?;
        clients.wait_for(20)?;
        let report = clients.finish()?.remove(0).1;
        ensure!(report.lost.is_empty() && report.connections >= 20, "{report:?}");
        Ok::<_, anyhow::Error>(())
    })
}

fn quit_ends_without_draining() -> Result<()> {
    let mut agent = Agent::new()?.with(|settings| settings.drain_duration = HOUR).started()?;
    agent.stop()
}

/// Request with which Jobs end their sidecar.
fn quit_of_envoy_itself_ends_agent_without_error() -> Result<()> {
    let mut agent = Agent::new()?.started()?;
    agent.http(agent.admin_port(), "POST /quitquitquit")?;
    ensure!(agent.ended()?.success(), "{}", agent.log());
    agent.has_no_shared_memory()
}

/// Signal of a kubelet after a failed `postStart` hook: a Job with `restartPolicy: OnFailure` starts the container
/// again after an error only.
fn sigterm_before_envoy_serves_is_an_error() -> Result<()> {
    let mut agent = Agent::new()?;
    agent.apply(&agent.waiting_bootstrap())?;
    agent.start()?;
    agent.wait_for_waiting_child()?;
    agent.signal(Signal::TERM)?;
    ensure!(agent.ended()?.code() == Some(1), "{}", agent.log());
    ensure!(agent.log().contains("before Envoy served"), "{}", agent.log());
    agent.has_no_shared_memory()
}

const HOUR: Duration = Duration::from_secs(3600);
