//! Writes that the account may not make.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::CallError;

/// What was forbidden, why, and until when it is not tried again.
///
/// Rights are rarely given while a program runs, so asking again and again only fills logs. But an
/// API server that has just started refuses everything for a moment, so that the first refusal
/// counts for less.
#[derive(Default)]
pub(super) struct Refusals(BTreeMap<(&'static str, String), Refusal>);

struct Refusal {
    reason: String,
    since: Timestamp,
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
            // A clock that was set back must not stop the writes until it has caught up.
            Some(refusal) if refusal.since <= now && now < refusal.until => {
                Err(refusal.reason.clone())
            }
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
                let interval = if self.0.contains_key(&key) { interval } else { interval / FIRST };
                let until = now.saturating_add(interval).unwrap_or(Timestamp::MAX);
                self.0.insert(key, Refusal { reason: error.to_string(), since: now, until });
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

/// The part of the interval that the first refusal counts for.
const FIRST: i32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden() -> CallError {
        CallError::Refused {
            verb: "patch",
            object: "hook".to_owned(),
            code: 403,
            message: "not yet".to_owned(),
        }
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_prolong_a_refusal() {
        let interval = SignedDuration::from_secs(300);
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut refusals = Refusals::default();
        refusals.heed("patch", "hook", Some(&forbidden()), interval, at(3000));
        assert!(refusals.check("patch", "hook", at(3001)).is_err());
        assert!(refusals.check("patch", "hook", at(60)).is_ok());
    }

    #[test]
    fn the_first_refusal_counts_for_less_and_a_write_that_succeeds_ends_it() {
        let forbidden = forbidden();
        let interval = SignedDuration::from_secs(300);
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut refusals = Refusals::default();
        refusals.heed("patch", "hook", Some(&forbidden), interval, at(0));
        assert!(refusals.check("patch", "hook", at(29)).is_err());
        assert!(refusals.check("patch", "hook", at(30)).is_ok());
        assert!(refusals.check("update", "hook", at(0)).is_ok());
        refusals.heed("patch", "hook", Some(&forbidden), interval, at(30));
        assert!(refusals.check("patch", "hook", at(329)).is_err());
        assert_eq!(refusals.list(), ["patch hook"]);
        refusals.heed("patch", "hook", None, interval, at(330));
        assert!(refusals.list().is_empty());
        refusals.heed("patch", "hook", Some(&forbidden), interval, at(400));
        assert!(refusals.check("patch", "hook", at(430)).is_ok());
    }
}
