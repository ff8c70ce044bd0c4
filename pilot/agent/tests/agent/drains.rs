//! Shutdown of a pod's sidecar.

use anyhow::{Result, ensure};
use e2e::wait;
use envoy_types::pb::envoy::config::core::v3::TrafficDirection;
use rustix::process::Signal;

use crate::control_plane::Configuration;
use crate::control_plane::resources::Port;
use crate::fixture::{BACKEND_PORT, Pod};
use crate::load::{Clients, Protocol, start_backend};
use crate::{slow_requests, tests};

tests![
    slow_requests_finish_during_drain,
    drain_closes_inbound_connections_only,
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
    let clients = slow_requests::start(&pod)?;
    pod.signal(Signal::TERM)?;
    slow_requests::are_answered(clients)?;
    pod.ended()
}

fn drain_closes_inbound_connections_only() -> Result<()> {
    let mut configuration = Configuration::http(8080, BACKEND_PORT);
    let outbound = Configuration::http(8081, BACKEND_PORT).ports.remove(0);
    configuration.ports.push(Port { direction: TrafficDirection::Outbound, ..outbound });
    let mut pod = Pod::with_configuration(configuration)?;
    start_backend(&pod.namespace)?;
    pod.environment.insert("MINIMUM_DRAIN_DURATION", "3600s".to_owned());
    pod.proxy_config["terminationDrainDuration"] = "3600s".into();
    let mut pod = pod.started()?;
    for port in [8080, 8081] {
        pod.wait_for_answer(port)?;
    }
    pod.signal(Signal::TERM)?;
    // Envoy closes a connection after each answer of a draining listener.
    let connections = |port| {
        let clients = Clients::start(&pod.namespace, port, &[Protocol::Http1], "/")?;
        clients.wait_for(20)?;
        let report = clients.finish()?.remove(0).1;
        ensure!(report.lost.is_empty(), "{report:?}");
        Ok(report.connections)
    };
    wait::until("the inbound listener drains", || match connections(8080) {
        Ok(20..) => Ok(()),
        other => Err(format!("{other:?}")),
    })?;
    ensure!(connections(8081)? == 1);
    pod.signal(Signal::TERM)?;
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
