//! The admission webhook: reviews in, patches out, over HTTPS.
//!
//! [`run`] is the whole server. What it is made of: [`server`] and `connection` accept and bound
//! connections, [`handler`] reads calls, [`review`] and [`admission`] answer them by
//! [`crate::inject`], [`reload`] keeps the settings current, [`admin`] tells of all that.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio_rustls::TlsAcceptor;
use webhook_certs::cluster;
use webhook_certs::serving::{self, ServingCertificate};
use webhook_certs::status::Status;

use self::admission::Admission;
use self::args::Args;
use self::limits::Limits;
use self::metrics::Metrics;
use self::options::{CertificateSource, ClusterAccess, ConfigurationSource, Options};
use self::readiness::Readiness;
use self::reload::Configuration;
use self::run_error::RunError;
use self::server::Server;
use self::signals::Signals;

pub mod admin;
pub mod admission;
pub mod args;
mod certificate;
mod connection;
pub mod deadline;
pub mod duration;
pub mod handler;
pub mod limits;
pub mod log;
pub mod metrics;
pub mod options;
pub mod path;
pub mod readiness;
pub mod reload;
pub mod review;
pub mod run_error;
pub mod server;
mod signals;

/// Serves until SIGTERM or SIGINT, and until what was in flight then is answered.
///
/// A second signal skips the delay in which reviews are still accepted.
pub fn run(args: &Args) -> Result<(), RunError> {
    log::install(&args.log.levels, args.log.as_json);
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.min(MAX_WORKERS))
        .enable_all()
        .build()
        .map_err(RunError::Runtime)?;
    runtime.block_on(serve(args))
}

async fn serve(args: &Args) -> Result<(), RunError> {
    let mut signals = Signals::new().map_err(RunError::Signals)?;
    let options = Options::new(args, runs_in_pod()).map_err(RunError::Options)?;
    let (https, https_at) = bind("--httpsAddr", args.server.https).await?;
    let (admin, admin_at) = bind("--adminAddr", args.server.admin).await?;

    let metrics = Arc::new(Metrics::new());
    let configuration = Arc::new(Configuration::new(options::process(args), Arc::clone(&metrics)));
    let certificate = ServingCertificate::new();
    let readiness = Arc::new(Readiness::new(Arc::clone(&certificate), Arc::clone(&configuration)));

    let (stop_admin, admin_stopped) = oneshot::channel();
    let admin = Server {
        listener: admin,
        tls: None,
        router: admin::readiness(Arc::clone(&readiness))
            .merge(admin::monitoring(Arc::clone(&metrics), Arc::clone(&certificate))),
        limits: Limits { connections: ADMIN_CONNECTIONS, ..Limits::default() },
        metrics: None,
    };
    let admin = tokio::spawn(admin.run(ended(admin_stopped), std::time::Duration::ZERO));

    let client = match &options.cluster {
        Some(access) => Some(connect(access).await?),
        None => None,
    };
    configure(args, &options, client.clone(), &configuration)?;
    let upkeep = certify(args, options, client, https_at.ip(), &certificate)?;

    let webhook = handler::Webhook {
        configuration,
        admission: Admission::new(crate::inject::inject),
        metrics: Arc::clone(&metrics),
        places: Semaphore::new(args.limits.reviews as usize),
        body_limit: args.limits.review_bytes as usize,
        time_limit: args.limits.review,
    };
    let (stop_https, https_stopped) = oneshot::channel();
    let https = Server {
        listener: https,
        tls: Some(TlsAcceptor::from(serving::server_config(certificate))),
        router: handler::redirect_unclean(
            handler::router(webhook).merge(admin::readiness(Arc::clone(&readiness))),
        ),
        limits: options::limits(args),
        metrics: Some(metrics),
    };
    let https = tokio::spawn(https.run(ended(https_stopped), args.server.shutdown_grace));
    readiness.set_bound();
    tracing::info!(https = %https_at, admin = %admin_at, "listening");

    tokio::select! {
        name = signals.next() => tracing::info!(signal = name, "shutting down"),
        error = upkeep => return Err(error),
    }
    readiness.set_draining();
    tokio::select! {
        () = tokio::time::sleep(args.server.shutdown_delay) => {}
        _ = signals.next() => tracing::info!("not waiting any longer"),
    }
    drop(stop_https);
    let _ = https.await;
    drop(stop_admin);
    let _ = admin.await;
    tracing::info!("done");
    Ok(())
}

