//! Spans that wait to be sent, and those for which there is no room.

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

/// How many spans wait, of at most how many, and how many were lost.
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

    /// So many wait no more, since they are being sent.
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

/// The SDK's batches, in front of which is counted what finds no room: the SDK itself tells of
/// that by one warning, and of the number at its end.
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
