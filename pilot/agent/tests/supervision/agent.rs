//! The supervised agent: the supervisor, without the agent's other parts.

use std::fs;
use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use pilot_agent::config::{DrainOptions, EnvoyOptions, Role};
use pilot_agent::health::Health;
use pilot_agent::supervisor::{Desired, Metrics, Options, Request, Supervisor};
use pilot_agent::watch;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch as channel};

/// Settings of the supervised agent.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Settings {
    pub(crate) envoy: PathBuf,
    pub(crate) admin_port: u16,
    pub(crate) base_id: u32,
    pub(crate) guard: Duration,
    pub(crate) drain_duration: Duration,
    pub(crate) hot_restart: bool,
    pub(crate) exit_on_changed_bootstrap: bool,
}

/// Supervises Envoy with the settings and the bootstrap of a folder. Follows changes of the
/// bootstrap, and reads requests from stdin. Writes a line for each epoch that serves and each
/// condition to stdout.
pub(crate) fn supervise(folder: &Path) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(folder))
}

async fn run(folder: &Path) -> Result<ExitCode> {
    let settings = fs::read_to_string(folder.join("settings.json")).context("reading settings")?;
    let settings: Settings = serde_json::from_str(&settings)?;
    let file = folder.join("bootstrap.json");
    let (desired, bootstraps) = channel::channel(Arc::new(read(&file, &settings)?));
    let (sender, requests) = mpsc::channel(1);
    let (serving, mut epochs) = channel::channel(None);
    let health = Arc::new(Health::default());
    let conditions = Arc::clone(&health);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let request = if line == "drain" { Request::Drain } else { Request::Quit };
            // The receiver ends with supervision.
            let _ = sender.blocking_send(request);
        }
    });
    let options = options(folder, settings.clone());
    tokio::spawn(async move {
        let files = vec![file.clone()];
        let changed = || match read(&file, &settings) {
            Ok(bootstrap) => drop(desired.send_replace(Arc::new(bootstrap))),
            Err(error) => report(&format!("{error:#}")),
        };
        watch::watch(files, Duration::from_millis(50), changed).await
    });
    tokio::spawn(async move {
        while epochs.changed().await.is_ok() {
            report(&format!("serving {:?}", *epochs.borrow_and_update()));
        }
    });
    tokio::spawn(async move {
        let mut last = Vec::new();
        loop {
            let current = conditions.conditions();
            if current != last {
                report(&format!("conditions {current:?}"));
                last = current;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let supervisor = Supervisor::new(options, health, Metrics::default(), serving);
    let exit = supervisor.run(bootstraps, requests).await?;
    report(&format!("exit: {exit}"));
    Ok(if exit.is_failure() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[expect(clippy::print_stdout, reason = "the test reads it")]
fn report(line: &str) {
    println!("{line}");
}

fn read(file: &Path, settings: &Settings) -> Result<Desired> {
    let text = fs::read_to_string(file).context("reading the bootstrap")?;
    Ok(Desired {
        bootstrap: serde_json::from_str(&text)?,
        arguments: ARGUMENTS.map(str::to_owned).into(),
        override_text: None,
        certificates: Vec::new(),
        parent_shutdown_time: Duration::from_secs(2),
        drain: DrainOptions {
            duration: settings.drain_duration,
            minimum: Duration::from_millis(500),
            exit_on_zero_connections: false,
        },
    })
}

fn options(folder: &Path, settings: Settings) -> Options {
    Options {
        agent: env!("CARGO_BIN_EXE_pilot-agent").into(),
        envoy: EnvoyOptions {
            binary: settings.envoy,
            admin_port: settings.admin_port,
            readiness_port: 15021,
            prometheus_port: 15090,
            log_level: "warning".to_owned(),
            component_log_level: None,
            concurrency: Some(2),
            drain_time: Duration::from_secs(1),
            parent_shutdown_time: Duration::from_secs(2),
            bootstrap_override: None,
            hot_restart: settings.hot_restart,
            exit_on_changed_bootstrap: settings.exit_on_changed_bootstrap,
            base_id: settings.base_id,
        },
        control_plane: None,
        role: Role::Router,
        admin: ([127, 0, 0, 1], settings.admin_port).into(),
        configuration: folder.to_owned(),
        guard: settings.guard,
    }
}

const ARGUMENTS: [&str; 6] =
    ["--concurrency", "2", "--drain-time-s", "1", "--log-level", "warning"];
