//! The service `istio.v1.auth.IstioCertificateService`.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use mesh::spiffe::{SpiffeId, TrustDomain};
use pilot_xds::codec::MessageCodec;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic::{Request, Response, Status};
use tower::Service;
use webhook_certs::workload::authority::WorkloadAuthorityError;
use webhook_certs::workload::signing_request::SigningRequest;

use super::{CertificateMetrics, Certificates};
use crate::identity::Caller;

/// Path of the method.
pub const METHOD: &str = "/istio.v1.auth.IstioCertificateService/CreateCertificate";

/// Signs certificates for the callers of requests.
#[derive(Clone, Debug)]
pub struct CertificateService {
    certificates: Certificates,
    metrics: CertificateMetrics,
}

impl CertificateService {
    /// Creates the service. Its requests need a [`Caller`] in their extensions.
    pub fn new(certificates: Certificates, metrics: CertificateMetrics) -> Self {
        Self { certificates, metrics }
    }

    /// Signs for the caller. All names and usages come from its identity; the request gives the
    /// public key alone.
    fn sign(&self, request: &Request<CertificateRequest>) -> Result<CertificateResponse, Status> {
        self.metrics.requests.inc();
        let caller = request.extensions().get::<Caller>();
        let identity = identity(caller.ok_or_else(|| Status::unauthenticated(NO_CALLER))?)?;
        let request = request.get_ref();
        if request.impersonates() {
            return Err(Status::permission_denied(IMPERSONATION));
        }
        let key = SigningRequest::parse(&request.csr).map_err(|error| {
            self.metrics.invalid.inc();
            Status::invalid_argument(error.to_string())
        })?;
        let authority = self.certificates.authority.borrow().clone();
        let authority = authority.ok_or_else(|| Status::unavailable(NO_CA))?;
        let now = self.certificates.serving.client_time(Timestamp::now());
        let certificate = authority
            .issue(&key, &identity, validity(request.validity_duration), now)
            .map_err(|error| {
                self.metrics.unsigned.inc();
                failure(&error)
            })?;
        self.metrics.signed.inc();
        let not_after = certificate.lifetime().not_after;
        tracing::debug!(%identity, %not_after, "a certificate was signed");
        Ok(CertificateResponse { cert_chain: authority.chain_pem(&certificate) })
    }
}

fn identity(caller: &Caller) -> Result<SpiffeId, Status> {
    TrustDomain::parse(&caller.trust_domain)
        .and_then(|domain| SpiffeId::new(domain, &caller.namespace, &caller.service_account))
        .map_err(|error| Status::permission_denied(error.to_string()))
}

/// Requested validity; the CA bounds it.
fn validity(seconds: i64) -> SignedDuration {
    if seconds > 0 { SignedDuration::from_secs(seconds) } else { DEFAULT_VALIDITY }
}

fn failure(error: &WorkloadAuthorityError) -> Status {
    tracing::error!("no certificate was signed: {error}");
    match error {
        // The CA is about to be renewed.
        WorkloadAuthorityError::Expired { .. } => Status::unavailable(error.to_string()),
        _ => Status::internal("the CA cannot sign; hint: see the control plane's log"),
    }
}

/// Request for a certificate.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CertificateRequest {
    /// Certificate signing request as PEM.
    #[prost(string, tag = "1")]
    pub csr: String,
    /// Requested validity in seconds.
    #[prost(int64, tag = "3")]
    pub validity_duration: i64,
    /// Metadata, a `google.protobuf.Struct` of which the keys matter.
    #[prost(message, optional, tag = "4")]
    pub metadata: Option<Metadata>,
}

/// Keys of a `google.protobuf.Struct`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Metadata {
    /// Fields, without their values.
    #[prost(message, repeated, tag = "1")]
    pub fields: Vec<MetadataField>,
}

/// Field of [`Metadata`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MetadataField {
    /// Key of the field.
    #[prost(string, tag = "1")]
    pub key: String,
}

impl CertificateRequest {
    /// True if the caller asks for the identity of another workload, as proxies of nodes do.
    fn impersonates(&self) -> bool {
        let mut fields = self.metadata.iter().flat_map(|metadata| &metadata.fields);
        fields.any(|field| field.key == "ImpersonatedIdentity")
    }
}

/// Response with a certificate.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CertificateResponse {
    /// PEM texts: the certificate, CAs up to a root, and all roots in the last entry.
    #[prost(string, repeated, tag = "1")]
    pub cert_chain: Vec<String>,
}

impl<B> Service<http::Request<B>> for CertificateService
where
    B: http_body::Body + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync + 'static>> + Send,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let method = CreateCertificate { service: Arc::new(self.clone()) };
        Box::pin(async move {
            let codec = MessageCodec::<CertificateResponse, CertificateRequest>::default();
            let mut grpc = Grpc::new(codec).max_decoding_message_size(MAX_REQUEST);
            Ok(grpc.unary(method, request).await)
        })
    }
}

struct CreateCertificate {
    service: Arc<CertificateService>,
}

impl UnaryService<CertificateRequest> for CreateCertificate {
    type Response = CertificateResponse;
    type Future = Ready<Result<Response<CertificateResponse>, Status>>;

    fn call(&mut self, request: Request<CertificateRequest>) -> Self::Future {
        ready(self.service.sign(&request).map(Response::new))
    }
}

const NO_CALLER: &str = "certificates are signed for authenticated workloads only";
const NO_CA: &str = "the CA is not available yet";
const IMPERSONATION: &str = "certificates are signed for the caller's own identity only";
const DEFAULT_VALIDITY: SignedDuration = SignedDuration::from_hours(24);
/// Larger than any signing request, so that a large one gets an answer with its reason.
const MAX_REQUEST: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impersonation_is_recognised_by_its_key() {
        let request = |key: &str| CertificateRequest {
            metadata: Some(Metadata { fields: vec![MetadataField { key: key.to_owned() }] }),
            ..CertificateRequest::default()
        };
        assert!(request("ImpersonatedIdentity").impersonates());
        // Istio's agents send it with each request.
        assert!(!request("CertSigner").impersonates());
        assert!(!CertificateRequest::default().impersonates());
    }

    #[test]
    fn requested_validity_has_a_default() {
        assert_eq!(validity(60), SignedDuration::from_secs(60));
        assert_eq!(validity(0), DEFAULT_VALIDITY);
        assert_eq!(validity(-1), DEFAULT_VALIDITY);
    }
}
