//! Admission webhook: reviews in, patches out, over HTTPS.
//!
//! [`run`] is the whole server. Its parts:
//!
//! - [`server`] and `connection` accept connections and limit them.
//! - `slots` and `run_queue` share connections and CPU among callers.
//! - `handler` reads calls. `review` and [`admission`] answer them with [`crate::inject`].
//! - [`reload`] keeps the settings up to date, and `cluster_watch` the cluster snapshot.
//! - [`admin`] serves health, metrics and log levels. [`reports`] reports on the cluster's pods.

pub mod admin;
pub mod admission;
pub mod cluster_state;
pub mod config;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(test)]
mod reference;
pub mod reload;
pub mod reports;
pub mod run_error;
pub mod server;
pub mod telemetry;
pub mod tls;

use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use axum::Router;
use kube_access::kubeconfig;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use webhook_certs::cluster;
use webhook_certs::serving::client_authority::ClientAuthority;
use webhook_certs::serving::tls_parameters::TlsParameters;
use webhook_certs::serving::{self, ServingCertificate};
use webhook_certs::status::Status;

use self::admin::liveness::Liveness;
use self::admin::readiness::Readiness;
use self::admission::verdict::Admission;
use self::cluster_state::ClusterWatch;
use self::config::args::Args;
use self::config::options::{CertificateSource, ClusterAccess, ConfigurationSource, Options};
use self::reload::Configuration;
use self::reports::Reports;
use self::run_error::RunError;
use self::server::Server;
use self::server::body_memory::BodyBudget;
use self::server::limits::Limits;
use self::server::shutdown::ShutdownPhase;
use self::server::signals::Signals;
use self::server::turns::Turns;
use self::telemetry::log::Log;
use self::telemetry::metrics::Metrics;
use self::tls::client_ca::ClientFile;

/// Serves until SIGTERM, SIGINT or SIGQUIT, and then until the requests in flight are answered.
///
/// A second signal skips the delay in which reviews are still accepted.
pub fn run(args: &Args) -> Result<(), RunError> {
    let log = Arc::new(Log::install(&args.log.levels, args.log.as_json));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers())
        // A handshake computes for long, and tokio's default polls 61 tasks between two checks of
        // the sockets.
        .event_interval(EVENT_INTERVAL)
        .global_queue_interval(EVENT_INTERVAL)
        .enable_all()
        .build()
        .map_err(RunError::Runtime)?;
    let served = runtime.block_on(serve(args, &log));
    // Tasks that still hold the log end first, so that its last lines are written.
    drop(runtime);
    served
}

/// Returns the number of serving threads.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_WORKERS)
}

