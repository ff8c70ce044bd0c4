//! `pilot-agent proxy`: the parts of the agent, wired together.
//!
//! Every socket is bound before Envoy starts, so that Envoy finds the relay, its secrets and names
//! at once.

mod bootstraps;
mod changes;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use prometheus_client::registry::Registry;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::admin::Admin;
use crate::app::{App, Dialer, ProbeTable};
use crate::channel::{ChannelOptions, ControlPlane};
use crate::config::{Inputs, Resolved, StatusOptions};
use crate::health::Health;
use crate::relay::{self, DEBUG_PORT, DebugServer, Relay, RelayOptions};
use crate::status::{self, Names, ScrapeTarget, Scraper, ServingEnvoy, ShutdownRequest, Status};
use crate::supervisor::{self, Exit, Supervisor};
use crate::{dns, secrets};

use bootstraps::write_grpc;
use changes::{Changes, Parts};

/// Runs the agent until Envoy or a signal ends it. Call it on the main thread: Envoy ends with the
/// thread that started it.
pub async fn run(inputs: Inputs, resolved: Resolved) -> Result<Exit> {
    let Resolved { config, warnings } = resolved;
    let health = Arc::new(Health::default());
    let mut registry = Registry::default();
    let mut tasks = JoinSet::new();

    let sockets = secrets::sockets(&config.certificates, &config.paths);
    let (roots, configured_roots) = watch::channel(Vec::new());
    let metrics = secrets::Metrics::default();
    metrics.register(&mut registry);
    let settings = secrets::Settings::from_config(&config);
    let secrets =
        secrets::start(&settings, &sockets, configured_roots, Arc::clone(&health), metrics)
            .context("serving certificates")?;

    let metrics = relay::Metrics::default();
    metrics.register(&mut registry);
    let identity = (!config.discovery.send_token).then(|| secrets.identity.clone());
    let control_plane = ControlPlane::new(ChannelOptions::of_discovery(&config), identity);
    // Pods report no health of their own: the kubelet does.
    let (_application, application) = watch::channel(None);
    let relay = Relay::new(
        RelayOptions::new(&config),
        control_plane.clone(),
        application,
        Arc::clone(&health),
        metrics,
    );
    match DebugServer::bind(DEBUG_PORT).await {
        Ok(listener) => {
            let server = DebugServer::new(control_plane.clone(), config.pod.node_id.clone());
            tasks.spawn(server.serve(listener));
        }
        Err(error) => tracing::warn!("no debug port {DEBUG_PORT}: {error}"),
    }
    let listener = relay.listen().context("relaying xDS")?;
    tasks.spawn(forward_roots(relay.roots(), roots));
    tasks.spawn(relay.clone().serve(listener));

    let names = match &config.dns {
        Some(options) => {
            let metrics = dns::Metrics::default();
            metrics.register(&mut registry);
            let server = dns::Server::bind(options, &config.pod, metrics).context("serving DNS")?;
            let names: Arc<dyn Names> = Arc::new(server.names());
            tasks.spawn(server.run(relay.names(), name_table));
            Some(names)
        }
        None => None,
    };

    let supervisor_options = supervisor::Options::new(&config, control_plane.clone());
    let supervisor_metrics = supervisor::Metrics::default();
    supervisor_metrics.register(&mut registry);
    let (requests, received) = mpsc::channel(REQUESTS);
    let (serving, epoch) = watch::channel(None);
    let admin = supervisor_options.as_ref().map(|options| Admin::new(options.admin));
    let mut scraper = None;
    if let Some(options) = &config.status {
        let metrics = status::Metrics::default();
        metrics.register(&mut registry);
        let dialer = Dialer::new(config.pod.addresses[0], options.probe_localhost);
        for warning in ScrapeTarget::unknown_fields(options) {
            tracing::warn!("{warning}");
        }
        let targets = ScrapeTarget::parse_all(options)?;
        let scraping = Scraper::new(Arc::new(registry), metrics, admin.clone(), dialer, targets);
        let merged = Arc::new(scraping.context("preparing scrapes of the application")?);
        scraper = Some(Arc::clone(&merged));
        let status = Status {
            app: application_probes(options, &dialer)?,
            scraper: merged,
            envoy: admin.map(|admin| {
                let admin = admin.with_timeout(READINESS_TIMEOUT);
                ServingEnvoy { admin, epoch }
            }),
            names,
            health: Arc::clone(&health),
            shutdown: Box::new(move |request| requests.try_send(request.into()).is_ok()),
            metrics_on_loopback_only: options.metrics_on_loopback_only,
        };
        let listener = status::bind(options.port, &config.pod.addresses)
            .with_context(|| format!("listening on the status port {}", options.port))?;
        tasks.spawn(status::serve(listener, status));
    }

    let first = config.envoy.is_some().then(|| bootstraps::desired(&config)).transpose()?;
    let (desired, receiver) = first.map(|first| watch::channel(Arc::new(first))).unzip();
    if desired.is_none() {
        write_grpc(&config)?;
    }
    let certificate_service = secrets.service.clone();
    let parts = Parts { control_plane, certificate_service, scraper, desired };
    let changes = Changes { inputs, started: config, parts, health: Arc::clone(&health), warnings };
    tasks.spawn(async { match changes.follow().await {} });
    let (Some(options), Some(receiver)) = (supervisor_options, receiver) else {
        return until_asked_to_end(received).await;
    };
    let supervisor = Supervisor::new(options, health, supervisor_metrics, serving);
    supervisor.run(receiver, received).await.context("supervising Envoy")
}

