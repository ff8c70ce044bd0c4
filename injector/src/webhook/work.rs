//! The computing for one review, on the right thread and for no longer than its caller waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task;
use tokio::time::{Instant, timeout_at};

use super::handler::Refusal;
use super::turns::Turn;
use crate::budget::Budget;

/// The computing for one review, which ends early when this is dropped.
pub(super) struct Work {
    deadline: Instant,
    cancelled: Arc<AtomicBool>,
    /// Shared with the thread that computes: the next review has its turn when this one's computing
    /// has ended, and not when its caller has gone.
    turn: Option<Arc<Turn>>,
}

impl Work {
    /// Computing by a deadline, in the turn of a large review or beside all others.
    pub(super) fn new(turn: Option<Turn>, deadline: Instant) -> Self {
        Self { deadline, cancelled: Arc::default(), turn: turn.map(Arc::new) }
    }

    /// Runs a part of it. A small review is answered at once, where its body was read, since to
    /// hand it over would take longer. The threads that serve are kept free of large ones.
    pub(super) async fn run<T, F>(&self, compute: F) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let Some(turn) = self.turn.clone() else {
            return Ok(Budget::default().enter(compute));
        };
        let budget = Budget::default().cancelled_by(Arc::clone(&self.cancelled));
        let computing = task::spawn_blocking(move || {
            let _turn = turn;
            budget.enter(compute)
        });
        match timeout_at(self.deadline, computing).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(failed)) => match failed.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends.
                Err(_) => Err(Refusal::Busy),
            },
            Err(_) => Err(Refusal::Late),
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use super::super::turns::{Caller, Turns};
    use super::*;
    use crate::budget;

    /// Ends with its budget alone.
    fn endless() {
        while budget::spend(0).is_ok() {
            std::thread::yield_now();
        }
    }

    fn caller() -> Caller {
        Caller { address: IpAddr::from([10, 0, 0, 1]), namespace: "shop".to_owned() }
    }

    #[tokio::test]
    async fn computing_ends_with_its_deadline_and_its_caller() {
        let turns: Arc<Turns> = Arc::default();
        let late = Work::new(Some(turns.take(caller()).await), Instant::now());
        assert!(matches!(late.run(endless).await, Err(Refusal::Late)));
        drop(late);
        // It is the next one's turn because the computing has ended.
        let turn = turns.take(caller()).await;
        let abandoned = Work::new(Some(turn), Instant::now() + Duration::from_secs(3600));
        let computing = tokio::spawn(async move { abandoned.run(endless).await.map(|()| 0) });
        tokio::task::yield_now().await;
        computing.abort();
        let _ = turns.take(caller()).await;
    }
}
