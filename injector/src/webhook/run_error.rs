//! Errors that end the server.

use std::io;
use std::net::SocketAddr;

use kube::config::InClusterError;
use kube_access::kubeconfig::KubeconfigError;
use tokio::task::JoinError;
use webhook_certs::certificate_files::FilesError;
use webhook_certs::cluster::CertificateError;

use super::config::options::OptionsError;
use super::reports::ReportsError;
use super::tls::certificate::InMemoryError;
use super::tls::client_ca::ClientFileError;
use crate::settings::SettingsError;
use crate::sources::files::FileError;

/// Error that prevents the start of the server, or ends it.
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
    /// The requested reports cannot be made.
    #[error("{0}")]
    Reports(#[source] ReportsError),
    /// An address cannot be bound.
    #[error("{flag} {address}: {source}")]
    Bind {
        /// Flag that names the address.
        flag: &'static str,
        /// The address.
        address: SocketAddr,
        /// Cause.
        source: io::Error,
    },
    /// The kubeconfig cannot be used.
    #[error("{0}")]
    Kubeconfig(#[source] KubeconfigError),
    /// The pod's service account cannot be used.
    #[error("the pod's service account: {0}")]
    Pod(#[source] InClusterError),
    /// The client for the cluster cannot be created.
    #[error("creating a client for the cluster: {0}")]
    Client(#[source] Box<kube::Error>),
    /// A configuration file cannot be read.
    #[error("{0}")]
    File(#[source] FileError),
    /// A configuration file is invalid.
    #[error("{0}")]
    Settings(#[source] SettingsError),
    /// The certificate files cannot be used.
    #[error("--tlsCertFile, --tlsKeyFile: {0}")]
    CertificateFiles(#[source] FilesError),
    /// The client CAs cannot be used.
    #[error(
        "{0}; hint: name a file that this process may read, with the CA certificates of clients in \
         PEM"
    )]
    ClientFile(#[source] ClientFileError),
    /// The certificate of a process without a cluster cannot be created.
    #[error("{0}")]
    InMemory(#[source] InMemoryError),
    /// A task that keeps configuration or certificate up to date has panicked. The process ends,
    /// because it would otherwise continue with outdated data unnoticed.
    #[error("keeping configuration and certificate current: {0}")]
    Stopped(#[source] JoinError),
    /// The certificate in the cluster cannot be maintained.
    #[error("maintaining the certificate: {0}")]
    Certificate(#[source] CertificateError),
}

impl RunError {
    /// Returns 2 if a flag or a file of the user is wrong, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Options(_)
            | Self::Reports(_)
            | Self::Kubeconfig(_)
            | Self::File(_)
            | Self::Settings(_)
            | Self::CertificateFiles(_)
            | Self::ClientFile(_)
            | Self::Certificate(_) => 2,
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

/// The table of the reference page.
#[cfg(test)]
pub(super) const EXIT_CODES: [(u8, &str); 3] = [
    (0, "ended by SIGTERM or SIGINT"),
    (1, "failed; stderr has the reason"),
    (2, "a flag, or a file that it names, is invalid or missing"),
];