async fn serve(args: &Args, log: &Arc<Log>) -> Result<(), RunError> {
    let mut signals = Signals::new().map_err(RunError::Signals)?;
    let options = Options::new(args, runs_in_pod()).map_err(RunError::Options)?;
    let files = server::file_limit::allow_all();
    let load = |file: ClientFile| file.load().map(|loaded| (file, loaded));
    let clients = options.clients.clone().map(load).transpose().map_err(RunError::ClientFile)?;
    let (https, https_at) = Bound::new("--httpsAddr", args.server.https)?;
    let (admin, admin_at) = Bound::new("--adminAddr", args.server.admin)?;
    let probe = args.server.probe.map(|address| Bound::new("--probeAddr", address)).transpose()?;

    let mut metrics = Metrics::new();
    metrics.follow_log(log.lost());
    let (status, upkeep_status) = watch::channel(Status::default());
    if matches!(options.certificate, CertificateSource::Cluster(..)) {
        metrics.follow(upkeep_status);
    }
    let reports = Reports::new(args, &options, &mut metrics).map_err(RunError::Reports)?;
    let metrics = Arc::new(metrics);
    let configuration =
        Arc::new(Configuration::new(config::options::process(args), Arc::clone(&metrics)));
    let certificate = ServingCertificate::new();
    let readiness = Arc::new(Readiness::new(Arc::clone(&certificate), Arc::clone(&configuration)));

    let liveness = Liveness::new(Instant::now());
    tokio::spawn(Arc::clone(&liveness).keep());
    let (plain_phase, plain_phases) = ShutdownPhase::channel();
    let health = admin::readiness(Arc::clone(&readiness)).merge(admin::liveness(liveness));
    let mut plain = Vec::new();
    let probe_at = probe.map(|(probe, at)| {
        plain.push(probe.serve_plain(health.clone(), plain_phases.clone()));
        at
    });
    let routes = health
        .merge(admin::monitoring(Arc::clone(&metrics), Arc::clone(&certificate)))
        .merge(admin::logging(Arc::clone(log)));
    plain.push(admin.serve_plain(routes, plain_phases));

    let mut upkeep = JoinSet::new();
    configure(args, options.configuration, &configuration, &mut upkeep).await?;
    if let Some(reports) = reports {
        reports.start(Arc::clone(&configuration)).map_err(RunError::Runtime)?;
    }
    let cluster_watch = match options.cluster_watch {
        Some((access, questions)) => {
            let client = connect(access).await?;
            ClusterWatch::watch(&client, questions, &metrics, &mut upkeep)
        }
        None => ClusterWatch::default(),
    };
    let listening = https_at.ip();
    certify(args, options.certificate, listening, &certificate, status, &mut upkeep).await?;

    let webhook = admission::handler::Webhook {
        configuration,
        cluster_watch,
        admission: Admission::new(crate::inject::inject),
        metrics: Arc::clone(&metrics),
        turns: Turns::new(workers().min(args.limits.reviews as usize)),
        body_budget: BodyBudget::new(args.limits.review_bytes as usize)
            .map_err(RunError::Runtime)?,
        body_limit: args.limits.review_bytes as usize,
        time_limit: args.limits.review,
    };
    let tls = negotiate(args, options.tls, clients, certificate, &mut upkeep);
    let (phase, phases) = ShutdownPhase::channel();
    let Bound { thread, listener } = https;
    let https = Server {
        listener,
        runtime: Handle::current(),
        tls: Some(tls),
        router: admission::handler::redirect_unclean(
            admission::handler::router(webhook).merge(admin::readiness(Arc::clone(&readiness))),
        ),
        limits: Limits {
            connections: server::file_limit::connections(args.limits.connections as usize, files),
            ..config::options::limits(args)
        },
        metrics: Some(metrics),
    };
    let https = thread.spawn(https.run(phases, args.server.shutdown_grace));
    readiness.set_bound();
    let probe_at = probe_at.map(tracing::field::display);
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(version, https = %https_at, admin = %admin_at, probe = probe_at, "listening");

    tokio::select! {
        name = signals.next() => tracing::info!(signal = name, "shutting down"),
        Some(ended) = upkeep.join_next() => {
            return Err(ended.unwrap_or_else(RunError::Stopped));
        }
    }
    readiness.set_draining();
    phase.send_replace(ShutdownPhase::Leaving);
    tokio::select! {
        () = tokio::time::sleep(args.server.shutdown_delay) => {}
        _ = signals.next() => tracing::info!("second signal: the shutdown delay is skipped"),
    }
    phase.send_replace(ShutdownPhase::Ended);
    let _ = https.await;
    plain_phase.send_replace(ShutdownPhase::Ended);
    for server in plain {
        let _ = server.await;
    }
    tracing::info!("done");
    Ok(())
}

/// Listener with a thread of its own, so that no load delays the next connection.
struct Bound {
    thread: Handle,
    listener: TcpListener,
}

impl Bound {
    /// Binds the listener. Also returns its address, because the system may have chosen the port.
    fn new(flag: &'static str, address: SocketAddr) -> Result<(Self, SocketAddr), RunError> {
        let failed = |source| RunError::Bind { flag, address, source };
        let thread =
            server::own_thread::start(flag.trim_matches('-')).map_err(RunError::Runtime)?;
        let listener = {
            let _own = thread.enter();
            serving::tcp_listener::bind(address).map_err(failed)?
        };
        let at = listener.local_addr().map_err(failed)?;
        Ok((Self { thread, listener }, at))
    }

    /// Serves plain HTTP on this thread only.
    fn serve_plain(self, router: Router, phases: watch::Receiver<ShutdownPhase>) -> JoinHandle<()> {
        let Self { thread, listener } = self;
        let limits =
            Limits { connections: server::file_limit::PLAIN_CONNECTIONS, ..Limits::default() };
        let runtime = thread.clone();
        let server = Server { listener, runtime, tls: None, router, limits, metrics: None };
        thread.spawn(server.run(phases, Duration::ZERO))
    }
}

