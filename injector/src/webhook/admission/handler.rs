//! HTTP handler of the API server's calls.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use tokio::time::{Instant, timeout_at};
use tower_http::catch_panic::CatchPanicLayer;

use super::deadline::budget;
use super::refusal::CallRefusal;
use super::verdict::{Admission, Verdict};
use super::{review, work};
use crate::budget::Budget;
use crate::istio::webhook_path;
use crate::webhook::cluster_state::ClusterWatch;
use crate::webhook::cluster_state::outline::Outline;
use crate::webhook::reload::Configuration;
use crate::webhook::server::body_memory::{
    BodyBudget, BodyReservation, holds_too_many_values, is_expensive,
};
use crate::webhook::server::run_queue::let_others_run;
use crate::webhook::server::turns::{Caller, Turns};
use crate::webhook::telemetry::metrics::{CallResult, Metrics};

/// Returns the webhook's routes: `/inject` and all paths below it.
pub fn router(webhook: Webhook) -> Router {
    let metrics = Arc::clone(&webhook.metrics);
    let call = any(call).with_state(Arc::new(webhook));
    Router::new()
        .route("/inject", call.clone())
        .route("/inject/", call.clone())
        .route("/inject/{*environment}", call)
        .layer(CatchPanicLayer::custom(move |_panic| {
            // The panic hook has already logged the panic.
            metrics.panicked();
            (StatusCode::INTERNAL_SERVER_ERROR, "internal error\n").into_response()
        }))
}

/// Redirects an unclean path to its clean form before routing, as Go's HTTP server does.
pub fn redirect_unclean(router: Router) -> Router {
    router.layer(middleware::from_fn(async |request: Request, next: Next| {
        let uri = request.uri();
        let Err(mut clean) = webhook_path::clean(uri.path()) else {
            return next.run(request).await;
        };
        if let Some(query) = uri.query() {
            clean.push('?');
            clean.push_str(query);
        }
        match HeaderValue::try_from(clean) {
            Ok(clean) => (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, clean)]).into_response(),
            Err(_) => StatusCode::BAD_REQUEST.into_response(),
        }
    }))
}

/// State and limits of the handler.
#[derive(Debug)]
pub struct Webhook {
    /// Settings in use.
    pub configuration: Arc<Configuration>,
    /// Cluster snapshot.
    pub cluster_watch: ClusterWatch,
    /// Decision on a review.
    pub admission: Admission,
    /// Metrics of the calls.
    pub metrics: Arc<Metrics>,
    /// Turns of reviews whose body has arrived. Further reviews wait within their own time limit.
    pub turns: Arc<Turns>,
    /// Body budget and turns of large bodies.
    pub body_budget: BodyBudget,
    /// Largest body in bytes.
    pub body_limit: usize,
    /// Longest duration of a call.
    pub time_limit: Duration,
}

/// Answers one call and counts it.
async fn call(State(webhook): State<Arc<Webhook>>, request: Request) -> Response {
    let start = Instant::now();
    webhook.metrics.requested();
    let answer = webhook.answer(request, start).await;
    let took = start.elapsed();
    match answer {
        Ok((verdict, body)) => {
            webhook.metrics.answered(verdict.result, verdict.reason, true, took);
            verdict.log(took);
            ([(CONTENT_TYPE, JSON)], body).into_response()
        }
        Err(refusal) => {
            webhook.metrics.answered(CallResult::Failed, refusal.word(), false, took);
            tracing::warn!(reason = refusal.word(), problem = %refusal, "call rejected");
            refusal.into_response()
        }
    }
}

