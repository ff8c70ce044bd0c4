//! Workload certificates: request, rotation, and SDS for Envoy.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mesh::spiffe::SpiffeId;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use self::client::CertificateClient;
use self::conditions::{Conditions, Subject};
use self::files::{FileError, KeyPairFiles};
pub use self::metrics::Metrics;
use self::output::Copies;
use self::publisher::Publisher;
use self::schedule::Backoff;
use self::sds::SdsServer;
use self::socket::{SocketError, Sockets};
use self::source::{CHAIN, CertificateService, KEY, Provisioned, Source};
use self::store::SecretStore;
use self::worker::{Attempts, Change, Worker};
use crate::channel::{ChannelOptions, ControlPlane, Identity};
use crate::config::{CertificateOptions, Config, Paths, Pod};
use crate::health::Health;

pub mod certificate;
pub mod client;
mod conditions;
pub mod csr;
pub mod files;
pub mod messages;
pub mod metrics;
pub mod output;
mod pem;
mod publisher;
pub mod resource;
pub mod schedule;
mod sds;
pub mod session;
pub mod socket;
mod source;
pub mod store;
pub mod trust;
mod worker;

/// Running provider of certificates. Dropping it ends its tasks.
#[derive(Debug)]
pub struct Secrets {
    /// Socket for Envoy's cluster `sds-grpc`.
    pub envoy_socket: PathBuf,
    /// The workload certificate, which authenticates to the control plane.
    pub identity: Identity,
    /// The certificate service, whose address may change; `None` if no certificate is requested.
    pub service: Option<ControlPlane>,
    _tasks: JoinSet<()>,
}

/// Times of the requests for certificates.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Limit for one request, connection included.
    pub request_timeout: Duration,
    /// Delays between failed requests.
    pub backoff: Backoff,
    /// Renewals after a change of the mesh's roots are spread over this time.
    pub root_spread: Duration,
    /// Delay between failed writes of copies.
    pub output_retry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(10),
            backoff: Backoff {
                first: Duration::from_millis(500),
                longest: Duration::from_secs(30),
            },
            root_spread: Duration::from_secs(30),
            output_retry: Duration::from_secs(10),
        }
    }
}

/// Settings of the certificates.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Options of the workload certificate.
    pub options: CertificateOptions,
    /// The pod, whose identity the certificate has.
    pub pod: Pod,
    /// Files and folders.
    pub paths: Paths,
    /// Times of the requests.
    pub timing: Timing,
}

impl Settings {
    /// Takes the settings from the agent's configuration.
    pub fn from_config(config: &Config) -> Self {
        Self {
            options: config.certificates.clone(),
            pod: config.pod.clone(),
            paths: config.paths.clone(),
            timing: Timing::default(),
        }
    }
}

/// Returns the SDS sockets of the pod. Connects to them, to tell a foreign one from the agent's.
pub fn sockets(options: &CertificateOptions, paths: &Paths) -> Sockets {
    Sockets::choose(&paths.workload_socket_folder, &options.socket_file, socket::is_foreign)
}

/// Serves SDS, and requests the first certificate.
///
/// `sockets` is the result of [`sockets`]; `roots` are the roots in the mesh's `ProxyConfig`.
pub fn start(
    settings: &Settings,
    sockets: &Sockets,
    roots: watch::Receiver<Vec<String>>,
    health: Arc<Health>,
    metrics: Metrics,
) -> Result<Secrets, SocketError> {
    let Settings { options, paths, timing, .. } = settings;
    let conditions = Arc::new(Conditions::new(health));
    let store = Arc::new(SecretStore::default());
    let source = choose_source(settings, sockets);
    let service = match &source {
        Ok(Source::Service(service)) => Some(service.client.control_plane().clone()),
        _ => None,
    };
    let (identity, identity_receiver) = watch::channel(None);
    let mut tasks = JoinSet::new();

    if let Some(own) = &sockets.own {
        let listener = socket::listen(own)?;
        let server = SdsServer {
            store: Arc::clone(&store),
            conditions: Arc::clone(&conditions),
            metrics: metrics.clone(),
            debounce: options.file_debounce,
            files_only: source.as_ref().err().copied(),
            followed: Arc::new(Mutex::default()),
        };
        tasks.spawn(async move { match server.serve(listener).await {} });
    }
    tasks.spawn(socket::monitor(sockets.clone(), Arc::clone(&conditions)));
    match source {
        Ok(source) => {
            let (copies, written) = watch::channel(None);
            if let Some(folder) = options.output.clone() {
                let retry = timing.output_retry;
                tasks.spawn(write_copies(folder, retry, written, Arc::clone(&conditions)));
            }
            let (sender, changes) = mpsc::unbounded_channel();
            follow_files(options, paths, &source, &sender, &conditions, &metrics, &mut tasks);
            tasks.spawn(forward_roots(roots, sender));
            let worker = Worker {
                source,
                publisher: Publisher::new(store, identity, copies),
                changes,
                timing: *timing,
                conditions,
                metrics,
                attempts: Attempts::new(),
            };
            tasks.spawn(worker.run());
        }
        Err(reason) => {
            tracing::info!("the agent requests no workload certificate: {reason}");
            if options.output.is_some() {
                tracing::warn!("OUTPUT_CERTS has no effect: {reason}");
            }
        }
    }
    let envoy_socket = sockets.envoy.clone();
    Ok(Secrets { envoy_socket, identity: identity_receiver, service, _tasks: tasks })
}

