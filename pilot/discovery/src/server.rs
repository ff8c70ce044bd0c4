//! The running control plane: its listeners and its parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use axum::Router;
use kube_access::with_causes;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::args::{DiscoveryArgs, PlainAddresses};
use crate::authentication::{Authenticator, Tls, TokenReviewer};
use crate::certificates::Certificates;
use crate::certificates::service::{CertificateService, METHOD};
use crate::connections::Connections;
use crate::environment::Environment;
use crate::listener::{self, Accept, Limit, Plaintext};
use crate::metrics::{Count, Metrics};
use crate::source::Source;
use crate::sources::{self, Sink};
use crate::stream_rate::StreamRate;
use crate::{debug, grpc, publish};

/// Serves until SIGTERM or SIGINT.
pub async fn run(args: DiscoveryArgs, environment: Environment) -> Result<()> {
    for warning in &environment.warnings {
        tracing::warn!("{warning}");
    }
    let terminated = signal(SignalKind::terminate()).context("handling SIGTERM")?;
    let interrupted = signal(SignalKind::interrupt()).context("handling SIGINT")?;
    let bound = Bound::bind(&args)?;
    let metrics = Metrics::default();
    let queue = publish::start(metrics.triggers.clone())?;
    let connections = Connections::with_rate(StreamRate::new(environment.streams_per_second));
    let source = Source { queue: queue.clone(), connections, metrics: metrics.clone() };
    let mut listeners = Listeners::new(bound, args.max_connections, metrics.refused.clone());
    let discovery = grpc::discovery(source.clone());
    listeners.serve(GRPC, Plaintext, discovery.clone())?;
    let (trust_domain, trust_domains) = watch::channel(None);
    let mut tasks = JoinSet::new();
    let mut certificates = None;
    if args.secure_address().get().is_some() {
        let client = sources::client(&args).await?;
        let started = Certificates::start(client.clone(), &args, &mut tasks);
        let audiences = args.certificates.token_audiences.clone();
        let tokens = TokenReviewer::new(client, audiences);
        let authenticator = Arc::new(Authenticator::new(tokens, trust_domains));
        let tls = Tls::new(started.server_config());
        let service = CertificateService::new(started.clone(), metrics.certificates.clone());
        let pages = debug::authenticated(source.clone(), &args.namespace);
        let router = discovery.route_service(METHOD, service).merge(pages);
        listeners.serve(SECURE_GRPC, tls, authenticator.protect(router))?;
        certificates = Some(started);
    }
    if args.grpc_addr.get().or(args.secure_address().get()).is_none() {
        tracing::warn!("no listener serves proxies; hint: use --grpcAddr 127.0.0.1:15010");
    }
    let page = debug::metrics(&metrics, &queue, certificates.clone());
    listeners.serve(MONITORING, Plaintext, page)?;
    listeners.serve(HTTP, Plaintext, debug::router(source, certificates))?;
    let sink = Sink { queue, metrics, trust_domain };
    let sources = sources::follow(&args, sink).await?;
    tokio::select! {
        () = terminated_or_interrupted(terminated, interrupted) => {}
        Some(ended) = tasks.join_next() => ended.context("a part of the control plane")??,
    }
    drop(sources);
    listeners.stop().await;
    Ok(())
}

async fn terminated_or_interrupted(mut terminated: Signal, mut interrupted: Signal) {
    tokio::select! {
        _ = terminated.recv() => tracing::info!("SIGTERM: shutting down"),
        _ = interrupted.recv() => tracing::info!("SIGINT: shutting down"),
    }
}

/// Listeners that do not serve yet, by their flags.
struct Bound(BTreeMap<&'static str, TcpListener>);

impl Bound {
    /// Binds the addresses of all flags. The error names each address that cannot be bound.
    fn bind(args: &DiscoveryArgs) -> Result<Self> {
        let PlainAddresses { grpc, http, monitoring } = args.plain_addresses();
        let secure = args.secure_address();
        let addresses =
            [(GRPC, grpc), (SECURE_GRPC, secure), (HTTP, http), (MONITORING, monitoring)];
        let (mut bound, mut problems) = (BTreeMap::new(), Vec::new());
        for (flag, address) in addresses {
            let Some(address) = address.get() else { continue };
            match listener::bind(flag, address) {
                Ok(listener) => drop(bound.insert(flag, listener)),
                Err(error) => problems.push(with_causes(error.as_ref())),
            }
        }
        ensure!(problems.is_empty(), "{}; hint: name other ports", problems.join("; "));
        Ok(Self(bound))
    }
}

/// Listeners in service.
struct Listeners {
    bound: Bound,
    tasks: JoinSet<()>,
    stop: watch::Sender<bool>,
    /// Connections of each listener.
    max_connections: usize,
    refused: Count,
}

impl Listeners {
    fn new(bound: Bound, max_connections: usize, refused: Count) -> Self {
        let (tasks, stop) = (JoinSet::new(), watch::Sender::new(false));
        Self { bound, tasks, stop, max_connections, refused }
    }

    /// Serves on the listener of a flag, unless it is switched off.
    fn serve(&mut self, flag: &'static str, accept: impl Accept, router: Router) -> Result<()> {
        let Some(listener) = self.bound.0.remove(flag) else { return Ok(()) };
        tracing::info!(flag, address = %listener.local_addr()?, "serving");
        let limit = Limit::new(flag, self.max_connections, self.refused.clone());
        self.tasks.spawn(listener::serve(listener, limit, accept, router, self.stop.subscribe()));
        Ok(())
    }

    /// Stops accepting, and waits for requests in flight.
    async fn stop(mut self) {
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

const GRPC: &str = "--grpcAddr";
const SECURE_GRPC: &str = "--secureGRPCAddr";
const HTTP: &str = "--httpAddr";
const MONITORING: &str = "--monitoringAddr";
