//! Answers to the API server's calls.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use tokio::time::{Instant, timeout_at};
use tower_http::catch_panic::CatchPanicLayer;

use super::admission::{Admission, Verdict};
use super::deadline::budget;
use super::large::{LargeBodies, Room, holds_too_many_values, is_expensive};
use super::metrics::{CallResult, Metrics};
use super::outline::Outline;
use super::path::{self, PathError};
use super::reload::Configuration;
use super::review::{self, ReviewError};
use super::run_queue::let_others_run;
use super::surroundings::Surroundings;
use super::traces::Traces;
use super::turns::{Caller, Turns};
use super::work;
use crate::budget::Budget;

/// The webhook's routes: `/inject` and everything below it.
pub fn router(webhook: Webhook) -> Router {
    let metrics = Arc::clone(&webhook.metrics);
    let call = any(call).with_state(Arc::new(webhook));
    Router::new()
        .route("/inject", call.clone())
        .route("/inject/", call.clone())
        .route("/inject/{*environment}", call)
        .layer(CatchPanicLayer::custom(move |_panic| {
            // The panic hook has logged it.
            metrics.panicked();
            (StatusCode::INTERNAL_SERVER_ERROR, "internal error\n").into_response()
        }))
}

/// Redirects a path to its clean form before it is routed, as Go's server does.
pub fn redirect_unclean(router: Router) -> Router {
    router.layer(middleware::from_fn(async |request: Request, next: Next| {
        let uri = request.uri();
        let Err(mut clean) = path::clean(uri.path()) else {
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

/// What answers calls, and within which bounds.
#[derive(Debug)]
pub struct Webhook {
    /// The settings in use.
    pub configuration: Arc<Configuration>,
    /// What is known of the cluster.
    pub surroundings: Surroundings,
    /// How a review is decided.
    pub admission: Admission,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The turns of reviews whose body has come; further ones wait within their own time.
    pub turns: Arc<Turns>,
    /// The room of large bodies, and their turns.
    pub large: LargeBodies,
    /// The largest body, in bytes.
    pub body_limit: usize,
    /// The longest time a call may take.
    pub time_limit: Duration,
    /// Where spans go.
    pub traces: Traces,
}

/// Answers one call and counts it.
async fn call(State(webhook): State<Arc<Webhook>>, request: Request) -> Response {
    let start = Instant::now();
    webhook.metrics.requested();
    let span = webhook.traces.begin(request.headers());
    let answer = webhook.answer(request, start).await;
    let took = start.elapsed();
    match answer {
        Ok((verdict, body)) => {
            webhook.metrics.answered(verdict.result, verdict.reason, true, took);
            verdict.log(took);
            span.finish(Some(&verdict.subject), verdict.result, verdict.reason);
            ([(CONTENT_TYPE, JSON)], body).into_response()
        }
        Err(refusal) => {
            webhook.metrics.answered(CallResult::Failed, refusal.word(), false, took);
            tracing::warn!(reason = refusal.word(), problem = %refusal, "call refused");
            span.finish(None, CallResult::Failed, refusal.word());
            refusal.into_response()
        }
    }
}

impl Webhook {
    async fn answer(
        &self,
        request: Request,
        start: Instant,
    ) -> Result<(Verdict, Vec<u8>), Refusal> {
        let (head, body) = request.into_parts();
        let client =
            head.extensions.get().map(|ConnectInfo(client): &ConnectInfo<SocketAddr>| client);
        let address = client.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), SocketAddr::ip);
        if head.method != Method::POST {
            return Err(Refusal::Method);
        }
        let path_env = path::environment(head.uri.path()).map_err(Refusal::Path)?;
        if head.headers.get(CONTENT_LENGTH).is_some_and(|length| length == "0") {
            return Err(Refusal::Empty);
        }
        if !is_json(&head.headers) {
            return Err(Refusal::ContentType);
        }
        let deadline = start + budget(head.uri.query(), self.time_limit);
        let mut room = self.large.room();
        let body = self.read(body, deadline, &mut room).await?;
        if holds_too_many_values(&body) {
            return Err(Refusal::TooManyValues);
        }
        let settings = self.configuration.current().ok_or(Refusal::Unconfigured)?;
        let outline = Outline::of_review(&body);
        let known = self.surroundings.of(&outline, deadline).await;
        let caller = Caller { source: address.into(), namespace: outline.namespace };
        let admission = self.admission;
        let is_expensive = is_expensive(body.len());
        let answer = move || {
            let review = review::parse(&body).map_err(Refusal::Review)?;
            drop(body);
            let mut verdict = admission.decide(&settings, known.facts(), review, &path_env);
            let answer = verdict.response.to_json().map_err(Refusal::Answer)?;
            verdict.bytes = answer.len();
            Ok((verdict, answer))
        };
        if is_expensive {
            let turn = timeout_at(deadline, self.large.turn(caller)).await;
            return work::aside(
                self.large.thread(),
                turn.map_err(|_| Refusal::Busy)?,
                deadline,
                answer,
            )
            .await?;
        }
        // To hand it to another thread would take longer than to answer it.
        let _turn = if let Some(turn) = self.turns.take_free() {
            // There are as many turns as threads. Unless reviews that have arrived are queued
            // before this one is computed, none ever waits for a turn, and a namespace with many of
            // them comes first.
            let_others_run().await;
            turn
        } else {
            let turn = timeout_at(deadline, self.turns.take(caller)).await;
            turn.map_err(|_| Refusal::Busy)?
        };
        Budget::default().enter(answer)
    }

    /// Reads a body to its end, as far as there is room for what has come of it.
    async fn read(
        &self,
        body: Body,
        deadline: Instant,
        room: &mut Room<'_>,
    ) -> Result<Vec<u8>, Refusal> {
        let too_large = Refusal::TooLarge { limit: self.body_limit };
        // A length that is announced is believed before a byte of it is read.
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
                Ok(Some(Err(_))) => return Err(Refusal::Body),
                Ok(None) => break,
                Err(_) => return Err(Refusal::Slow),
            };
            while !room.holds(body.len() + data.len()) {
                let Ok(()) = timeout_at(deadline, room.grow()).await else {
                    return Err(Refusal::Busy);
                };
                step = Instant::now() + STEP;
            }
            body.extend_from_slice(&data);
        }
        if body.is_empty() { Err(Refusal::Empty) } else { Ok(body) }
    }
}

/// Takes a body that nobody wants, within limits: to a client that is still sending, a connection
/// that is closed at once is an error of its own, before it has read the answer.
async fn discard(body: Body, limit: usize) {
    let rest = Limited::new(body, limit.saturating_mul(2));
    let mut rest = std::pin::pin!(rest);
    let discarding = async { while let Some(Ok(_)) = rest.frame().await {} };
    let _ = timeout_at(Instant::now() + DISCARD, discarding).await;
}

/// A call that is not answered with a review. The API server takes it as a failure of the call,
/// for which the webhook's `failurePolicy` decides.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
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
    #[error("the body holds more values than any pod")]
    TooManyValues,
    #[error("the body cannot be read to its end")]
    Body,
    #[error("the body did not arrive in time")]
    Slow,
    #[error("too many calls at a time")]
    Busy,
    #[error("the pod takes longer to inject than the call may take")]
    Late,
    #[error("no configuration is loaded yet")]
    Unconfigured,
    #[error("{0}")]
    Review(ReviewError),
    #[error("the answer cannot be written: {0}")]
    Answer(serde_json::Error),
}

impl Refusal {
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

    /// The word of logs and labels.
    fn word(&self) -> &'static str {
        match self {
            Self::Method => "bad_method",
            Self::Path(_) => "bad_path",
            Self::Empty => "no_body",
            Self::ContentType => "bad_content_type",
            Self::TooLarge { .. } => "body_too_large",
            Self::TooManyValues => "too_many_values",
            Self::Body => "body_broken",
            Self::Slow => "body_too_slow",
            Self::Busy => "busy",
            Self::Late => "too_late",
            Self::Unconfigured => "no_configuration",
            Self::Review(_) => "bad_review",
            Self::Answer(_) => "internal",
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status(), format!("{self}\n")).into_response();
        if matches!(self, Self::Method) {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        }
        if matches!(self, Self::TooLarge { .. } | Self::Body | Self::Slow) {
            // The rest of the body stands where the next request would.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Whether the content type is `application/json`, with or without parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = text.and_then(|text| text.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

/// How long each further step of a large body may take, while it keeps room from others.
const STEP: Duration = Duration::from_secs(2);
/// How long a body that nobody wants may take.
const DISCARD: Duration = Duration::from_secs(2);
const JSON: HeaderValue = HeaderValue::from_static("application/json");
