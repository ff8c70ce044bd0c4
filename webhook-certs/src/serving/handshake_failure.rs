//! Causes of failed handshakes, for metrics.

use std::io::{self, ErrorKind};

use rustls::{AlertDescription, Error};

use super::client_authority::NAME_REFUSED;

/// Cause of a failed handshake, as far as the server can tell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HandshakeFailure {
    /// The client closed the connection, as a TCP probe does.
    Closed,
    /// The client does not speak TLS.
    NotTls,
    /// There is no common version, cipher suite or protocol.
    Incompatible,
    /// The client does not trust our certificate or its name.
    Distrusted,
    /// A client certificate is required and missing.
    ClientCertificateMissing,
    /// The client's certificate is of an unknown CA, or not valid now.
    ClientCertificateRefused,
    /// The client's certificate has no allowed name.
    ClientNameRefused,
    /// Any other cause.
    Other,
}

impl HandshakeFailure {
    /// All causes, for metrics that start at 0.
    pub const ALL: [Self; 8] = [
        Self::Closed,
        Self::NotTls,
        Self::Incompatible,
        Self::Distrusted,
        Self::ClientCertificateMissing,
        Self::ClientCertificateRefused,
        Self::ClientNameRefused,
        Self::Other,
    ];

    /// Finds the cause in the error of accepting a TLS connection.
    pub fn from_error(error: &io::Error) -> Self {
        use AlertDescription as Alert;
        let Some(error) = error.get_ref().and_then(|error| error.downcast_ref::<Error>()) else {
            return match error.kind() {
                ErrorKind::UnexpectedEof
                | ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe => Self::Closed,
                _ => Self::Other,
            };
        };
        match error {
            Error::InvalidMessage(_) => Self::NotTls,
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Self::Incompatible,
            Error::NoCertificatesPresented => Self::ClientCertificateMissing,
            error if *error == NAME_REFUSED => Self::ClientNameRefused,
            Error::InvalidCertificate(_) => Self::ClientCertificateRefused,
            Error::AlertReceived(
                Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::UnknownCA
                // A CA with the same name and another key.
                | Alert::DecryptError,
            ) => Self::Distrusted,
            Error::AlertReceived(Alert::HandshakeFailure | Alert::ProtocolVersion) => {
                Self::Incompatible
            }
            Error::AlertReceived(Alert::CloseNotify | Alert::UserCanceled) => Self::Closed,
            _ => Self::Other,
        }
    }

    /// Word in logs and labels.
    pub fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::NotTls => "not_tls",
            Self::Incompatible => "incompatible",
            Self::Distrusted => "distrusted",
            Self::ClientCertificateMissing => "client_certificate_missing",
            Self::ClientCertificateRefused => "client_certificate_refused",
            Self::ClientNameRefused => "client_name_refused",
            Self::Other => "error",
        }
    }
}
