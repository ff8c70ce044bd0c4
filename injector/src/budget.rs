//! Budget of one injection: a limit on its work, independent of the pod and the templates.
//!
//! One unit is about one byte or item that is created, copied or read. So the units limit both time
//! and memory, and the same pod always costs the same. The budget reads no clock: a caller with a
//! deadline, or with a client that may disconnect, sets a flag.
//!
//! Template functions are bare function pointers without room for a budget. So the budget in force
//! is kept in a thread-local variable.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::LocalKey;

/// Remaining work of an injection.
#[derive(Clone, Debug)]
pub struct Budget {
    limit: u64,
    left: u64,
    cancelled: Option<Arc<AtomicBool>>,
}

impl Default for Budget {
    /// Returns the budget of one injection, 100 times the cost of a pod with thousands of
    /// environment variables.
    fn default() -> Self {
        Self::new(UNITS)
    }
}

impl Budget {
    /// Returns a budget of this many units.
    pub fn new(units: u64) -> Self {
        Self { limit: units, left: units, cancelled: None }
    }

    /// Cancels the work as soon as the flag is set, by a deadline or because the caller has gone.
    #[must_use]
    pub fn cancelled_by(self, flag: Arc<AtomicBool>) -> Self {
        Self { cancelled: Some(flag), ..self }
    }

    /// Runs the work on this budget, and restores the previous budget afterwards.
    pub fn enter<T>(self, work: impl FnOnce() -> T) -> T {
        with_state(&CURRENT, self, work)
    }

    fn spend(&mut self, units: u64) -> Result<(), Exhausted> {
        if self.cancelled.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(Exhausted::Cancelled);
        }
        match self.left.checked_sub(units) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Exhausted::Units { limit: self.limit }),
        }
    }
}

/// Takes units from the budget in force. Without a budget, work is not limited.
pub fn spend(units: usize) -> Result<(), Exhausted> {
    CURRENT.with_borrow_mut(|current| match current {
        Some(budget) => budget.spend(units as u64),
        None => Ok(()),
    })
}

/// Runs the work on the budget in force, or on a new default budget if there is none.
pub fn within<T>(work: impl FnOnce() -> T) -> T {
    let is_in_force = CURRENT.with_borrow(Option::is_some);
    if is_in_force { work() } else { Budget::default().enter(work) }
}

/// Reason why a budget does not allow more work.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Exhausted {
    /// The deadline has passed, or the caller has gone.
    #[error("the injection did not end in time")]
    Cancelled,
    /// The work exceeds the needs of any pod.
    #[error("the injection needs more than the {limit} units of work allowed; this limit is fixed")]
    Units {
        /// Units of the whole budget.
        limit: u64,
    },
}

const UNITS: u64 = 256 << 20;

/// Runs the work with a state in a thread-local variable, and restores the previous one afterwards,
/// also after a panic.
pub(crate) fn with_state<S, T>(
    variable: &'static LocalKey<RefCell<Option<S>>>,
    state: S,
    work: impl FnOnce() -> T,
) -> T {
    struct Restore<S: 'static>(&'static LocalKey<RefCell<Option<S>>>, Option<S>);
    impl<S> Drop for Restore<S> {
        fn drop(&mut self) {
            self.0.set(self.1.take());
        }
    }
    let _restored = Restore(variable, variable.replace(Some(state)));
    work()
}

thread_local! {
    static CURRENT: RefCell<Option<Budget>> = const { RefCell::new(None) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_when_the_budget_is_spent() {
        let spent = Budget::new(10).enter(|| [spend(4), spend(6), spend(0), spend(1)]);
        assert_eq!(spent, [Ok(()), Ok(()), Ok(()), Err(Exhausted::Units { limit: 10 })]);
        assert_eq!(spend(usize::MAX), Ok(()));
    }

    #[test]
    fn cancel_flag_ends_the_work() {
        let flag = Arc::new(AtomicBool::new(false));
        Budget::new(10).cancelled_by(Arc::clone(&flag)).enter(|| {
            assert_eq!(spend(1), Ok(()));
            flag.store(true, Ordering::Relaxed);
            assert_eq!(spend(0), Err(Exhausted::Cancelled));
        });
    }

    #[test]
    fn outer_budget_limits_the_inner_one() {
        Budget::new(1).enter(|| {
            Budget::new(5).enter(|| assert_eq!(spend(5), Ok(())));
            assert_eq!(spend(1), Ok(()));
            assert!(spend(1).is_err());
        });
    }
}
