//! The order in which handshakes and requests are computed: by source address, in rotation.
//!
//! As many are computed at a time as there are threads. In the runtime's own order, a caller would
//! have as large a part of the CPU as of the connections; so one caller's thousand requests delay
//! another caller's by no more than a few.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use tokio::sync::oneshot;

use super::slots::Source;

/// The run queue of one listener.
#[derive(Debug)]
pub(super) struct RunQueue(Mutex<Rotation<oneshot::Sender<Running>>>);

/// Waiters, each in the queue of its source.
#[derive(Debug)]
struct Rotation<T> {
    free: usize,
    waiting: BTreeMap<Source, VecDeque<T>>,
    /// Sources with a queue, the next one first.
    order: VecDeque<Source>,
}

impl<T> Rotation<T> {
    fn new(free: usize) -> Self {
        Self { free, waiting: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Takes a free turn, if there is one.
    fn take(&mut self) -> bool {
        let is_free = self.free > 0;
        self.free -= usize::from(is_free);
        is_free
    }

    fn wait(&mut self, source: Source, waiter: T) {
        let queue = self.waiting.entry(source).or_default();
        if queue.is_empty() {
            self.order.push_back(source);
        }
        queue.push_back(waiter);
    }

    /// Gives a turn back, and returns the one that has it next.
    fn next(&mut self) -> Option<T> {
        let Some(source) = self.order.pop_front() else {
            self.free += 1;
            return None;
        };
        let queue = self.waiting.get_mut(&source)?;
        let waiter = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&source);
        } else {
            self.order.push_back(source);
        }
        waiter
    }
}

impl RunQueue {
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Rotation::new(count))))
    }

    /// Completes a future of which the first poll, where most of its work is, takes a turn.
    pub(super) async fn run<F: Future>(self: &Arc<Self>, source: Source, future: F) -> F::Output {
        let mut future = pin!(future);
        let turn = self.take(source).await;
        let first = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        drop(turn);
        match first {
            Poll::Ready(output) => output,
            Poll::Pending => future.await,
        }
    }

    async fn take(self: &Arc<Self>, source: Source) -> Running {
        let receiver = {
            let mut queue = self.queue();
            if queue.take() {
                None
            } else {
                let (sender, receiver) = oneshot::channel();
                queue.wait(source, sender);
                Some(receiver)
            }
        };
        let Some(receiver) = receiver else {
            let turn = Running(Arc::clone(self));
            // Tasks that are ready besides come into the queue; else the runtime's order, in which a
            // caller has as many turns as connections, would be that of turns.
            let_others_run().await;
            return turn;
        };
        match receiver.await {
            Ok(turn) => turn,
            // The queue lasts as long as this borrow, and drops no sender that waits.
            Err(_) => std::future::pending().await,
        }
    }

    fn queue(&self) -> MutexGuard<'_, Rotation<oneshot::Sender<Running>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn of a waiter, which the next one has when this is dropped.
#[derive(Debug)]
struct Running(Arc<RunQueue>);

impl Drop for Running {
    fn drop(&mut self) {
        let next = {
            let mut queue = self.0.queue();
            std::iter::from_fn(|| queue.next()).find(|waiter| !waiter.is_closed())
        };
        if let Some(next) = next {
            // One that leaves just now does not take it: dropped, the turn goes on.
            drop(next.send(Self(Arc::clone(&self.0))));
        }
    }
}

/// Lets each task run once that is ready by now.
///
/// `tokio::task::yield_now` lets 61 tasks run where as many are ready, which under load is many
/// milliseconds.
pub(super) async fn let_others_run() {
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

    use futures::FutureExt;

    use super::*;

    #[test]
    fn sources_take_turns() {
        let mut queue = Rotation::new(1);
        assert!(queue.take() && !queue.take());
        (0..5).for_each(|number| queue.wait(source(1), (1, number)));
        queue.wait(source(2), (2, 0));
        queue.wait(source(3), (3, 0));
        let order: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(order, [(1, 0), (2, 0), (3, 0), (1, 1), (1, 2), (1, 3), (1, 4)]);
        assert!(queue.take() && queue.waiting.is_empty());
    }

    #[tokio::test]
    async fn turn_goes_on_where_a_waiter_has_left() {
        let queue = RunQueue::new(1);
        let first = queue.take(source(1)).await;
        let mut left = Box::pin(queue.take(source(2)));
        let mut next = Box::pin(queue.take(source(3)));
        assert!((&mut left).now_or_never().is_none() && (&mut next).now_or_never().is_none());
        drop(left);
        drop(first);
        drop(next.await);
        assert_eq!(queue.queue().free, 1);
    }

    #[tokio::test]
    async fn turn_that_was_given_to_one_that_leaves_goes_on() {
        let queue = RunQueue::new(1);
        let first = queue.take(source(1)).await;
        let mut left = Box::pin(queue.take(source(2)));
        assert!((&mut left).now_or_never().is_none());
        drop(first);
        drop(left);
        assert_eq!(queue.queue().free, 1);
    }

    #[tokio::test]
    async fn caller_with_many_requests_delays_others_by_one() {
        let queue = RunQueue::new(1);
        let order = Arc::<Mutex<Vec<u8>>>::default();
        let run = |number: u8| {
            let (queue, order) = (Arc::clone(&queue), Arc::clone(&order));
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
