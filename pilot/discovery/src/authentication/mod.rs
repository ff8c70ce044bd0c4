//! Authentication of callers by their certificate or their token.

mod tls;
mod token;
mod token_cache;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::IntoResponse as _;
use http::{Extensions, HeaderMap, Response, StatusCode};
use jiff::Timestamp;
use mesh::spiffe::{SpiffeId, TrustDomain};
use thiserror::Error;
use tokio::sync::watch;
use tonic::{Code, Status};
use webhook_certs::serving::workload_clients::{WorkloadIdentity, WorkloadIdentityError};

pub use self::tls::Tls;
pub use self::token::{TokenError, TokenReviewer};
use crate::certificates::service::METHOD;
use crate::identity::Caller;

/// Authentication of the requests of a listener with TLS.
#[derive(Debug)]
pub struct Authenticator {
    tokens: TokenReviewer,
    /// Trust domain of the mesh; `None` until the settings are known.
    trust_domain: watch::Receiver<Option<TrustDomain>>,
}

impl Authenticator {
    /// Authenticates workloads of `trust_domain`.
    pub fn new(tokens: TokenReviewer, trust_domain: watch::Receiver<Option<TrustDomain>>) -> Self {
        Self { tokens, trust_domain }
    }

    /// Wraps services: each request gets the [`Caller`] as an extension, and a request without one
    /// is rejected.
    pub fn protect(self: Arc<Self>, router: Router) -> Router {
        router.layer(middleware::from_fn_with_state(self, authenticate))
    }

    /// Caller of a request: of the certificate if the connection has one, else of the token.
    ///
    /// A certificate needs no call to the API server, so connected proxies do not depend on it.
    async fn caller(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Result<Caller, AuthenticationError> {
        match extensions.get::<Presented>() {
            Some(Presented(identity)) => {
                let identity = identity.as_ref().map_err(Clone::clone)?;
                caller_by_certificate(identity, self.trust_domain()?, Timestamp::now())
            }
            None => self.caller_by_token(headers).await,
        }
    }

    /// Caller of the request's token. A certificate is signed for a token only, which is revoked
    /// with its pod: otherwise a stolen key could be renewed for ever.
    async fn caller_by_token(&self, headers: &HeaderMap) -> Result<Caller, AuthenticationError> {
        let token = bearer(headers)?;
        let trust_domain = self.trust_domain()?;
        let account = self.tokens.review(token).await?;
        let (namespace, name) = (&account.namespace, &account.name);
        // Kubernetes' names are valid in identities.
        SpiffeId::new(trust_domain.clone(), namespace, name)
            .map_err(|error| TokenError::Rejected { reason: error.to_string() })?;
        Ok(Caller {
            trust_domain: trust_domain.as_str().into(),
            namespace: namespace.as_str().into(),
            service_account: name.as_str().into(),
            pod: account.pod.as_deref().map(Into::into),
        })
    }

    fn trust_domain(&self) -> Result<TrustDomain, AuthenticationError> {
        self.trust_domain.borrow().clone().ok_or(AuthenticationError::Starting)
    }
}

fn caller_by_certificate(
    identity: &WorkloadIdentity,
    expected: TrustDomain,
    now: Timestamp,
) -> Result<Caller, AuthenticationError> {
    let WorkloadIdentity { id, lifetime } = identity;
    // The handshake may have been long ago.
    if lifetime.not_after < now {
        return Err(AuthenticationError::Expired { not_after: lifetime.not_after });
    }
    if *id.trust_domain() != expected {
        let found = id.trust_domain().clone();
        return Err(AuthenticationError::TrustDomain { found, expected });
    }
    Ok(Caller {
        trust_domain: id.trust_domain().as_str().into(),
        namespace: id.namespace().into(),
        service_account: id.service_account().into(),
        pod: None,
    })
}

/// Identity in the certificate that the client of a connection has presented.
#[derive(Clone, Debug)]
struct Presented(Result<WorkloadIdentity, WorkloadIdentityError>);

async fn authenticate(
    State(authenticator): State<Arc<Authenticator>>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    let caller = if request.uri().path() == METHOD {
        authenticator.caller_by_token(request.headers()).await
    } else {
        authenticator.caller(request.headers(), request.extensions()).await
    };
    match caller {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(error) => {
            tracing::info!(path = request.uri().path(), "unauthenticated request: {error}");
            let status = Status::from(error);
            if !request.uri().path().starts_with(PAGES) {
                return status.into_http();
            }
            let code = match status.code() {
                Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::UNAUTHORIZED,
            };
            (code, format!("{}\n", status.message())).into_response()
        }
    }
}

/// Reason for which a request has no caller.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AuthenticationError {
    /// There is no credential.
    #[error(
        "the request has no bearer token and the connection no client certificate; hint: the \
         proxy needs a projected token of its ServiceAccount"
    )]
    Missing,
    /// The header is not that of a bearer token.
    #[error("the header `authorization` has no bearer token")]
    Scheme,
    /// The token is rejected, or cannot be reviewed.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The certificate has no identity.
    #[error(transparent)]
    Certificate(#[from] WorkloadIdentityError),
    /// The certificate has expired since the handshake.
    #[error("the client's certificate has expired at {not_after}; hint: connect again")]
    Expired {
        /// End of its validity.
        not_after: Timestamp,
    },
    /// The trust domain is not known yet.
    #[error("the control plane has not read the mesh configuration yet")]
    Starting,
    /// The certificate is of another trust domain.
    #[error("the client's certificate is of the trust domain {found}, and the mesh is {expected}")]
    TrustDomain {
        /// Trust domain of the certificate.
        found: TrustDomain,
        /// Trust domain of the mesh.
        expected: TrustDomain,
    },
}

