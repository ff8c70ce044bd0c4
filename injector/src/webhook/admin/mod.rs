//! Routes for health, metrics and log levels.

pub mod liveness;
pub mod readiness;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, header::HeaderValue};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use jiff::Timestamp;
use webhook_certs::serving::ServingCertificate;

use self::liveness::Liveness;
use self::readiness::Readiness;
use super::telemetry::log::{Levels, Log};
use super::telemetry::metrics::{self, Metrics};

/// Returns the routes `/healthz/ready` and `/ready` (Istio's path): 200 if the process can answer
/// reviews, else 503 with the missing condition.
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

/// Returns the route `/healthz/live`: 200 while the main runtime gives signs of life, else 503.
pub fn liveness(liveness: Arc<Liveness>) -> Router {
    let live = get(async move || -> Response {
        if liveness.is_alive(Instant::now()) {
            return "live\n".into_response();
        }
        (StatusCode::SERVICE_UNAVAILABLE, "the webhook is blocked\n").into_response()
    });
    Router::new().route("/healthz/live", live)
}

/// Returns the route `/metrics`. Its page contains no secrets.
pub fn monitoring(metrics: Arc<Metrics>, certificate: Arc<ServingCertificate>) -> Router {
    Router::new().route(
        "/metrics",
        get(async move || ([(CONTENT_TYPE, METRICS)], metrics.encode(certificate.not_after()))),
    )
}

/// Returns the route `/logging`. `GET` returns the log levels. `PUT` sets the levels from its body,
/// which has the format of `--log_output_level`.
///
/// Only clients of this host or pod have access, for example through `kubectl port-forward`; other
/// clients get 403.
pub fn logging(log: Arc<Log>) -> Router {
    let current = Arc::clone(&log);
    let tell = get(async move || format!("{}\n", current.levels()));
    let set = put(async move |body: Bytes| -> Response {
        let text = String::from_utf8_lossy(&body);
        match text.trim().parse::<Levels>() {
            Ok(levels) => {
                // Logged before and after the change, so that one of the two lines passes the
                // filter.
                tracing::info!(%levels, "changing the log levels");
                log.set_levels(levels.clone());
                tracing::info!(%levels, "log levels changed");
                format!("{levels}\n").into_response()
            }
            Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
        }
    });
    let routes = Router::new().route("/logging", tell.merge(set));
    let routes = routes.layer(DefaultBodyLimit::max(LEVELS_BYTES));
    routes.layer(middleware::from_fn(async |request: Request, next: Next| -> Response {
        let client = request.extensions().get::<ConnectInfo<SocketAddr>>();
        if client.is_some_and(|ConnectInfo(address)| is_here(address.ip())) {
            return next.run(request).await;
        }
        (StatusCode::FORBIDDEN, "only for clients at 127.0.0.1 and ::1\n").into_response()
    }))
}

/// True if the address is 127.0.0.1 or `::1`. Other addresses of 127.0.0.0/8 are not trusted,
/// because behind a sidecar they can stand for remote clients.
fn is_here(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address == IpAddr::V4(Ipv4Addr::LOCALHOST) || address == IpAddr::V6(Ipv6Addr::LOCALHOST)
}

/// Limit of the body of `PUT /logging` in bytes; more than any list of levels needs.
const LEVELS_BYTES: usize = 4096;
const METRICS: HeaderValue = HeaderValue::from_static(metrics::CONTENT_TYPE);
