//! The supervised agent: the supervisor, without the agent's other parts.

use std::fs;
use std::io::BufRead as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use pilot_agent::config::{DrainOptions, EnvoyOptions, Role};
use pilot_agent::health::Health;
use pilot_agent::supervisor::{Desired, Metrics, Options, Request, Supervisor};
use pilot_agent::watch;
use serde_json::Value;
use tokio::sync::{mpsc, watch as channel};

/// Supervises Envoy with the settings and the bootstrap of a folder. Follows changes of the
/// bootstrap, and reads requests from stdin. Writes a line for each epoch that serves and each
/// condition to stdout.
pub(crate) fn supervise(folder: &Path) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run(folder))
}

async fn run(folder: &Path) -> ExitCode {
    let file = folder.join("bootstrap.json");
    let (desired, bootstraps) = channel::channel(Arc::new(read(&file)));
    let (sender, requests) = mpsc::channel(1);
    let (serving, mut epochs) = channel::channel(None);
    let health = Arc::new(Health::default());
    let conditions = Arc::clone(&health);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let request = if line == "drain" { Request::Drain } else { Request::Quit };
            sender.blocking_send(request).unwrap();
        }
    });
    let watched = file.clone();
    tokio::spawn(async move {
        watch::watch(vec![watched], Duration::from_millis(50), || {
            desired.send_replace(Arc::new(read(&file)));
        })
        .await
    });
    tokio::spawn(async move {
        while epochs.changed().await.is_ok() {
            println!("serving {:?}", *epochs.borrow_and_update());
        }
    });
    tokio::spawn(async move {
        let mut last = Vec::new();
        loop {
            let current = conditions.conditions();
            if current != last {
                println!("conditions {current:?}");
                last = current;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let supervisor = Supervisor::new(options(folder), health, Metrics::default(), serving);
    let exit = supervisor.run(bootstraps, requests).await.unwrap();
    println!("exit: {exit}");
    if exit.is_failure() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn read(file: &Path) -> Desired {
    let text = fs::read_to_string(file).unwrap();
    Desired { bootstrap: serde_json::from_str(&text).unwrap(), override_text: None }
}

fn options(folder: &Path) -> Options {
    let text = fs::read_to_string(folder.join("options.json")).unwrap();
    let options: Value = serde_json::from_str(&text).unwrap();
    let time = |key: &str| Duration::from_millis(options[key].as_u64().unwrap());
    let number = |key: &str| u32::try_from(options[key].as_u64().unwrap()).unwrap();
    let port = u16::try_from(number("admin_port")).unwrap();
    Options {
        agent: env!("CARGO_BIN_EXE_pilot-agent").into(),
        envoy: EnvoyOptions {
            binary: options["envoy"].as_str().unwrap().into(),
            admin_port: port,
            readiness_port: 15021,
            prometheus_port: 15090,
            log_level: "warning".to_owned(),
            component_log_level: None,
            concurrency: Some(2),
            drain_time: time("drain_time"),
            parent_shutdown_time: time("parent_shutdown_time"),
            bootstrap_override: None,
            hot_restart: options["hot_restart"].as_bool().unwrap(),
            exit_on_changed_bootstrap: false,
            base_id: number("base_id"),
        },
        drain: DrainOptions {
            duration: time("drain_duration"),
            minimum: time("drain_minimum"),
            exit_on_zero_connections: false,
        },
        grace_period: None,
        role: Role::Router,
        admin: ([127, 0, 0, 1], port).into(),
        configuration: folder.to_owned(),
        guard: time("guard"),
    }
}
