//! Why the server cannot start or go on.

use std::io;
use std::net::SocketAddr;

use kube::config::InClusterError;
use kube_access::kubeconfig::KubeconfigError;
use tokio::task::JoinError;
use webhook_certs::certificate_files::FilesError;
use webhook_certs::cluster::CertificateError;

use super::certificate::InMemoryError;
use super::clients::ClientFileError;
use super::options::OptionsError;
use super::reload::files::FileError;
use super::reports::ReportsError;
use super::traces::TracesError;
use crate::settings::SettingsError;

/// Why the server cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The threads cannot be started.
    #[error("starting the runtime: {0}")]
    Runtime(#[source] io::Error),
    /// Signals cannot be received.
    #[error("receiving signals: {0}")]
    Signals(#[source] io::Error),
    /// Flags contradict each other.
    #[error("{0}")]
    Options(#[source] OptionsError),
    /// Reports are asked for that cannot be made.
    #[error("{0}")]
    Reports(#[source] ReportsError),
    /// An address cannot be listened on.
    #[error("{flag} {address}: {source}")]
    Bind {
        /// The flag that names it.
        flag: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The kubeconfig cannot be used.
    #[error("{0}")]
    Kubeconfig(#[source] KubeconfigError),
    /// The pod's service account cannot be used.
    #[error("the pod's service account: {0}")]
    Pod(#[source] InClusterError),
    /// There is no client for the cluster.
    #[error("making a client for the cluster: {0}")]
    Client(#[source] Box<kube::Error>),
    /// A configuration file cannot be read.
    #[error("{0}")]
    File(#[source] FileError),
    /// A configuration file cannot be used.
    #[error("{0}")]
    Settings(#[source] SettingsError),
    /// The certificate files cannot be used.
    #[error("--tlsCertFile, --tlsKeyFile: {0}")]
    CertificateFiles(#[source] FilesError),
    /// What the environment says of traces cannot be used.
    #[error("{0}")]
    Traces(#[source] TracesError),
    /// The CAs of clients cannot be used.
    #[error(
        "{0}\nhint: want a file that this process may read, with the CA certificates of clients in PEM"
    )]
    ClientFile(#[source] ClientFileError),
    /// No certificate can be made without a cluster.
    #[error("{0}")]
    InMemory(#[source] InMemoryError),
    /// What keeps configuration or certificate current has panicked; without it the process would
    /// go on with what it has, and nobody would know.
    #[error("keeping configuration and certificate current: {0}")]
    Stopped(#[source] JoinError),
    /// No certificate can be kept up in the cluster.
    #[error("keeping the certificate up: {0}")]
    Upkeep(#[source] CertificateError),
}

impl RunError {
    /// 2 where a flag or a file of the user is at fault, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Options(_)
            | Self::Reports(_)
            | Self::Kubeconfig(_)
            | Self::File(_)
            | Self::Settings(_)
            | Self::CertificateFiles(_)
            | Self::ClientFile(_)
            | Self::Traces(_)
            | Self::Upkeep(_) => 2,
            Self::Runtime(_)
            | Self::Signals(_)
            | Self::Bind { .. }
            | Self::Pod(_)
            | Self::Client(_)
            | Self::InMemory(_)
            | Self::Stopped(_) => 1,
        }
    }
}
