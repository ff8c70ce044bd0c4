//! Health and metrics.

use std::sync::Arc;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, header::HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jiff::Timestamp;
use webhook_certs::serving::ServingCertificate;

use super::metrics::{self, Metrics};
use super::readiness::Readiness;

/// `/healthz/ready` and `/ready`, which is what Istio calls it: 200 when reviews may be sent, else
/// 503 with what is missing.
pub fn readiness(readiness: Arc<Readiness>) -> Router {
    let ready = get(async move || -> Response {
        match readiness.check(Timestamp::now()) {
            Ok(()) => "ready\n".into_response(),
            Err(missing) => {
                (StatusCode::SERVICE_UNAVAILABLE, format!("{missing}\n")).into_response()
            }
        }
    });
    Router::new().route("/healthz/ready", ready.clone()).route("/ready", ready)
}

/// `/healthz/live`, which is 200 as long as the process answers at all, and `/metrics`.
///
/// These are for the plain port: there are no secrets in them.
pub fn monitoring(metrics: Arc<Metrics>, certificate: Arc<ServingCertificate>) -> Router {
    Router::new().route("/healthz/live", get(async || "live\n")).route(
        "/metrics",
        get(async move || ([(CONTENT_TYPE, METRICS)], metrics.encode(certificate.not_after()))),
    )
}

const METRICS: HeaderValue = HeaderValue::from_static(metrics::CONTENT_TYPE);
