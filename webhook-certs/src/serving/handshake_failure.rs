//! Why a handshake failed, for whoever counts them.

use std::io::{self, ErrorKind};

use rustls::{AlertDescription, Error};

use super::client_authority::NAME_REFUSED;

/// The cause of a failed handshake, as far as the server can tell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HandshakeFailure {
    /// The client broke the connection off, as a probe of the port alone does.
    Closed,
    /// What the client sent is not TLS.
    NotTls,
    /// No version, cipher suite or protocol in common.
    Incompatible,
    /// The client does not accept our certificate: it knows another CA, or another name.
    Distrusted,
    /// A client certificate is wanted, and there was none.
    ClientCertificateMissing,
    /// The client's certificate is of no CA that we know, or not valid now.
    ClientCertificateRefused,
    /// The client's certificate has no name that is allowed.
    ClientNameRefused,
    /// Anything else.
    Other,
}

impl HandshakeFailure {
    /// Every cause, for metrics that start at 0.
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

    /// Finds the cause in what accepting a TLS connection ended with.
    pub fn of(error: &io::Error) -> Self {
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
                // A CA of the same name that has signed nothing of this.
                | Alert::DecryptError,
            ) => Self::Distrusted,
            Error::AlertReceived(Alert::HandshakeFailure | Alert::ProtocolVersion) => {
                Self::Incompatible
            }
            Error::AlertReceived(Alert::CloseNotify | Alert::UserCanceled) => Self::Closed,
            _ => Self::Other,
        }
    }

    /// The word of logs and labels.
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
