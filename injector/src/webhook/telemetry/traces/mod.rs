//! Span for each admission, sent to a collector by OTLP over HTTP.
//!
//! The environment variables of OpenTelemetry's specification apply: those of the exporter
//! (`OTEL_EXPORTER_OTLP_*`), the resource, the sampler and the batches. Without an endpoint nothing
//! is sent.

mod export;
mod queue;

use std::env;
use std::time::Duration;

use axum::http::HeaderMap;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{Span as _, SpanKind, Status, Tracer as _, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{BatchConfigBuilder, SdkTracer, SdkTracerProvider, Span};
use prometheus_client::metrics::counter::Counter;
use reason::words;
use tokio::runtime::Handle;

use self::export::{Client, ClientError, CountedExporter};
use self::queue::Queue;
use super::metrics::{CallResult, Metrics};
use super::subject::ReviewedPod;

/// Destination of the spans of admissions.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<Collected>);

#[derive(Clone, Debug)]
struct Collected {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    revision: String,
}

impl Traces {
    /// Sets up tracing as the process environment asks. Spans that do not fit the queue, or that
    /// the collector rejects, are counted in `metrics`. No admission waits for tracing.
    ///
    /// The requests to the collector run on the caller's runtime.
    pub fn from_environment(revision: &str, metrics: &mut Metrics) -> Result<Self, TracesError> {
        let endpoint = [TRACES_ENDPOINT, ENDPOINT].into_iter().find_map(set);
        let off = set("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true"));
        let Some(endpoint) = endpoint.filter(|_| !off) else {
            return Ok(Self::default());
        };
        let time_limit = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"]
            .into_iter()
            .find_map(|name| set(name)?.parse().ok())
            .map_or(TIME_LIMIT, Duration::from_millis);
        let needs_tls = endpoint.starts_with("https:");
        let client = Client::new(Handle::current(), needs_tls, time_limit);
        let client = client.map_err(TracesError::Client)?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .build()
            .map_err(|error| TracesError::exporter(&endpoint, &error))?;
        let places = set("OTEL_BSP_MAX_QUEUE_SIZE").and_then(|text| text.parse().ok());
        let places = places.filter(|&places| places > 0).unwrap_or(PLACES);
        let config = BatchConfigBuilder::default().with_max_queue_size(places).build();
        let resource = match set("OTEL_SERVICE_NAME") {
            Some(_) => Resource::builder(),
            None => Resource::builder().with_service_name("sidecar-injector"),
        };
        let lost = Counter::default();
        metrics.follow_traces(lost.clone());
        let waiting = queue::Waiting::new(places, lost);
        let exporter = CountedExporter::new(exporter, waiting.clone());
        let provider = SdkTracerProvider::builder()
            .with_span_processor(Queue::new(exporter, config, waiting))
            .with_resource(resource.build())
            .build();
        let tracer = provider.tracer("sidecar-injector");
        let (host, revision) = (export::host(&endpoint), revision.to_owned());
        tracing::info!(collector = host, "admissions are traced");
        Ok(Self(Some(Collected { provider, tracer, revision })))
    }

    /// Starts the span of a call, in the trace of its `traceparent` header.
    pub(in crate::webhook) fn begin(&self, headers: &HeaderMap) -> CallSpan {
        let Some(collected) = &self.0 else {
            return CallSpan(None);
        };
        let parent = TraceContextPropagator::new()
            .extract_with_context(&Context::new(), &HeaderExtractor(headers));
        let builder = collected.tracer.span_builder("admission").with_kind(SpanKind::Server);
        let mut span = builder.start_with_context(&collected.tracer, &parent);
        if !span.is_recording() {
            return CallSpan(None);
        }
        span.set_attribute(KeyValue::new("outrigger.revision", collected.revision.clone()));
        CallSpan(Some(span))
    }

    /// Sends the queued spans, for [`FLUSH`] at most. Blocks.
    pub(in crate::webhook) fn end(&self) {
        let Some(collected) = &self.0 else { return };
        if let Err(error) = collected.provider.shutdown_with_timeout(FLUSH) {
            tracing::warn!(%error, "the last spans are lost");
        }
    }
}

/// Span of one call. If it is dropped before the call has a result, it reports a panic or an
/// abandoned call.
#[derive(Debug)]
pub(in crate::webhook) struct CallSpan(Option<Span>);

impl CallSpan {
    /// Ends the span with the review, the result and the reason of the call. The span contains no
    /// value of an annotation, and nothing of the pod but its owner, or its name if it has none.
    pub(in crate::webhook) fn finish(
        mut self,
        subject: Option<&ReviewedPod>,
        result: CallResult,
        reason: &'static str,
    ) {
        let Some(mut span) = self.0.take() else { return };
        if let Some(ReviewedPod { uid, namespace, name, dry_run }) = subject {
            span.set_attribute(KeyValue::new("k8s.admission.uid", uid.clone()));
            span.set_attribute(KeyValue::new("k8s.namespace.name", namespace.clone()));
            span.set_attribute(KeyValue::new("k8s.admission.dry_run", *dry_run));
            if let Some((kind, owner)) = name.split_once('/') {
                span.set_attribute(KeyValue::new("k8s.owner.kind", kind.to_owned()));
                span.set_attribute(KeyValue::new("k8s.owner.name", owner.to_owned()));
            } else {
                span.set_attribute(KeyValue::new("k8s.pod.name", name.clone()));
            }
        }
        if matches!(result, CallResult::Denied | CallResult::Failed) {
            span.set_status(Status::error(reason));
        }
        outcome(&mut span, result.word(), reason);
        span.end();
    }
}

impl Drop for CallSpan {
    fn drop(&mut self) {
        let Some(span) = &mut self.0 else { return };
        let word = if std::thread::panicking() { words::PANIC } else { words::ABANDONED };
        let reason = word.as_str();
        span.set_status(Status::error(reason));
        outcome(span, CallResult::Failed.word(), reason);
    }
}

fn outcome(span: &mut Span, word: &'static str, reason: &'static str) {
    span.set_attribute(KeyValue::new("outrigger.outcome", word));
    if !reason.is_empty() {
        span.set_attribute(KeyValue::new("outrigger.reason", reason));
    }
}

/// Error while setting up tracing.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The client of the collector cannot be created.
    #[error("{ENDPOINT}: {0}\nhint: set SSL_CERT_FILE to a file of CA certificates in PEM")]
    Client(#[source] ClientError),
    /// The variables of the exporter are invalid.
    #[error(
        "{ENDPOINT}, for {host}: {problem}\n\
         hint: use http://HOST:4318 of a collector that takes OTLP over HTTP"
    )]
    Exporter {
        /// Host and port as given.
        host: String,
        /// Error message.
        problem: String,
    },
}

impl TracesError {
    /// Returns the error with the endpoint shortened to its host, because the endpoint may contain
    /// a password.
    fn exporter(endpoint: &str, error: &ExporterBuildError) -> Self {
        let host = export::host(endpoint);
        Self::Exporter { host: host.to_owned(), problem: error.to_string().replace(endpoint, host) }
    }
}

/// Returns the value of a variable. OpenTelemetry treats an empty variable as unset.
fn set(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/// Default timeout of OpenTelemetry.
const TIME_LIMIT: Duration = Duration::from_secs(10);
const PLACES: usize = 2048;
/// Longest wait for a collector at the end of the process.
const FLUSH: Duration = Duration::from_secs(2);
