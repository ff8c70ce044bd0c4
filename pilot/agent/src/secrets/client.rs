//! Client of the certificate service.

use std::time::Duration;

use pilot_xds::codec::MessageCodec;
use tonic::client::Grpc;
use tonic::{Code, Status};

use super::messages::{CertificateRequest, CertificateResponse};
use crate::channel::{ChannelError, ControlPlane, Server};

/// Client of `istio.v1.auth.IstioCertificateService`.
#[derive(Clone, Debug)]
pub struct CertificateClient {
    control_plane: ControlPlane,
    /// Limit for one request, connection included.
    timeout: Duration,
}

impl CertificateClient {
    /// Creates a client. `timeout` limits one request, connection included.
    pub fn new(control_plane: ControlPlane, timeout: Duration) -> Self {
        Self { control_plane, timeout }
    }

    /// Returns the connection to the service.
    pub fn control_plane(&self) -> &ControlPlane {
        &self.control_plane
    }

    /// Sends a signing request. Returns PEM texts: the leaf, intermediates, and the roots last.
    pub async fn sign(&self, csr: String, lifetime: Duration) -> Result<Vec<String>, RequestError> {
        let server = self.control_plane.server();
        let address = server.address().to_owned();
        let validity_duration = i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX);
        let call = self.call(&server, CertificateRequest { csr, validity_duration });
        match tokio::time::timeout(self.timeout, call).await {
            Ok(answer) => answer,
            Err(_) => Err(RequestError::Timeout { address, timeout: self.timeout }),
        }
    }

    async fn call(
        &self,
        server: &Server,
        message: CertificateRequest,
    ) -> Result<Vec<String>, RequestError> {
        let request = server.request(message)?;
        let mut client = Grpc::new(server.connect().await?);
        let rejection = |status| self.rejection(server, status);
        client.ready().await.map_err(|error| rejection(Status::from_error(error.into())))?;
        let codec = MessageCodec::<CertificateRequest, CertificateResponse>::default();
        let path = http::uri::PathAndQuery::from_static(METHOD);
        let response = client.unary(request, path, codec).await.map_err(rejection)?;
        Ok(response.into_inner().cert_chain)
    }

    fn rejection(&self, server: &Server, status: Status) -> RequestError {
        let address = server.address().to_owned();
        match status.code() {
            Code::Unauthenticated => RequestError::Unauthenticated { address, status },
            Code::PermissionDenied => RequestError::PermissionDenied { address, status },
            Code::InvalidArgument => RequestError::InvalidArgument { address, status },
            Code::DeadlineExceeded => RequestError::Timeout { address, timeout: self.timeout },
            _ => RequestError::Failed { address, status },
        }
    }
}

/// Error of a signing request.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No connection to the service, or no credentials for it.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The service does not accept the credentials.
    #[error(
        "the certificate service {address} rejects this pod's token, which may have expired: {}",
        reason(status)
    )]
    Unauthenticated {
        /// The service.
        address: String,
        /// Its answer.
        status: Status,
    },
    /// The service does not sign certificates for this identity.
    #[error(
        "the certificate service {address} signs no certificate for this pod: {}",
        reason(status)
    )]
    PermissionDenied {
        /// The service.
        address: String,
        /// Its answer.
        status: Status,
    },
    /// The service cannot use the request.
    #[error(
        "the certificate service {address} rejects the certificate signing request: {}",
        reason(status)
    )]
    InvalidArgument {
        /// The service.
        address: String,
        /// Its answer.
        status: Status,
    },
    /// No answer in time.
    #[error("the certificate service {address} gave no answer within {} s", timeout.as_secs_f64())]
    Timeout {
        /// The service.
        address: String,
        /// The limit.
        timeout: Duration,
    },
    /// Another error.
    #[error("the certificate service {address} failed: {}", reason(status))]
    Failed {
        /// The service.
        address: String,
        /// Its answer.
        status: Status,
    },
}

impl RequestError {
    /// Word for the metric of failures.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Channel(ChannelError::NotValidYet { .. } | ChannelError::Expired { .. }) => {
                "clock"
            }
            Self::Channel(
                ChannelError::TokenMissing { .. }
                | ChannelError::ReadToken { .. }
                | ChannelError::TokenInvalid { .. },
            ) => "token_missing",
            Self::Channel(_) => "unreachable",
            Self::Unauthenticated { .. } => "unauthenticated",
            Self::PermissionDenied { .. } => "permission_denied",
            Self::InvalidArgument { .. } => "invalid_argument",
            Self::Timeout { .. } => "timeout",
            Self::Failed { .. } => "failed",
        }
    }
}

/// Returns the code and message of a status, on one line and of limited length.
fn reason(status: &Status) -> String {
    let message: String =
        status.message().chars().filter(|it| !it.is_control()).take(LONGEST).collect();
    match message.as_str() {
        "" => status.code().description().to_owned(),
        message => format!("{:?}: {message}", status.code()),
    }
}

const METHOD: &str = "/istio.v1.auth.IstioCertificateService/CreateCertificate";
/// Characters of a message of the service.
const LONGEST: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_of_the_service_stays_on_one_short_line() {
        let message = format!("denied\n{}", "x".repeat(10_000));
        let text = reason(&Status::permission_denied(message));
        assert!(text.starts_with("PermissionDenied: deniedxx") && text.len() < 400, "{text}");
        assert!(!reason(&Status::unavailable("")).is_empty());
    }
}