/// Loads the configuration, from files at once, and keeps it up to date.
async fn configure(
    args: &Args,
    source: ConfigurationSource,
    configuration: &Arc<Configuration>,
    upkeep: &mut JoinSet<RunError>,
) -> Result<(), RunError> {
    let configuration = Arc::clone(configuration);
    match source {
        ConfigurationSource::ConfigMaps(access, maps) => {
            let client = connect(access).await?;
            upkeep.spawn(async move { match maps.watch(client, configuration).await {} });
        }
        ConfigurationSource::Files(files) => {
            let texts = files.load().map_err(RunError::File)?;
            configuration.offer(&texts).map_err(RunError::Settings)?;
            let every = args.configuration.reload_interval;
            upkeep.spawn(async move { match files.watch(texts, configuration, every).await {} });
        }
    }
    Ok(())
}

/// Loads the certificate, at once unless it comes from the cluster, and keeps it up to date.
async fn certify(
    args: &Args,
    source: CertificateSource,
    listening: IpAddr,
    certificate: &Arc<ServingCertificate>,
    status: watch::Sender<Status>,
    upkeep: &mut JoinSet<RunError>,
) -> Result<(), RunError> {
    let certificate = Arc::clone(certificate);
    match source {
        CertificateSource::Cluster(access, options) => {
            let client = connect(access).await?;
            upkeep.spawn(async move {
                match cluster::maintain(client, *options, certificate, status).await {
                    Ok(never) => match never {},
                    Err(error) => RunError::Certificate(error),
                }
            });
        }
        CertificateSource::Files(files) => {
            certificate.set(files.load().map_err(RunError::CertificateFiles)?);
            let every = args.configuration.reload_interval;
            upkeep.spawn(async move { match files.follow(certificate, every).await {} });
        }
        CertificateSource::InMemory { names, write_ca } => {
            let identity = tls::certificate::in_memory(listening, &names, write_ca)
                .map_err(RunError::InMemory)?;
            certificate.set(identity);
        }
    }
    Ok(())
}

/// Returns the TLS configuration of new connections, and keeps its client CAs up to date.
fn negotiate(
    args: &Args,
    parameters: TlsParameters,
    clients: Option<(ClientFile, (ClientAuthority, Vec<u8>))>,
    certificate: Arc<ServingCertificate>,
    upkeep: &mut JoinSet<RunError>,
) -> Arc<ArcSwap<ServerConfig>> {
    let config = move |clients: Option<ClientAuthority>| {
        let clients = clients.map(|clients| Arc::new(clients) as _);
        serving::restricted_server_config(
            Arc::clone(&certificate),
            &parameters,
            clients,
            &[serving::HTTP_1],
        )
    };
    let Some((clients, (authority, content))) = clients else {
        return Arc::new(ArcSwap::new(config(None)));
    };
    let tls = Arc::new(ArcSwap::new(config(Some(authority))));
    let (every, followed) = (args.configuration.reload_interval, Arc::clone(&tls));
    upkeep.spawn(async move {
        let config = |authority| config(Some(authority));
        match clients.follow(content, every, followed, config).await {}
    });
    tls
}

async fn connect(access: ClusterAccess) -> Result<kube::Client, RunError> {
    let config = match access {
        ClusterAccess::Pod => kube::Config::incluster().map_err(RunError::Pod)?,
        ClusterAccess::Kubeconfig(path) => {
            let origin = format!("--kubeconfig {}", path.display());
            kubeconfig::from_file(&path, &origin, None).await.map_err(RunError::Kubeconfig)?
        }
    };
    kube::Client::try_from(config).map_err(|error| RunError::Client(Box::new(error)))
}

/// True if the process runs in a pod with a service account, which has the variable and the token.
/// The variable alone is also set by `enableServiceLinks`.
fn runs_in_pod() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() && Path::new(TOKEN).exists()
}

const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Largest number of serving threads. A review takes microseconds; a thread for each core of a node
/// would only cost memory.
const MAX_WORKERS: usize = 8;

/// Number of task polls between two checks of the sockets, and of newly accepted connections.
const EVENT_INTERVAL: u32 = 8;
