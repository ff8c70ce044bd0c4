//! Tokens of service accounts, reviewed by the API server.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use kube_access::with_causes;
use serde::Deserialize;
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::token_cache::{TokenCache, TokenHash};

/// Reviews tokens by the API server, and remembers the accepted ones for a short time.
pub struct TokenReviewer {
    reviews: Api<TokenReview>,
    audiences: Vec<String>,
    cache: Mutex<TokenCache>,
    /// Concurrent calls, so that a storm of proxies does not overload the API server.
    calls: Semaphore,
}

/// Service account of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Namespace of the account.
    pub namespace: String,
    /// Name of the account.
    pub name: String,
    /// Pod to which the token is bound.
    pub pod: Option<String>,
}

impl TokenReviewer {
    /// Accepts tokens that have one of `audiences`.
    pub fn new(client: Client, audiences: Vec<String>) -> Self {
        Self {
            reviews: Api::all(client),
            audiences,
            cache: Mutex::default(),
            calls: Semaphore::new(CONCURRENT_CALLS),
        }
    }

    /// Returns the account of a token.
    pub async fn review(&self, token: &str) -> Result<ServiceAccount, TokenError> {
        if token.len() > MAX_SIZE {
            return Err(TokenError::Size { size: token.len() });
        }
        let now = Timestamp::now();
        let expiry = expiry(token).ok_or(TokenError::Form)?;
        let remaining = Duration::try_from(expiry.duration_since(now)).unwrap_or_default();
        if remaining.is_zero() {
            return Err(TokenError::Expired { expiry });
        }
        let hash = TokenHash::of(token);
        if let Some(account) = self.cache().get(&hash, Instant::now()) {
            return Ok(account);
        }
        let late =
            |_| TokenError::Unavailable { reason: format!("no answer within {CALL_TIMEOUT:?}") };
        let status = timeout(CALL_TIMEOUT, self.call(token)).await.map_err(late)??;
        let account = account(&status, &self.audiences)?;
        self.cache().insert(hash, account.clone(), Instant::now(), remaining);
        Ok(account)
    }

    async fn call(&self, token: &str) -> Result<TokenReviewStatus, TokenError> {
        let unavailable = |reason: String| TokenError::Unavailable { reason };
        let permit = self.calls.acquire().await;
        let _permit = permit.map_err(|error| unavailable(error.to_string()))?;
        let review = TokenReview {
            metadata: ObjectMeta::default(),
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: Some(self.audiences.clone()),
            },
            status: None,
        };
        let reviewed = self.reviews.create(&PostParams::default(), &review).await;
        let reviewed = reviewed.map_err(|error| unavailable(with_causes(&error)))?;
        reviewed.status.ok_or_else(|| unavailable("its answer has no status".to_owned()))
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, TokenCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TokenReviewer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { audiences, .. } = self;
        formatter
            .debug_struct("TokenReviewer")
            .field("audiences", audiences)
            .finish_non_exhaustive()
    }
}

/// Reason for which a token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    /// The token is too long.
    #[error("the token has {size} bytes; at most {MAX_SIZE} are accepted")]
    Size {
        /// Size of the token in bytes.
        size: usize,
    },
    /// The token is not that of a service account.
    #[error("the token is not a JSON Web Token with an expiry")]
    Form,
    /// The token has expired.
    #[error("the token has expired at {expiry}; hint: the kubelet replaces projected tokens")]
    Expired {
        /// End of its validity.
        expiry: Timestamp,
    },
    /// The API server does not accept the token.
    #[error("the API server rejects the token: {reason}")]
    Rejected {
        /// Message of the API server.
        reason: String,
    },
    /// The token is for other servers.
    #[error(
        "the token is not for this server; hint: its audience has to be one of {}",
        audiences.join(", ")
    )]
    Audience {
        /// Accepted audiences.
        audiences: Vec<String>,
    },
    /// The token is of a user.
    #[error("the token is of `{user}`, which is no ServiceAccount")]
    NotServiceAccount {
        /// Name of the user.
        user: String,
    },
    /// The API server did not answer.
    #[error("the API server cannot review the token now: {reason}")]
    Unavailable {
        /// Error of the call.
        reason: String,
    },
}

