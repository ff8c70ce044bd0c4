//! Computing of an expensive review, on another thread and no longer than its caller waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use super::refusal::CallRefusal;
use crate::budget::Budget;
use crate::webhook::server::turns::Turn;

/// Computes the answer to an expensive review, on a thread that serves nothing else. The
/// computing ends when the deadline has passed or the caller has gone, and the turn ends with the
/// computing.
pub(in crate::webhook) async fn aside<T: Send + 'static>(
    thread: &Handle,
    turn: Turn,
    deadline: Instant,
    compute: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CallRefusal> {
    let caller = Caller(Arc::default());
    let budget = Budget::default().cancelled_by(Arc::clone(&caller.0));
    let computing = thread.spawn(async move {
        let _turn = turn;
        budget.enter(compute)
    });
    match timeout_at(deadline, computing).await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(failed)) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => Err(CallRefusal::Busy),
        },
        Err(_) => Err(CallRefusal::Late),
    }
}

/// Waiting caller; dropping it cancels the computing.
struct Caller(Arc<AtomicBool>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use super::*;
    use crate::budget;
    use crate::webhook::server::own_thread;
    use crate::webhook::server::turns::{self, Turns};

    /// Ends only with its budget.
    fn endless() {
        while budget::spend(0).is_ok() {
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn work_ends_at_the_deadline_or_when_the_caller_leaves() {
        let thread = own_thread::start("large-reviews").unwrap();
        let turns = Turns::new(1);
        let caller = || turns::Caller {
            source: IpAddr::from([10, 0, 0, 1]).into(),
            namespace: "shop".to_owned(),
        };
        let late = aside(&thread, turns.take(caller()).await, Instant::now(), endless).await;
        assert!(matches!(late, Err(CallRefusal::Late)));
        // The turn is free because the computing has ended.
        let turn = turns.take(caller()).await;
        let deadline = Instant::now() + Duration::from_secs(3600);
        let abandoned =
            tokio::spawn(async move { aside(&thread, turn, deadline, endless).await.is_ok() });
        tokio::task::yield_now().await;
        abandoned.abort();
        let _ = turns.take(caller()).await;
    }
}