/// Loads the configuration, where it can be loaded at once, and keeps it current.
fn configure(
    args: &Args,
    options: &Options,
    client: Option<kube::Client>,
    configuration: &Arc<Configuration>,
) -> Result<(), RunError> {
    match (&options.configuration, client) {
        (ConfigurationSource::ConfigMaps(maps), Some(client)) => {
            tokio::spawn(maps.clone().watch(client, Arc::clone(configuration)));
        }
        (ConfigurationSource::ConfigMaps(_), None) => {}
        (ConfigurationSource::Files(files), _) => {
            let texts = files.read().map_err(RunError::File)?;
            configuration.offer(&texts).map_err(RunError::Settings)?;
            let every = args.configuration.reload_interval;
            tokio::spawn(files.clone().watch(texts, Arc::clone(configuration), every));
        }
    }
    Ok(())
}

/// Loads the certificate, where it can be loaded at once, and keeps it current; the future ends
/// when that has become impossible.
fn certify(
    args: &Args,
    options: Options,
    client: Option<kube::Client>,
    listening: IpAddr,
    certificate: &Arc<ServingCertificate>,
) -> Result<impl Future<Output = RunError> + use<>, RunError> {
    let (status, _) = watch::channel(Status::default());
    let upkeep = match (options.certificate, client) {
        (CertificateSource::Cluster(options), Some(client)) => {
            Some(cluster::maintain(client, *options, Arc::clone(certificate), status))
        }
        (CertificateSource::Cluster(_), None) => None,
        (CertificateSource::Files(files), _) => {
            certificate.set(files.load().map_err(RunError::CertificateFiles)?);
            let (certificate, every) =
                (Arc::clone(certificate), args.configuration.reload_interval);
            tokio::spawn(async move { files.follow(certificate, every).await });
            None
        }
        (CertificateSource::InMemory { names, write_ca }, _) => {
            let identity =
                certificate::in_memory(listening, &names, write_ca).map_err(RunError::InMemory)?;
            certificate.set(identity);
            None
        }
    };
    Ok(async move {
        match upkeep {
            Some(upkeep) => match upkeep.await {
                Ok(never) => match never {},
                Err(error) => RunError::Upkeep(error),
            },
            None => std::future::pending().await,
        }
    })
}

async fn connect(access: &ClusterAccess) -> Result<kube::Client, RunError> {
    let config = match access {
        ClusterAccess::Pod => kube::Config::incluster().map_err(RunError::Pod)?,
        ClusterAccess::Kubeconfig(path) => {
            let wrong = |source| RunError::Kubeconfig { path: path.clone(), source };
            let kubeconfig = Kubeconfig::read_from(path).map_err(wrong)?;
            let options = KubeConfigOptions::default();
            kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(wrong)?
        }
    };
    kube::Client::try_from(config).map_err(|error| RunError::Client(Box::new(error)))
}

/// Binds, and tells the address, whose port may have been chosen by the system.
async fn bind(
    flag: &'static str,
    address: SocketAddr,
) -> Result<(TcpListener, SocketAddr), RunError> {
    let failed = |source| RunError::Bind { flag, address, source };
    let is_all = address.ip().is_unspecified() && address.is_ipv6();
    let listener = match TcpListener::bind(address).await {
        // `:PORT` means all addresses; a host without IPv6 has those of IPv4.
        Err(error) if is_all && error.kind() != ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    };
    let listener = listener.map_err(failed)?;
    let at = listener.local_addr().map_err(failed)?;
    Ok((listener, at))
}

/// A pod with a service account has both; the variable alone is also set by `enableServiceLinks`.
fn runs_in_pod() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() && Path::new(TOKEN).exists()
}

/// Completes when the other end is dropped.
async fn ended(signal: oneshot::Receiver<()>) {
    let _ = signal.await;
}

const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
const ADMIN_CONNECTIONS: usize = 64;

/// A review takes microseconds; a node's full number of cores would only cost memory.
const MAX_WORKERS: usize = 8;