/// Returns the probes and handlers of the application.
fn application_probes(options: &StatusOptions, dialer: &Dialer) -> Result<App> {
    let probes = match &options.app_probers {
        Some(text) => {
            for warning in ProbeTable::unknown_fields(text) {
                tracing::warn!("{warning}");
            }
            ProbeTable::parse(text)?
        }
        None => ProbeTable::default(),
    };
    App::new(probes, *dialer).context("preparing probes of the application")
}

/// Passes additional roots of the relay on to the certificates, which start before it.
async fn forward_roots(
    mut relayed: watch::Receiver<Vec<String>>,
    roots: watch::Sender<Vec<String>>,
) {
    while relayed.changed().await.is_ok() {
        roots.send_replace(relayed.borrow_and_update().clone());
    }
}

/// Returns the table for DNS of the control plane's table.
fn name_table(names: &relay::NameTable) -> dns::Table {
    dns::Table::new(names.table.iter().map(|(host, info)| dns::Entry {
        host,
        ips: &info.ips,
        registry: &info.registry,
        shortname: &info.shortname,
        namespace: &info.namespace,
    }))
}

/// Waits for the end of an agent without Envoy.
async fn until_asked_to_end(mut requests: mpsc::Receiver<supervisor::Request>) -> Result<Exit> {
    let mut terminate = signal(SignalKind::terminate()).context("handling SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("handling SIGINT")?;
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(Exit::Terminated),
            _ = interrupt.recv() => return Ok(Exit::Terminated),
            Some(request) = requests.recv() => if request == supervisor::Request::Quit {
                return Ok(Exit::Quit);
            },
        }
    }
}

impl From<ShutdownRequest> for supervisor::Request {
    fn from(request: ShutdownRequest) -> Self {
        match request {
            ShutdownRequest::Drain => Self::Drain,
            ShutdownRequest::Quit => Self::Quit,
        }
    }
}

impl Names for dns::Names {
    fn received(&self) -> bool {
        self.received()
    }

    fn json(&self) -> String {
        self.json()
    }
}

/// Time for Envoy's answer to a readiness probe, whose own timeout is 3 s in injected pods.
const READINESS_TIMEOUT: Duration = Duration::from_secs(2);

/// Requests of the status port that may wait for the supervisor.
const REQUESTS: usize = 8;