impl Webhook {
    async fn answer(
        &self,
        request: Request,
        start: Instant,
    ) -> Result<(Verdict, Vec<u8>), CallRefusal> {
        let (head, body) = request.into_parts();
        let client =
            head.extensions.get().map(|ConnectInfo(client): &ConnectInfo<SocketAddr>| client);
        let address = client.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), SocketAddr::ip);
        if head.method != Method::POST {
            return Err(CallRefusal::Method);
        }
        let path_env = webhook_path::environment(head.uri.path()).map_err(CallRefusal::Path)?;
        if head.headers.get(CONTENT_LENGTH).is_some_and(|length| length == "0") {
            return Err(CallRefusal::Empty);
        }
        if !is_json(&head.headers) {
            return Err(CallRefusal::ContentType);
        }
        let deadline = start + budget(head.uri.query(), self.time_limit);
        let mut reservation = self.body_budget.reserve();
        let body = self.read(body, deadline, &mut reservation).await?;
        if holds_too_many_values(&body) {
            return Err(CallRefusal::TooManyValues);
        }
        let settings = self.configuration.current().ok_or(CallRefusal::Unconfigured)?;
        let outline = Outline::from_review(&body);
        let known = self.cluster_watch.environment(&outline, deadline).await;
        let caller = Caller { source: address.into(), namespace: outline.namespace };
        let admission = self.admission;
        let is_expensive = is_expensive(body.len());
        let answer = move || {
            let review = review::parse(&body).map_err(CallRefusal::Review)?;
            drop(body);
            let mut verdict = admission.decide(&settings, known.facts(), review, &path_env);
            let answer = verdict.response.to_json().map_err(CallRefusal::Answer)?;
            verdict.bytes = answer.len();
            Ok((verdict, answer))
        };
        if is_expensive {
            let turn = timeout_at(deadline, self.body_budget.turn(caller)).await;
            return work::aside(
                self.body_budget.thread(),
                turn.map_err(|_| CallRefusal::Busy)?,
                deadline,
                answer,
            )
            .await?;
        }
        // Handing the review to another thread would take longer than answering it.
        let _turn = if let Some(turn) = self.turns.take_free() {
            // There are as many turns as threads. Unless reviews that have arrived are queued
            // before this one is computed, none ever waits for a turn, and a namespace with many of
            // them comes first.
            let_others_run().await;
            turn
        } else {
            let turn = timeout_at(deadline, self.turns.take(caller)).await;
            turn.map_err(|_| CallRefusal::Busy)?
        };
        Budget::default().enter(answer)
    }

    /// Reads the whole body within the body budget.
    async fn read(
        &self,
        body: Body,
        deadline: Instant,
        reservation: &mut BodyReservation<'_>,
    ) -> Result<Vec<u8>, CallRefusal> {
        let too_large = CallRefusal::TooLarge { limit: self.body_limit };
        // An announced length above the limit is rejected before any byte is read.
        if body.size_hint().lower() > self.body_limit as u64 {
            tokio::spawn(discard(body, self.body_limit));
            return Err(too_large);
        }
        let mut rest = Limited::new(body, self.body_limit);
        let mut body = Vec::new();
        let mut step = deadline;
        loop {
            let data = match timeout_at(step.min(deadline), rest.frame()).await {
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                Ok(Some(Err(error))) if error.is::<LengthLimitError>() => return Err(too_large),
                Ok(Some(Err(_))) => return Err(CallRefusal::Body),
                Ok(None) => break,
                Err(_) => return Err(CallRefusal::Slow),
            };
            while !reservation.holds(body.len() + data.len()) {
                let Ok(()) = timeout_at(deadline, reservation.grow()).await else {
                    return Err(CallRefusal::Busy);
                };
                step = Instant::now() + STEP;
            }
            body.extend_from_slice(&data);
        }
        if body.is_empty() { Err(CallRefusal::Empty) } else { Ok(body) }
    }
}

/// Reads and drops the rest of a rejected body, within limits. If the connection closed at once, a
/// client that is still sending would fail before it reads the response.
async fn discard(body: Body, limit: usize) {
    let rest = Limited::new(body, limit.saturating_mul(2));
    let mut rest = std::pin::pin!(rest);
    let discarding = async { while let Some(Ok(_)) = rest.frame().await {} };
    let _ = timeout_at(Instant::now() + DISCARD, discarding).await;
}

/// True if the content type is `application/json`, with or without parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = text.and_then(|text| text.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

/// Time limit for the data of each further budget step of a large body, because the body keeps that
/// budget from others.
const STEP: Duration = Duration::from_secs(2);
/// Time limit for discarding the rest of a rejected body.
const DISCARD: Duration = Duration::from_secs(2);
const JSON: HeaderValue = HeaderValue::from_static("application/json");
