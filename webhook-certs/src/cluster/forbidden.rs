//! Writes that the account may not make.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::CallError;

/// Forbidden writes, each with its reason and the end of the pause after it.
///
/// Rights rarely change while a program runs, so frequent retries only fill logs. But an API server
/// that has just started forbids everything for a moment, so the first pause is shorter.
#[derive(Default)]
pub(super) struct ForbiddenWrites(BTreeMap<(&'static str, String), ForbiddenWrite>);

struct ForbiddenWrite {
    reason: String,
    since: Timestamp,
    until: Timestamp,
}

impl ForbiddenWrites {
    /// Returns the reason if the write was forbidden recently.
    pub(super) fn check(
        &self,
        verb: &'static str,
        object: &str,
        now: Timestamp,
    ) -> Result<(), String> {
        match self.0.get(&(verb, object.to_owned())) {
            // After a clock was set back, writes must not wait until it has caught up.
            Some(write) if write.since <= now && now < write.until => Err(write.reason.clone()),
            _ => Ok(()),
        }
    }

    /// Records the result of a write.
    pub(super) fn record(
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
                self.0.insert(key, ForbiddenWrite { reason: error.to_string(), since: now, until });
            }
            Some(_) => {}
            None => drop(self.0.remove(&key)),
        }
    }

    /// Forgets the writes of some objects.
    pub(super) fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.0.retain(|(_, object), _| is_wanted(object));
    }

    /// Verb and object of each forbidden write.
    pub(super) fn list(&self) -> Vec<String> {
        self.0.keys().map(|(verb, object)| format!("{verb} {object}")).collect()
    }
}

/// Divisor of the interval for the first pause.
const FIRST: i32 = 10;

#[cfg(test)]
mod tests {
    use super::super::CallErrorCause;
    use super::*;

    fn forbidden() -> CallError {
        CallError {
            verb: "patch",
            object: "hook".to_owned(),
            cause: CallErrorCause::Rejected { code: 403, message: "not yet".to_owned() },
        }
    }

    #[test]
    fn a_clock_set_back_does_not_prolong_the_pause() {
        let interval = SignedDuration::from_secs(300);
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut writes = ForbiddenWrites::default();
        writes.record("patch", "hook", Some(&forbidden()), interval, at(3000));
        assert!(writes.check("patch", "hook", at(3001)).is_err());
        assert!(writes.check("patch", "hook", at(60)).is_ok());
    }

    #[test]
    fn first_pause_is_short_and_success_ends_it() {
        let forbidden = forbidden();
        let interval = SignedDuration::from_secs(300);
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut writes = ForbiddenWrites::default();
        writes.record("patch", "hook", Some(&forbidden), interval, at(0));
        assert!(writes.check("patch", "hook", at(29)).is_err());
        assert!(writes.check("patch", "hook", at(30)).is_ok());
        assert!(writes.check("update", "hook", at(0)).is_ok());
        writes.record("patch", "hook", Some(&forbidden), interval, at(30));
        assert!(writes.check("patch", "hook", at(329)).is_err());
        assert_eq!(writes.list(), ["patch hook"]);
        writes.record("patch", "hook", None, interval, at(330));
        assert!(writes.list().is_empty());
        writes.record("patch", "hook", Some(&forbidden), interval, at(400));
        assert!(writes.check("patch", "hook", at(430)).is_ok());
    }
}
