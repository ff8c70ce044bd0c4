//! `istio.v1.auth.IstioCertificateService`: signs the workload of the token that a request carries.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use e2e::mesh_authority::{MeshAuthority, WorkloadLeaf};
use serde::Deserialize;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::metadata::MetadataMap;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// The service, with the CA that signs.
#[derive(Clone)]
pub(super) struct CertificateService {
    authority: Arc<MeshAuthority>,
}

impl CertificateService {
    pub(super) fn new(authority: Arc<MeshAuthority>) -> Self {
        Self { authority }
    }

    fn sign(&self, request: &Request<SigningRequest>) -> Result<SigningResponse, Status> {
        let identity = identity(request.metadata())?;
        let SigningRequest { csr, validity_duration } = request.get_ref();
        let lifetime = Duration::from_secs(u64::try_from(*validity_duration).unwrap_or_default());
        let signed = self.authority.sign(csr, &WorkloadLeaf::new(&identity, lifetime));
        let signed = signed.map_err(|error| Status::invalid_argument(format!("{error:#}")))?;
        Ok(SigningResponse { cert_chain: vec![signed, self.authority.root().to_owned()] })
    }
}

/// Returns the SPIFFE identity of the `ServiceAccount` in the token. The stories trust their pods:
/// the signature is not checked.
fn identity(metadata: &MetadataMap) -> Result<String, Status> {
    let token = metadata.get("authorization").and_then(|value| value.to_str().ok());
    let claims = token
        .and_then(|token| token.strip_prefix("Bearer ")?.split('.').nth(1))
        .and_then(|claims| URL_SAFE_NO_PAD.decode(claims).ok())
        .and_then(|claims| serde_json::from_slice::<Claims>(&claims).ok())
        .ok_or_else(|| Status::unauthenticated("the request has no token"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    if claims.exp.is_some_and(|expiry| expiry <= now) {
        return Err(Status::unauthenticated("the token has expired"));
    }
    let mut parts = claims.sub.split(':').skip(2);
    match (parts.next(), parts.next()) {
        (Some(namespace), Some(account)) => {
            Ok(format!("spiffe://cluster.local/ns/{namespace}/sa/{account}"))
        }
        _ => Err(Status::unauthenticated("the token is of no ServiceAccount")),
    }
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct SigningRequest {
    #[prost(string, tag = "1")]
    csr: String,
    #[prost(int64, tag = "3")]
    validity_duration: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct SigningResponse {
    #[prost(string, repeated, tag = "1")]
    cert_chain: Vec<String>,
}

impl NamedService for CertificateService {
    const NAME: &'static str = "istio.v1.auth.IstioCertificateService";
}

impl Service<http::Request<Body>> for CertificateService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let method = CreateCertificate(self.clone());
        Box::pin(async move {
            let mut grpc = Grpc::new(ProstCodec::<SigningResponse, SigningRequest>::default());
            Ok(grpc.unary(method, request).await)
        })
    }
}

struct CreateCertificate(CertificateService);

impl UnaryService<SigningRequest> for CreateCertificate {
    type Response = SigningResponse;
    type Future = BoxFuture<Response<SigningResponse>, Status>;

    fn call(&mut self, request: Request<SigningRequest>) -> Self::Future {
        let service = self.0.clone();
        Box::pin(async move { service.sign(&request).map(Response::new) })
    }
}
