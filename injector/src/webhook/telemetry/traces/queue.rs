//! Queue of spans to send, with a count of the spans that do not fit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfig, BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor,
};
use prometheus_client::metrics::counter::Counter;

/// Number of queued spans, capacity of the queue, and counter of lost spans.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    count: Arc<AtomicUsize>,
    places: usize,
    lost: Counter,
}

impl Waiting {
    pub(super) fn new(places: usize, lost: Counter) -> Self {
        Self { count: Arc::default(), places, lost }
    }

    /// Removes spans from the count, because they are being sent.
    pub(super) fn leave(&self, count: usize) {
        self.count.fetch_sub(count, Ordering::Relaxed);
    }

    pub(super) fn lose(&self, count: usize) {
        self.lost.inc_by(count as u64);
    }

    fn enter(&self) -> bool {
        let entered = self.count.fetch_add(1, Ordering::Relaxed) < self.places;
        if !entered {
            self.leave(1);
        }
        entered
    }
}

/// Batch processor of the SDK, with a count of the spans that do not fit. The SDK itself logs only
/// one warning, and the number when it shuts down.
#[derive(Debug)]
pub(super) struct Queue {
    batches: BatchSpanProcessor,
    waiting: Waiting,
}

impl Queue {
    pub(super) fn new(
        exporter: impl SpanExporter + 'static,
        config: BatchConfig,
        waiting: Waiting,
    ) -> Self {
        let batches = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
        Self { batches, waiting }
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.batches.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        if self.waiting.enter() {
            self.batches.on_end(span);
        } else {
            self.waiting.lose(1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}
