//! Queue of requests to the control plane.
//!
//! It accepts requests at once: were Envoy to wait here, and the control plane for Envoy to read
//! responses, both would wait forever. A bound far above real use limits its memory.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::mpsc;

/// Creates a queue. `gauge` counts its requests.
pub(super) fn queue(gauge: Gauge) -> (Requests, QueuedRequests) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let bytes = Arc::new(AtomicUsize::new(0));
    let requests = Requests { sender, bytes: Arc::clone(&bytes), gauge: gauge.clone() };
    (requests, QueuedRequests { receiver, bytes, gauge })
}

/// Sending half.
#[derive(Debug)]
pub(super) struct Requests {
    sender: mpsc::UnboundedSender<Bytes>,
    bytes: Arc<AtomicUsize>,
    gauge: Gauge,
}

/// A queue with more than [`MAX_BYTES`].
#[derive(Debug)]
pub(super) struct QueueFull;

impl Requests {
    /// Adds a request. It is dropped if the upstream stream has ended.
    pub(super) fn push(&self, request: Bytes) -> Result<(), QueueFull> {
        let weight = weight(&request);
        if self.bytes.load(Ordering::Relaxed) + weight > MAX_BYTES {
            return Err(QueueFull);
        }
        self.bytes.fetch_add(weight, Ordering::Relaxed);
        if self.sender.send(request).is_ok() {
            self.gauge.inc();
        }
        Ok(())
    }
}

/// Receiving half.
#[derive(Debug)]
pub(super) struct QueuedRequests {
    receiver: mpsc::UnboundedReceiver<Bytes>,
    bytes: Arc<AtomicUsize>,
    gauge: Gauge,
}

impl Stream for QueuedRequests {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let request = self.receiver.poll_recv(context);
        if let Poll::Ready(Some(request)) = &request {
            self.bytes.fetch_sub(weight(request), Ordering::Relaxed);
            self.gauge.dec();
        }
        request
    }
}

impl Drop for QueuedRequests {
    fn drop(&mut self) {
        self.receiver.close();
        while self.receiver.try_recv().is_ok() {
            self.gauge.dec();
        }
    }
}

/// Size of a request with its place in the queue.
fn weight(request: &Bytes) -> usize {
    request.len() + size_of::<Bytes>()
}

/// Limit of one stream. A reconnect that names 10,000 resources takes less than 1 MB.
pub(super) const MAX_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    #[tokio::test]
    async fn queue_counts_bytes_until_they_are_taken() {
        let gauge = Gauge::default();
        let (requests, mut queued) = queue(gauge.clone());
        let half = Bytes::from(vec![0; MAX_BYTES / 2]);
        requests.push(half.clone()).unwrap();
        requests.push(half.clone()).unwrap_err();
        assert_eq!(gauge.get(), 1);
        queued.next().await.unwrap();
        requests.push(half).unwrap();
        drop(queued);
        assert_eq!(gauge.get(), 0);
    }
}
