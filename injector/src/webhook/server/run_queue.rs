//! Order in which handshakes and requests are computed: by source address, in rotation.
//!
//! As many are computed at a time as there are threads. In the runtime's own order, a caller's
//! share of the CPU would be as large as its share of the connections. In rotation, one caller's
//! thousand requests delay another caller by a few requests only.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use super::connection_slots::Source;
use super::turns::{Caller, Turns};

/// Run queue of one listener.
#[derive(Clone, Debug)]
pub(in crate::webhook) struct RunQueue(Arc<Turns>);

impl RunQueue {
    pub(in crate::webhook) fn new(count: usize) -> Self {
        Self(Turns::new(count))
    }

    /// Completes a future. Its first poll, which does most of its work, takes a turn.
    pub(in crate::webhook) async fn run<F: Future>(&self, source: Source, future: F) -> F::Output {
        let mut future = pin!(future);
        let turn = if let Some(turn) = self.0.take_free() {
            // Other ready tasks join the queue first. Otherwise the runtime's order would decide,
            // in which a caller has as many turns as connections.
            let_others_run().await;
            turn
        } else {
            self.0.take(Caller { source, namespace: String::new() }).await
        };
        let first = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        drop(turn);
        match first {
            Poll::Ready(output) => output,
            Poll::Pending => future.await,
        }
    }
}

/// Lets each task that is ready now run once.
///
/// `tokio::task::yield_now` may let 61 tasks run before it returns, which under load takes many
/// milliseconds.
pub(in crate::webhook) async fn let_others_run() {
    let mut has_waited = false;
    poll_fn(|context| {
        if has_waited {
            return Poll::Ready(());
        }
        has_waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn caller_with_many_requests_delays_others_by_one() {
        let queue = RunQueue::new(1);
        let order = Arc::<Mutex<Vec<u8>>>::default();
        let run = |number: u8| {
            let (queue, order) = (queue.clone(), Arc::clone(&order));
            tokio::spawn(async move {
                let work = async { order.lock().unwrap().push(number) };
                queue.run(source(number), work).await;
            })
        };
        let tasks: Vec<_> = [1; 20].into_iter().chain([2]).map(run).collect();
        for task in tasks {
            task.await.unwrap();
        }
        let order = order.lock().unwrap();
        assert!(order.len() == 21 && order.iter().position(|one| *one == 2) < Some(4), "{order:?}");
    }

    fn source(last: u8) -> Source {
        Source::from(IpAddr::from([10, 0, 0, last]))
    }
}
