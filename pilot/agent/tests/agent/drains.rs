//! Shutdown of a pod's sidecar.

use anyhow::{Result, ensure};
use e2e::wait;
use rustix::process::Signal;

use crate::fixture::{PATIENCE, Pod};
use crate::load::{Clients, Protocol, start_backend};
use crate::tests;

tests![
    slow_requests_finish_during_drain,
    sigterm_after_drain_request_exits_at_once,
    quit_ends_sidecar_of_a_job_with_success,
];

/// The drain ends with the slow requests, long before the grace period.
fn slow_requests_finish_during_drain() -> Result<()> {
    let mut pod = Pod::new()?;
    start_backend(&pod.namespace)?;
    pod.environment.extend([
        ("EXIT_ON_ZERO_ACTIVE_CONNECTIONS", "true".to_owned()),
        ("MINIMUM_DRAIN_DURATION", "1s".to_owned()),
    ]);
    let mut pod = pod.started()?;
    pod.wait_for_answer(8080)?;
    let protocols = [Protocol::Http1, Protocol::Http2];
    let clients = Clients::start(&pod.namespace, 8080, &protocols, "/slow")?;
    wait::until("both requests are in flight", PATIENCE, || {
        let stats = pod.get(15000, "/clusters")?.body;
        ensure!(stats.contains("127.0.0.1:9090::rq_active::2"), "{stats}");
        Ok::<_, anyhow::Error>(())
    })?;
    pod.signal(Signal::TERM)?;
    for (protocol, report) in clients.finish()? {
        ensure!(report.lost.is_empty() && report.answered > 0, "{protocol:?}: {report:?}");
    }
    pod.ended()
}

fn sigterm_after_drain_request_exits_at_once() -> Result<()> {
    let mut pod = Pod::new()?;
    start_backend(&pod.namespace)?;
    pod.proxy_config["terminationDrainDuration"] = "3600s".into();
    pod.environment.insert("MINIMUM_DRAIN_DURATION", "3600s".to_owned());
    let mut pod = pod.started()?;
    pod.run(&["request", "--debug-port", "15020", "POST", "drain"])?;
    // Envoy serves until SIGTERM.
    pod.wait_for_answer(8080)?;
    pod.signal(Signal::TERM)?;
    pod.ended()
}

fn quit_ends_sidecar_of_a_job_with_success() -> Result<()> {
    let mut pod = Pod::new()?;
    pod.environment.insert("MINIMUM_DRAIN_DURATION", "3600s".to_owned());
    let mut pod = pod.started()?;
    pod.run(&["request", "--debug-port", "15020", "POST", "quitquitquit"])?;
    pod.ended()
}
