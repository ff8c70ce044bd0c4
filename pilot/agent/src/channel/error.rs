//! Errors of connections to the control plane.

use std::io;
use std::path::{Path, PathBuf};

use rustls::CertificateError;
use rustls_pki_types::UnixTime;
use thiserror::Error;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::config::{Paths, RootSource};

/// Reason for a failed connection.
#[derive(Debug, Error)]
pub enum ChannelError {
    /// The address is no `HOST:PORT`.
    #[error("the control plane's address {address:?} is invalid: expected HOST:PORT")]
    Address {
        /// The address.
        address: String,
    },
    /// The file of the root certificate does not exist.
    #[error("root certificate {path} does not exist: {hint}", path = .path.display(), hint = root_hint(.path))]
    RootMissing {
        /// The file.
        path: PathBuf,
    },
    /// Reading the root certificate.
    #[error("reading root certificate {path}: {cause}", path = .path.display())]
    ReadRoot {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// The file of the root certificate has no certificate.
    #[error("root certificate {path}: {reason}", path = .path.display())]
    RootInvalid {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The system has no trusted roots.
    #[error("no root certificate in the system's store: {reason}")]
    SystemRoots {
        /// The reason.
        reason: String,
    },
    /// The token's file does not exist.
    #[error(
        "token file {path} does not exist: {hint}",
        path = .path.display(), hint = token_hint(.path)
    )]
    TokenMissing {
        /// The file.
        path: PathBuf,
    },
    /// Reading the token.
    #[error("reading token file {path}: {cause}", path = .path.display())]
    ReadToken {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// The token's file is empty or no text.
    #[error("token file {path} has no token", path = .path.display())]
    TokenInvalid {
        /// The file.
        path: PathBuf,
    },
    /// A header cannot be sent.
    #[error("header {name:?} has an invalid name or value: check XDS_HEADER_* and CA_HEADER_*")]
    Header {
        /// Name of the header.
        name: String,
    },
    /// No certificate to authenticate with.
    #[error("no workload certificate yet, which PROV_CERT requires for the control plane")]
    NoIdentity,
    /// TCP, or the resolution of the name.
    #[error("connecting to {address}: {cause}")]
    Connect {
        /// The server.
        address: String,
        /// The system's error.
        cause: io::Error,
    },
    /// No connection in time.
    #[error("connecting to {address}: no answer within 10 s")]
    Timeout {
        /// The server.
        address: String,
    },
    /// The server's name is neither a DNS name nor an address.
    #[error("the name {name:?} of the control plane is no DNS name: check ISTIOD_SAN")]
    ServerName {
        /// The name.
        name: String,
    },
    /// No trusted root signed the server's certificate.
    #[error("the certificate of {address} is not trusted: no CA of {root} has signed it")]
    Untrusted {
        /// The server.
        address: String,
        /// Source of the roots.
        root: String,
    },
    /// The server's certificate has other names.
    #[error(
        "the certificate of {address} is for {presented}, not for {expected}: check \
         discoveryAddress, or set ISTIOD_SAN to a name of the certificate"
    )]
    Name {
        /// The server.
        address: String,
        /// The name to verify.
        expected: String,
        /// Names in the certificate.
        presented: String,
    },
    /// The server's certificate is valid in the future only.
    #[error(
        "the certificate of {address} is valid from {not_before}, and the clock of this node says \
         {now}: check the clock"
    )]
    NotValidYet {
        /// The server.
        address: String,
        /// Start of validity.
        not_before: String,
        /// Current time.
        now: String,
    },
    /// The server's certificate has expired.
    #[error(
        "the certificate of {address} expired at {not_after}, and the clock of this node says \
         {now}: check the clock and the control plane"
    )]
    Expired {
        /// The server.
        address: String,
        /// End of validity.
        not_after: String,
        /// Current time.
        now: String,
    },
    /// The server presents the certificate of a CA as its own.
    #[error(
        "the certificate of {address} is that of a CA, not of a server: have the CA issue one for \
         the control plane"
    )]
    Authority {
        /// The server.
        address: String,
    },
    /// TLS otherwise.
    #[error("TLS with {address}: {cause}")]
    Tls {
        /// The server.
        address: String,
        /// The error.
        cause: io::Error,
    },
    /// Settings of TLS.
    #[error("setting up TLS: {cause}")]
    TlsSettings {
        /// The error.
        cause: rustls::Error,
    },
    /// HTTP/2.
    #[error("HTTP/2 with {address}: {cause}")]
    Http2 {
        /// The server.
        address: String,
        /// The error.
        cause: tonic::transport::Error,
    },
}

impl ChannelError {
    /// Interprets a failed handshake.
    pub(super) fn of_handshake(address: &str, root: &RootSource, cause: io::Error) -> Self {
        let inner = cause.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let Some(rustls::Error::InvalidCertificate(reason)) = inner else {
            return Self::Tls { address: address.to_owned(), cause };
        };
        let address = address.to_owned();
        match reason {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                let root = match root {
                    RootSource::File(path) => path.display().to_string(),
                    RootSource::System => "the system's store".to_owned(),
                };
                Self::Untrusted { address, root }
            }
            CertificateError::NotValidForNameContext { expected, presented } => Self::Name {
                address,
                expected: expected.to_str().into_owned(),
                presented: presented.join(", "),
            },
            CertificateError::NotValidYetContext { time, not_before } => {
                Self::NotValidYet { address, not_before: rfc3339(*not_before), now: rfc3339(*time) }
            }
            CertificateError::ExpiredContext { time, not_after } => {
                Self::Expired { address, not_after: rfc3339(*not_after), now: rfc3339(*time) }
            }
            // The error of the library has no text but its name.
            CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
                Self::Authority { address }
            }
            _ => Self::Tls { address, cause },
        }
    }
}

fn root_hint(path: &Path) -> &'static str {
    if path == Paths::default().mesh_root {
        "the control plane writes it to the ConfigMap istio-ca-root-cert of every namespace, and \
         the pod mounts that"
    } else {
        "check the pod's volumes and XDS_ROOT_CA, CA_ROOT_CA, PILOT_CERT_PROVIDER"
    }
}

fn token_hint(path: &Path) -> &'static str {
    if path == Paths::default().token {
        "the kubelet writes it for a projected volume with a serviceAccountToken of audience \
         istio-ca"
    } else {
        "JWT_POLICY is first-party-jwt, and the kubelet writes this token unless the pod or its \
         ServiceAccount has automountServiceAccountToken: false"
    }
}

fn rfc3339(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let time = OffsetDateTime::from_unix_timestamp(seconds).ok();
    let text = time.and_then(|time| time.format(&Rfc3339).ok());
    text.unwrap_or_else(|| format!("{seconds} s after 1970"))
}