impl From<AuthenticationError> for Status {
    fn from(error: AuthenticationError) -> Self {
        match &error {
            AuthenticationError::Token(TokenError::Unavailable { .. })
            | AuthenticationError::Starting => Self::unavailable(error.to_string()),
            _ => Self::unauthenticated(error.to_string()),
        }
    }
}

/// Start of the paths that are not gRPC.
const PAGES: &str = "/debug/";

fn bearer(headers: &HeaderMap) -> Result<&str, AuthenticationError> {
    let header = headers.get(http::header::AUTHORIZATION).ok_or(AuthenticationError::Missing)?;
    let header = header.to_str().map_err(|_| AuthenticationError::Scheme)?;
    match header.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() => {
            Ok(token)
        }
        _ => Err(AuthenticationError::Scheme),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use webhook_certs::authority::Lifetime;

    use super::*;

    #[test]
    fn certificate_authenticates_until_it_expires_and_in_its_trust_domain_alone() {
        let domain = |text: &str| TrustDomain::parse(text).unwrap();
        let hours = SignedDuration::from_hours;
        let begin = Timestamp::UNIX_EPOCH;
        let identity = WorkloadIdentity {
            id: SpiffeId::new(domain("cluster.local"), "shop", "web").unwrap(),
            lifetime: Lifetime::starting(begin, hours(1)),
        };
        let caller =
            |expected, after| caller_by_certificate(&identity, domain(expected), begin + after);
        let web = caller("cluster.local", hours(1) - SignedDuration::from_secs(1)).unwrap();
        assert_eq!((&*web.namespace, &*web.service_account), ("shop", "web"));
        let expired = caller("cluster.local", hours(2)).unwrap_err();
        assert_eq!(
            expired,
            AuthenticationError::Expired { not_after: identity.lifetime.not_after }
        );
        let (found, expected) = (domain("cluster.local"), domain("example.com"));
        let foreign = caller("example.com", hours(0)).unwrap_err();
        assert_eq!(foreign, AuthenticationError::TrustDomain { found, expected });
    }

    #[test]
    fn only_bearer_tokens_are_taken() {
        let token = |header: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("authorization", header.parse().unwrap());
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(token("Bearer a.b.c"), Ok("a.b.c".to_owned()));
        assert_eq!(token("bearer a.b.c"), Ok("a.b.c".to_owned()));
        for header in ["Basic a", "Bearer", "Bearer ", "a.b.c"] {
            assert_eq!(token(header), Err(AuthenticationError::Scheme), "{header}");
        }
        assert_eq!(bearer(&HeaderMap::new()), Err(AuthenticationError::Missing));
    }
}
