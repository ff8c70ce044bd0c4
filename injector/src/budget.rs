//! Budget of one injection: the work that it may cause, whatever the pod and the templates say.
//!
//! One unit is about one byte or item that is made, copied or looked at, so the units bound both
//! time and memory, and the same pod always costs the same. The clock stays outside: a caller that
//! has a deadline, or whose client may leave, sets a flag.
//!
//! Functions of templates are bare function pointers, which cannot be handed a budget. So the
//! budget in force is found through the thread.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The work that may still be done.
#[derive(Clone, Debug)]
pub struct Budget {
    limit: u64,
    left: u64,
    cancelled: Option<Arc<AtomicBool>>,
}

impl Default for Budget {
    /// The work that one injection may cause: a hundred times as much as that of a pod with
    /// thousands of variables.
    fn default() -> Self {
        Self::new(UNITS)
    }
}

impl Budget {
    /// A budget of some units.
    pub fn new(units: u64) -> Self {
        Self { limit: units, left: units, cancelled: None }
    }

    /// Ends the work as soon as the flag is set: because of a deadline, or of a caller that has gone.
    #[must_use]
    pub fn cancelled_by(self, flag: Arc<AtomicBool>) -> Self {
        Self { cancelled: Some(flag), ..self }
    }

    /// Does the work on this budget. A budget that was in force before is in force again afterwards.
    pub fn enter<T>(self, work: impl FnOnce() -> T) -> T {
        let _restored = Restore(CURRENT.replace(Some(self)));
        work()
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

/// Takes units from the budget in force. Without one, work is not limited.
pub fn spend(units: usize) -> Result<(), Exhausted> {
    CURRENT.with_borrow_mut(|current| match current {
        Some(budget) => budget.spend(units as u64),
        None => Ok(()),
    })
}

/// Does the work on the budget in force or, where there is none, on a whole one.
pub fn within<T>(work: impl FnOnce() -> T) -> T {
    let is_in_force = CURRENT.with_borrow(Option::is_some);
    if is_in_force { work() } else { Budget::default().enter(work) }
}

/// A budget that does not allow the next piece of work.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Exhausted {
    /// The deadline has passed, or the caller has gone.
    #[error("the injection did not end in time")]
    Cancelled,
    /// The work exceeds what any pod needs.
    #[error("the injection needs more than the {limit} units of work allowed; this limit is fixed")]
    Units {
        /// The units of the whole budget.
        limit: u64,
    },
}

const UNITS: u64 = 256 << 20;

/// Puts the budget back that was in force before, also after a panic.
struct Restore(Option<Budget>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Budget>> = const { RefCell::new(None) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_with_its_budget() {
        let spent = Budget::new(10).enter(|| [spend(4), spend(6), spend(0), spend(1)]);
        assert_eq!(spent, [Ok(()), Ok(()), Ok(()), Err(Exhausted::Units { limit: 10 })]);
        assert_eq!(spend(usize::MAX), Ok(()));
    }

    #[test]
    fn a_flag_ends_the_work() {
        let flag = Arc::new(AtomicBool::new(false));
        Budget::new(10).cancelled_by(Arc::clone(&flag)).enter(|| {
            assert_eq!(spend(1), Ok(()));
            flag.store(true, Ordering::Relaxed);
            assert_eq!(spend(0), Err(Exhausted::Cancelled));
        });
    }

    #[test]
    fn an_inner_budget_gives_way_to_the_outer_one() {
        Budget::new(1).enter(|| {
            Budget::new(5).enter(|| assert_eq!(spend(5), Ok(())));
            assert_eq!(spend(1), Ok(()));
            assert!(spend(1).is_err());
        });
    }
}
