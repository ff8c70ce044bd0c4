//! Who else writes the bundles that this replica keeps up.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;

use crate::news::CONTENTION;
use crate::rotation::Configuration;

/// What became of the bundles that were right once.
#[derive(Clone, Debug, Default)]
pub struct Contention {
    configurations: BTreeMap<String, Watched>,
    overwrites: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default)]
struct Watched {
    /// The generation of the configuration when its bundles were last seen to be right.
    right: Option<i64>,
    /// The latest write of a replica that was counted, and whether one of our own is to come.
    published_at: Option<Timestamp>,
    has_written: bool,
    /// The latest generation that somebody else made of it, with wrong bundles.
    wrong: Option<i64>,
    /// When that happened lately.
    times: VecDeque<Timestamp>,
}

/// What a look at a configuration has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing that anybody else did.
    None,
    /// It is right in another generation than the last that was right, without a write of this
    /// replica: another one has repaired it.
    RepairedByAnother,
    /// Somebody has made right bundles wrong; so often within [`CONTENTION`].
    Overwritten {
        /// How often.
        times: usize,
    },
}

impl Contention {
    /// Notes that this replica has written a configuration, which made `generation`; none where the
    /// write went wrong.
    pub fn written(&mut self, name: &str, generation: Option<i64>) {
        let watched = self.configurations.entry(name.to_owned()).or_default();
        watched.right = generation;
        // One that met somebody else's write does not tell whose that was.
        watched.has_written |= generation.is_some();
    }

    /// Tells whether another replica has written a configuration since it was asked last, also
    /// where somebody made it wrong again before anybody looked.
    ///
    /// Writes are told apart by the second, so that some may be missed.
    pub fn is_written_by_another(&mut self, configuration: &Configuration) -> bool {
        let watched = self.configurations.entry(configuration.name.clone()).or_default();
        let before = std::mem::replace(&mut watched.published_at, configuration.published_at);
        let is_known = before.is_some() || watched.has_written;
        if before == configuration.published_at || configuration.published_at.is_none() {
            return false;
        }
        let is_ours = std::mem::take(&mut watched.has_written);
        is_known && !is_ours
    }

    /// Notes what a look has shown.
    pub fn seen(
        &mut self,
        configuration: &Configuration,
        is_right: bool,
        now: Timestamp,
    ) -> Change {
        let Configuration { name, generation, .. } = configuration;
        let watched = self.configurations.entry(name.clone()).or_default();
        if is_right {
            let before = watched.right.replace(*generation);
            return match before {
                Some(before) if before != *generation => Change::RepairedByAnother,
                _ => Change::None,
            };
        }
        let is_news = watched.right.is_some_and(|right| right != *generation)
            && watched.wrong.replace(*generation) != Some(*generation);
        if !is_news {
            return Change::None;
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
        Change::Overwritten { times }
    }

    /// How often each other field manager made right bundles wrong; the names of all beyond a few
    /// are `other`, since anybody who may write the object may call himself by any.
    pub fn overwrites(&self) -> &BTreeMap<String, u64> {
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
    use crate::rotation::tests::{at, configuration};

    fn of(generation: i64, others: &[&str]) -> Configuration {
        let others = others.iter().map(|&name| name.to_owned()).collect();
        Configuration { generation, others, ..configuration(&Bundle::default()) }
    }

    #[test]
    fn an_overwrite_is_counted_once_and_forgotten_after_a_while() {
        let mut contention = Contention::default();
        // What was never right was not overwritten.
        assert_eq!(contention.seen(&of(1, &[]), false, at(0)), Change::None);
        contention.written("hook", Some(2));
        assert_eq!(contention.seen(&of(2, &[]), true, at(0)), Change::None);
        let flux = of(3, &["flux"]);
        assert_eq!(contention.seen(&flux, false, at(0)), Change::Overwritten { times: 1 });
        assert_eq!(contention.seen(&flux, false, at(0)), Change::None);
        contention.written("hook", Some(4));
        let nobody = of(5, &[]);
        assert_eq!(contention.seen(&nobody, false, at(0)), Change::Overwritten { times: 2 });
        assert_eq!(contention.seen(&of(6, &[]), true, at(0)), Change::RepairedByAnother);
        assert_eq!(
            contention.seen(&of(7, &["flux"]), false, at(1)),
            Change::Overwritten { times: 1 }
        );
        let counts: Vec<_> =
            contention.overwrites().iter().map(|(n, c)| (n.as_str(), *c)).collect();
        assert_eq!(counts, [("flux", 2), ("unknown", 1)]);
    }

    #[test]
    fn a_bundle_that_is_wrong_because_more_is_wanted_was_not_overwritten() {
        let mut contention = Contention::default();
        contention.written("hook", Some(2));
        assert_eq!(contention.seen(&of(2, &["flux"]), false, at(0)), Change::None);
    }

    #[test]
    fn a_repair_by_another_is_noticed_though_it_was_undone_before_anybody_looked() {
        let mut contention = Contention::default();
        let at_hour = |hour| Configuration { published_at: Some(at(hour)), ..of(1, &[]) };
        // Who wrote what is found at the start is no matter.
        assert!(!contention.is_written_by_another(&at_hour(0)));
        assert!(!contention.is_written_by_another(&at_hour(0)));
        assert!(contention.is_written_by_another(&at_hour(1)));
        contention.written("hook", Some(2));
        assert!(!contention.is_written_by_another(&at_hour(2)));
        assert!(contention.is_written_by_another(&at_hour(3)));
        contention.written("hook", None);
        assert!(contention.is_written_by_another(&at_hour(4)));
        assert!(!contention.is_written_by_another(&of(1, &[])));
    }

    #[test]
    fn names_are_bounded() {
        let mut contention = Contention::default();
        contention.written("hook", Some(0));
        for generation in 1..100 {
            contention.seen(&of(generation, &[&format!("m{generation}")]), false, at(0));
        }
        assert_eq!(contention.overwrites().len(), MOST_NAMES + 1);
        assert_eq!(contention.overwrites()["other"], 99 - MOST_NAMES as u64);
    }
}
