//! Error responses of calls without a review.

use axum::http::header::{ALLOW, CONNECTION};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use reason::words;

use super::review::ReviewError;
use crate::istio::webhook_path::PathError;

/// Error response without a review. The API server counts the call as failed, and applies the
/// webhook's `failurePolicy`.
#[derive(Debug, thiserror::Error)]
pub(in crate::webhook) enum CallRefusal {
    #[error("want POST")]
    Method,
    #[error("{0}")]
    Path(PathError),
    #[error("no body found")]
    Empty,
    #[error("invalid Content-Type, want application/json")]
    ContentType,
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the body has more values than any pod")]
    TooManyValues,
    #[error("the body could not be read completely")]
    Body,
    #[error("the body did not arrive in time")]
    Slow,
    #[error("too many concurrent calls")]
    Busy,
    #[error("the injection did not end before the call's deadline")]
    Late,
    #[error("no configuration is loaded yet")]
    Unconfigured,
    #[error("{0}")]
    Review(ReviewError),
    #[error("the answer cannot be written: {0}")]
    Answer(serde_json::Error),
}

impl CallRefusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Path(_) | Self::Empty | Self::Body | Self::Review(_) => StatusCode::BAD_REQUEST,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge { .. } | Self::TooManyValues => StatusCode::PAYLOAD_TOO_LARGE,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Answer(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Busy | Self::Late | Self::Unconfigured => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns the reason in logs and labels.
    pub(super) fn word(&self) -> &'static str {
        let word = match self {
            Self::Method => words::BAD_METHOD,
            Self::Path(_) => words::BAD_PATH,
            Self::Empty => words::NO_BODY,
            Self::ContentType => words::BAD_CONTENT_TYPE,
            Self::TooLarge { .. } => words::BODY_TOO_LARGE,
            Self::TooManyValues => words::TOO_MANY_VALUES,
            Self::Body => words::BODY_BROKEN,
            Self::Slow => words::BODY_TOO_SLOW,
            Self::Busy => words::BUSY,
            Self::Late => words::TOO_LATE,
            Self::Unconfigured => words::NO_CONFIGURATION,
            Self::Review(_) => words::BAD_REVIEW,
            Self::Answer(_) => words::INTERNAL,
        };
        word.as_str()
    }
}

impl IntoResponse for CallRefusal {
    fn into_response(self) -> Response {
        let mut response = (self.status(), format!("{self}\n")).into_response();
        if matches!(self, Self::Method) {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        }
        if matches!(self, Self::TooLarge { .. } | Self::Body | Self::Slow) {
            // The rest of the body would be read as the next request.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
