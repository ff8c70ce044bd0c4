//! What this replica may write, and how often.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::CallError;
use super::refusals::Refusals;
use crate::options::Parameters;
use crate::write_budget::WriteBudget;

/// The budget of each object, and what was forbidden a moment ago.
pub(super) struct Writes<'a> {
    parameters: &'a Parameters,
    budgets: BTreeMap<String, WriteBudget>,
    refusals: Refusals,
}

impl<'a> Writes<'a> {
    pub(super) fn new(parameters: &'a Parameters) -> Self {
        Self { parameters, budgets: BTreeMap::new(), refusals: Refusals::default() }
    }

    /// Takes a write from the object's budget, unless it was forbidden a moment ago.
    pub(super) fn spend(&mut self, verb: &'static str, object: String) -> Result<(), WriteError> {
        let now = Timestamp::now();
        self.refusals.check(verb, &object, now).map_err(WriteError::Forbidden)?;
        self.budget(&object, now)
            .take(now)
            .map_err(|wait| WriteError::Budget { object, wait: wait.unsigned_abs() })
    }

    /// Takes a write of another replica from the budget too, so that all of them together write no
    /// more than one may.
    pub(super) fn count_other(&mut self, object: &str) {
        let now = Timestamp::now();
        // Where nothing is left, the next write has to wait all the same.
        let _ = self.budget(object, now).take(now);
    }

    /// Remembers whether the write was forbidden.
    pub(super) fn heed(&mut self, verb: &'static str, object: &str, error: Option<&CallError>) {
        let interval = self.parameters.denied_interval;
        self.refusals.heed(verb, object, error, interval, Timestamp::now());
    }

    /// Each verb and object that was forbidden, for people to read.
    pub(super) fn denied(&self) -> Vec<String> {
        self.refusals.list()
    }

    fn budget(&mut self, object: &str, now: Timestamp) -> &mut WriteBudget {
        let Parameters { write_burst, write_interval, .. } = *self.parameters;
        self.budgets
            .entry(object.to_owned())
            .or_insert_with(|| WriteBudget::new(write_burst, write_interval, now))
    }
}

/// Why nothing is written now.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error("{0}")]
    Forbidden(String),
    #[error("{object} changes too often; hint: see who else writes to it")]
    Budget { object: String, wait: Duration },
}
