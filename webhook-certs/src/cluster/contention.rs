//! Detection of other writers of managed bundles.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;

use super::events::CONTENTION;
use crate::rotation::Configuration;

/// History of writes to webhook configurations.
#[derive(Clone, Debug, Default)]
pub(super) struct Contention {
    configurations: BTreeMap<String, Watched>,
    overwrites: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default)]
struct Watched {
    /// Generation at which the bundles were last correct.
    right: Option<i64>,
    /// Latest counted write of a replica; `has_written` is true if a write of this replica is not
    /// counted yet.
    published_at: Option<Timestamp>,
    has_written: bool,
    /// Latest generation that another writer made, with wrong bundles.
    wrong: Option<i64>,
    /// Instants of recent overwrites.
    times: VecDeque<Timestamp>,
}

/// Change of a configuration since the last observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BundleChange {
    /// No change by another writer.
    None,
    /// The bundles are correct in a new generation without a write of this replica: another replica
    /// repaired them.
    RepairedByAnother,
    /// Another writer broke correct bundles.
    Overwritten {
        /// Number of overwrites within [`CONTENTION`].
        times: usize,
    },
}

impl Contention {
    /// Records a write of this replica and the generation that it made; `None` if the write failed.
    pub(super) fn record_write(&mut self, name: &str, generation: Option<i64>) {
        let watched = self.configurations.entry(name.to_owned()).or_default();
        watched.right = generation;
        // After a conflict, the next write may be another replica's.
        watched.has_written |= generation.is_some();
    }

    /// True if another replica has written the configuration since the last call, even if its write
    /// was undone since.
    ///
    /// Writes are distinguished by their second, so some may be missed.
    pub(super) fn is_written_by_another(&mut self, configuration: &Configuration) -> bool {
        let watched = self.configurations.entry(configuration.name.clone()).or_default();
        let before = std::mem::replace(&mut watched.published_at, configuration.published_at);
        let is_known = before.is_some() || watched.has_written;
        if before == configuration.published_at || configuration.published_at.is_none() {
            return false;
        }
        let is_ours = std::mem::take(&mut watched.has_written);
        is_known && !is_ours
    }

    /// Records an observation.
    pub(super) fn observe(
        &mut self,
        configuration: &Configuration,
        is_right: bool,
        now: Timestamp,
    ) -> BundleChange {
        let Configuration { name, generation, .. } = configuration;
        let watched = self.configurations.entry(name.clone()).or_default();
        if is_right {
            let before = watched.right.replace(*generation);
            return match before {
                Some(before) if before != *generation => BundleChange::RepairedByAnother,
                _ => BundleChange::None,
            };
        }
        let is_news = watched.right.is_some_and(|right| right != *generation)
            && watched.wrong.replace(*generation) != Some(*generation);
        if !is_news {
            return BundleChange::None;
        }
        let is_old = |time: &Timestamp| now.duration_since(*time) > CONTENTION;
        while watched.times.len() >= MOST_TIMES || watched.times.front().is_some_and(is_old) {
            watched.times.pop_front();
        }
        watched.times.push_back(now);
        let times = watched.times.len();
        match configuration.others.as_slice() {
            [] => self.count("unknown"),
            others => others.iter().for_each(|manager| self.count(manager)),
        }
        BundleChange::Overwritten { times }
    }

    /// Number of overwrites by each other field manager. Names beyond a limit are counted as
    /// `other`, since a writer may use any name.
    pub(super) fn overwrites(&self) -> &BTreeMap<String, u64> {
        &self.overwrites
    }

    fn count(&mut self, manager: &str) {
        let is_known = self.overwrites.contains_key(manager) || self.overwrites.len() < MOST_NAMES;
        let manager = if is_known { manager } else { "other" };
        *self.overwrites.entry(manager.to_owned()).or_default() += 1;
    }
}

const MOST_TIMES: usize = 1000;
const MOST_NAMES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::Bundle;
    use crate::rotation::fixtures::{at, configuration};

    fn version(generation: i64, others: &[&str]) -> Configuration {
        let others = others.iter().map(|&name| name.to_owned()).collect();
        Configuration { generation, others, ..configuration(&Bundle::default()) }
    }

    #[test]
    fn overwrites_are_counted_once_and_expire() {
        let mut contention = Contention::default();
        // Bundles that were never correct were not overwritten.
        assert_eq!(contention.observe(&version(1, &[]), false, at(0)), BundleChange::None);
        contention.record_write("hook", Some(2));
        assert_eq!(contention.observe(&version(2, &[]), true, at(0)), BundleChange::None);
        let flux = version(3, &["flux"]);
        assert_eq!(contention.observe(&flux, false, at(0)), BundleChange::Overwritten { times: 1 });
        assert_eq!(contention.observe(&flux, false, at(0)), BundleChange::None);
        contention.record_write("hook", Some(4));
        let unknown = version(5, &[]);
        assert_eq!(
            contention.observe(&unknown, false, at(0)),
            BundleChange::Overwritten { times: 2 }
        );
        assert_eq!(
            contention.observe(&version(6, &[]), true, at(0)),
            BundleChange::RepairedByAnother
        );
        assert_eq!(
            contention.observe(&version(7, &["flux"]), false, at(1)),
            BundleChange::Overwritten { times: 1 }
        );
        let counts: Vec<_> =
            contention.overwrites().iter().map(|(n, c)| (n.as_str(), *c)).collect();
        assert_eq!(counts, [("flux", 2), ("unknown", 1)]);
    }

    #[test]
    fn a_wanted_bundle_that_grew_is_not_an_overwrite() {
        let mut contention = Contention::default();
        contention.record_write("hook", Some(2));
        assert_eq!(contention.observe(&version(2, &["flux"]), false, at(0)), BundleChange::None);
    }

    #[test]
    fn repairs_by_other_replicas_are_noticed_even_if_undone() {
        let mut contention = Contention::default();
        let at_hour = |hour| Configuration { published_at: Some(at(hour)), ..version(1, &[]) };
        // Writes before the start are not counted.
        assert!(!contention.is_written_by_another(&at_hour(0)));
        assert!(!contention.is_written_by_another(&at_hour(0)));
        assert!(contention.is_written_by_another(&at_hour(1)));
        contention.record_write("hook", Some(2));
        assert!(!contention.is_written_by_another(&at_hour(2)));
        assert!(contention.is_written_by_another(&at_hour(3)));
        contention.record_write("hook", None);
        assert!(contention.is_written_by_another(&at_hour(4)));
        assert!(!contention.is_written_by_another(&version(1, &[])));
    }

    #[test]
    fn number_of_counted_names_is_bounded() {
        let mut contention = Contention::default();
        contention.record_write("hook", Some(0));
        for generation in 1..100 {
            contention.observe(&version(generation, &[&format!("m{generation}")]), false, at(0));
        }
        assert_eq!(contention.overwrites().len(), MOST_NAMES + 1);
        assert_eq!(contention.overwrites()["other"], 99 - MOST_NAMES as u64);
    }
}
