//! Writes that the account may not make.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::CallError;

/// What was forbidden, why, and until when it is not tried again.
///
/// Rights are rarely given while a program runs, so asking again and again only fills logs.
#[derive(Default)]
pub(super) struct Refusals(BTreeMap<(&'static str, String), Refusal>);

struct Refusal {
    reason: String,
    until: Timestamp,
}

impl Refusals {
    /// Gives the reason for which the write was forbidden, where that is not long ago.
    pub(super) fn check(
        &self,
        verb: &'static str,
        object: &str,
        now: Timestamp,
    ) -> Result<(), String> {
        match self.0.get(&(verb, object.to_owned())) {
            Some(refusal) if now < refusal.until => Err(refusal.reason.clone()),
            _ => Ok(()),
        }
    }

    /// Remembers how a write went.
    pub(super) fn heed(
        &mut self,
        verb: &'static str,
        object: &str,
        error: Option<&CallError>,
        interval: SignedDuration,
        now: Timestamp,
    ) {
        let key = (verb, object.to_owned());
        match error {
            Some(error) if error.is_forbidden() => {
                let until = now.saturating_add(interval).unwrap_or(Timestamp::MAX);
                self.0.insert(key, Refusal { reason: error.to_string(), until });
            }
            Some(_) => {}
            None => drop(self.0.remove(&key)),
        }
    }

    /// Each verb and object, for people to read.
    pub(super) fn list(&self) -> Vec<String> {
        self.0.keys().map(|(verb, object)| format!("{verb} {object}")).collect()
    }
}