/// Returns the source of the workload certificate, or the reason for which there is none.
fn choose_source(settings: &Settings, sockets: &Sockets) -> Result<Source, &'static str> {
    let Settings { options, pod, paths, timing } = settings;
    if sockets.is_foreign() {
        return Err("another program serves the workload certificate; this socket serves files");
    }
    if [CHAIN, KEY, ROOTS].iter().all(|name| paths.workload_credentials.join(name).exists()) {
        return Ok(Source::Files);
    }
    if options.file_mounted {
        return Err("FILE_MOUNTED_CERTS is set, so that no certificate is requested");
    }
    let Pod { trust_domain, namespace, service_account, .. } = pod;
    let Ok(name) = SpiffeId::new(trust_domain.clone(), namespace, service_account) else {
        return Err("POD_NAMESPACE or SERVICE_ACCOUNT is unset or no name of Kubernetes");
    };
    let (provisioned, identity) = match options.provisioned.clone() {
        Some(folder) => {
            let (sender, receiver) = watch::channel(None);
            (Some(Provisioned { folder, identity: sender }), Some(receiver))
        }
        None => (None, None),
    };
    let channel = ChannelOptions::of_certificates(options, pod, paths);
    let control_plane = ControlPlane::new(channel, identity);
    let client = CertificateClient::new(control_plane, timing.request_timeout);
    let options = options.clone();
    let service = CertificateService { client, provisioned, options, identity: name };
    Ok(Source::Service(Box::new(service)))
}

/// Starts tasks that follow the mounted files.
fn follow_files(
    options: &CertificateOptions,
    paths: &Paths,
    source: &Source,
    changes: &mpsc::UnboundedSender<Change>,
    conditions: &Arc<Conditions>,
    metrics: &Metrics,
    tasks: &mut JoinSet<()>,
) {
    let files = FollowedFiles {
        debounce: options.file_debounce,
        changes: changes.clone(),
        conditions: Arc::clone(conditions),
        metrics: metrics.clone(),
    };
    let path = paths.mesh_root.clone();
    // The kubelet may mount the file later.
    let read = move || optional(files::read_roots(&path));
    tasks.spawn(
        files.clone().follow(Subject::MountedRoots, read, |roots| roots.map(Change::MountedRoots)),
    );
    let path = paths.crl.clone();
    let read = move || files::read_revocations(&path);
    tasks.spawn(
        files.clone().follow(Subject::Revocations, read, |revocations| {
            Some(Change::Revocations(revocations))
        }),
    );
    if matches!(source, Source::Files) {
        let folder = paths.workload_credentials.clone();
        let read = move || {
            let pair = KeyPairFiles::read(&folder.join(CHAIN), &folder.join(KEY))?;
            Ok((pair, files::read_roots(&folder.join(ROOTS))?))
        };
        tasks.spawn(files.follow(Subject::MountedCertificate, read, |(pair, roots)| {
            Some(Change::Mounted(pair, roots))
        }));
    }
}

/// Receivers of the changes of mounted files.
#[derive(Clone)]
struct FollowedFiles {
    debounce: Duration,
    changes: mpsc::UnboundedSender<Change>,
    conditions: Arc<Conditions>,
    metrics: Metrics,
}

impl FollowedFiles {
    /// Follows files until the worker ends.
    async fn follow<T: Clone + PartialEq>(
        self,
        subject: Subject,
        read: impl Fn() -> Result<T, FileError>,
        change: impl Fn(T) -> Option<Change>,
    ) {
        let offer = |content: &Result<T, String>| match content {
            Ok(content) => {
                self.conditions.clear(&subject);
                if let Some(change) = change(content.clone()) {
                    // An ended worker ends this task below.
                    let _ = self.changes.send(change);
                }
            }
            Err(reason) => {
                self.metrics.file_failed();
                self.conditions.set(subject.clone(), reason.clone());
            }
        };
        files::follow(self.debounce, read, offer, || !self.changes.is_closed()).await;
    }
}

/// Returns `None` for a missing file.
fn optional<T>(content: Result<T, FileError>) -> Result<Option<T>, FileError> {
    match content {
        Err(FileError::Read { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        content => content.map(Some),
    }
}

/// Passes the roots in the mesh's `ProxyConfig` on.
async fn forward_roots(
    mut roots: watch::Receiver<Vec<String>>,
    changes: mpsc::UnboundedSender<Change>,
) {
    if !roots.borrow().is_empty() {
        roots.mark_changed();
    }
    while roots.changed().await.is_ok() {
        let texts = roots.borrow_and_update().clone();
        if changes.send(Change::ConfiguredRoots(texts)).is_err() {
            return;
        }
    }
}

/// Writes each change of the copies, and repeats failed writes.
async fn write_copies(
    folder: PathBuf,
    retry: Duration,
    mut copies: watch::Receiver<Option<Copies>>,
    conditions: Arc<Conditions>,
) {
    loop {
        let current = copies.borrow_and_update().clone();
        let delay = match current.map(|current| current.write(&folder)) {
            Some(Err(error)) => {
                conditions.set(Subject::Output, error.to_string());
                retry
            }
            Some(Ok(())) => {
                conditions.clear(&Subject::Output);
                Duration::MAX
            }
            None => Duration::MAX,
        };
        if let Ok(Err(_)) = tokio::time::timeout(delay, copies.changed()).await {
            return;
        }
    }
}

/// File of the roots in a folder of certificates.
const ROOTS: &str = "root-cert.pem";
