//! Write budgets and forbidden writes of a replica.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kube_access::WriteBudget;

use super::CallError;
use super::forbidden::ForbiddenWrites;
use crate::options::Parameters;

/// Budget of each object, and recently forbidden writes.
pub(super) struct Writes<'a> {
    parameters: &'a Parameters,
    budgets: BTreeMap<String, WriteBudget>,
    forbidden: ForbiddenWrites,
}

impl<'a> Writes<'a> {
    pub(super) fn new(parameters: &'a Parameters) -> Self {
        Self { parameters, budgets: BTreeMap::new(), forbidden: ForbiddenWrites::default() }
    }

    /// Takes a write from the object's budget, unless it was forbidden recently.
    pub(super) fn spend(&mut self, verb: &'static str, object: String) -> Result<(), WriteError> {
        let now = Timestamp::now();
        self.forbidden.check(verb, &object, now).map_err(WriteError::Forbidden)?;
        self.budget(&object, now)
            .take(now)
            .map_err(|wait| WriteError::Budget { object, wait: wait.unsigned_abs() })
    }

    /// Takes a write of another replica from the budget, so that all replicas together write no
    /// more than one may.
    pub(super) fn count_other(&mut self, object: &str) {
        let now = Timestamp::now();
        // With an empty budget, the next write has to wait anyway.
        let _ = self.budget(object, now).take(now);
    }

    /// Records whether the write was forbidden.
    pub(super) fn record_forbidden(
        &mut self,
        verb: &'static str,
        object: &str,
        error: Option<&CallError>,
    ) {
        let interval = self.parameters.denied_interval;
        self.forbidden.record(verb, object, error, interval, Timestamp::now());
    }

    /// Forgets writes of objects that are not to be written any more.
    pub(super) fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.budgets.retain(|object, _| is_wanted(object));
        self.forbidden.retain(is_wanted);
    }

    /// Verb and object of each forbidden write.
    pub(super) fn denied(&self) -> Vec<String> {
        self.forbidden.list()
    }

    fn budget(&mut self, object: &str, now: Timestamp) -> &mut WriteBudget {
        let Parameters { write_burst, write_interval, .. } = *self.parameters;
        self.budgets
            .entry(object.to_owned())
            .or_insert_with(|| WriteBudget::new(write_burst, write_interval, now))
    }
}

/// Reason for which a write must wait.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error("{0}")]
    Forbidden(String),
    #[error("{object} changes too often; hint: look for the other writers in its managedFields")]
    Budget { object: String, wait: Duration },
}