/// Expiry that a token claims, which bounds its time in the cache once it is accepted.
fn expiry(token: &str) -> Option<Timestamp> {
    let mut parts = token.split('.');
    let (Some(_), Some(claims), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: Claims = serde_json::from_slice(&claims).ok()?;
    Timestamp::from_second(claims.exp).ok()
}

#[derive(Deserialize)]
struct Claims {
    exp: i64,
}

/// Account in the result of a review.
fn account(status: &TokenReviewStatus, audiences: &[String]) -> Result<ServiceAccount, TokenError> {
    if status.authenticated != Some(true) {
        let reason = status.error.clone().unwrap_or_else(|| "it is not authenticated".to_owned());
        return Err(TokenError::Rejected { reason });
    }
    // An API server that does not know audiences returns none.
    let accepted = status.audiences.iter().flatten().any(|found| audiences.contains(found));
    if !accepted {
        return Err(TokenError::Audience { audiences: audiences.to_vec() });
    }
    let user = status.user.clone().unwrap_or_default();
    let name = user.username.unwrap_or_default();
    let is_account = user.groups.iter().flatten().any(|group| group == GROUP);
    let parts = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once(':'));
    let Some((namespace, account)) = parts.filter(|_| is_account) else {
        return Err(TokenError::NotServiceAccount { user: name });
    };
    let pod = user.extra.as_ref().and_then(|extra| extra.get(POD)?.first().cloned());
    Ok(ServiceAccount { namespace: namespace.to_owned(), name: account.to_owned(), pod })
}

const GROUP: &str = "system:serviceaccounts";
const PREFIX: &str = "system:serviceaccount:";
const POD: &str = "authentication.kubernetes.io/pod-name";
const MAX_SIZE: usize = 8 * 1024;
const CONCURRENT_CALLS: usize = 32;
const CALL_TIMEOUT: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    type Change = fn(&mut Value);

    fn reviewed(change: impl FnOnce(&mut Value)) -> Result<ServiceAccount, TokenError> {
        let mut status = json!({
            "authenticated": true,
            "audiences": ["istio-ca"],
            "user": {
                "username": "system:serviceaccount:shop:web",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:shop"],
                "extra": {"authentication.kubernetes.io/pod-name": ["web-1"]},
            },
        });
        change(&mut status);
        account(&serde_json::from_value(status).unwrap(), &["istio-ca".to_owned()])
    }

    #[test]
    fn account_is_that_of_the_review() {
        let account = reviewed(|_| ()).unwrap();
        assert_eq!((account.namespace.as_str(), account.name.as_str()), ("shop", "web"));
        assert_eq!(account.pod.as_deref(), Some("web-1"));
    }

    #[test]
    fn reviews_without_an_account_are_rejected() {
        let cases: [(Change, &str); 6] = [
            (|status| status["authenticated"] = json!(false), "is not authenticated"),
            (|status| status["authenticated"] = Value::Null, "is not authenticated"),
            (|status| status["audiences"] = json!(["other"]), "its audience has to be"),
            (|status| status["audiences"] = Value::Null, "its audience has to be"),
            (|status| status["user"]["groups"] = json!([]), "no ServiceAccount"),
            (|status| status["user"]["username"] = json!("system:node:a"), "no ServiceAccount"),
        ];
        for (change, message) in cases {
            let error = reviewed(change).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn expiry_is_read_from_the_claims() {
        let token = |claims: &str| format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        assert_eq!(expiry(&token(r#"{"exp": 7}"#)), Timestamp::from_second(7).ok());
        for token in [token("{}"), token("x"), "a.b".to_owned(), "a.b.c.d".to_owned()] {
            assert_eq!(expiry(&token), None, "{token}");
        }
    }
}
