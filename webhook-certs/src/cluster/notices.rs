//! What is told when it is other than it was: of others' writes, the clock, foreign CAs, the probe.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

use super::journal::Journal;
use super::objects::{Objects, configuration_path};
use super::prober::{Probed, is_like};
use super::writes::Writes;
use crate::clock;
use crate::contention::{Change, Contention};
use crate::news::News;
use crate::options::Options;
use crate::probe::ProbeCause;
use crate::rotation::{BundlePatch, Observation, Revocation};
use crate::status::Probe;

/// What was told of, and the Events that are still to be written.
pub(super) struct Notices<'a> {
    pub(super) journal: Journal<'a>,
    pub(super) contention: Contention,
    probes: watch::Receiver<Probed>,
    probed: Probed,
    is_clock_wrong: bool,
    foreign: BTreeSet<String>,
    pub(super) revocations: Vec<Revocation>,
}

impl<'a> Notices<'a> {
    pub(super) fn new(
        objects: &'a Objects,
        options: &'a Options,
        probes: watch::Receiver<Probed>,
    ) -> Self {
        Self {
            journal: Journal::new(objects, options),
            contention: Contention::default(),
            probes,
            probed: None,
            is_clock_wrong: false,
            foreign: BTreeSet::new(),
            revocations: Vec::new(),
        }
    }

    /// The repairs of other replicas count as ours, and whoever keeps overwriting is named.
    pub(super) fn of_others(
        &mut self,
        observation: &Observation,
        patches: &[&BundlePatch],
        writes: &mut Writes<'_>,
    ) {
        let now = Timestamp::now();
        for configuration in &observation.configurations {
            let name = &configuration.name;
            let is_right = !patches.iter().any(|patch| patch.name == *name);
            let is_others = self.contention.is_written_by_another(configuration);
            let change = self.contention.seen(configuration, is_right, now);
            if is_others || change == Change::RepairedByAnother {
                writes.count_other(&configuration_path(name));
            }
            match change {
                Change::None | Change::RepairedByAnother => {}
                Change::Overwritten { times } => {
                    let managers = &configuration.others;
                    tracing::warn!(
                        configuration = name,
                        managers = managers.join(", "),
                        times,
                        "caBundle was overwritten by somebody else"
                    );
                    if times >= CONTENDED {
                        self.journal.note([News::contended(name, managers)]);
                    }
                }
            }
        }
    }

    /// CAs in bundles that are not of this installation.
    pub(super) fn of_foreign(&mut self, names: BTreeSet<String>) {
        let before = std::mem::replace(&mut self.foreign, names);
        let new: Vec<_> = self.foreign.difference(&before).cloned().collect();
        for name in new {
            self.tell(News::foreign(&name));
        }
    }

    /// CAs that are to be trusted no longer, at each step of that.
    pub(super) fn of_revocations(&mut self, pending: Vec<Revocation>) {
        let before = std::mem::replace(&mut self.revocations, pending);
        let is_new = |revocation: &&Revocation| {
            !before.iter().any(|known| {
                known.authority == revocation.authority && known.next_step == revocation.next_step
            })
        };
        let news: Vec<_> = self.revocations.iter().filter(is_new).map(News::revocation).collect();
        for news in news {
            self.tell(news);
        }
    }

    /// A clock that went wrong, and one that is right again.
    pub(super) fn of_clock(&mut self, ahead: SignedDuration) {
        if clock::is_notable(ahead) == self.is_clock_wrong {
            return;
        }
        self.is_clock_wrong = !self.is_clock_wrong;
        if self.is_clock_wrong {
            self.tell(News::clock_skew(ahead));
        } else {
            tracing::info!("this machine's clock agrees with the API server's again");
        }
    }

    /// How the latest probe ended.
    pub(super) fn probed(&self) -> Option<Result<(), ProbeCause>> {
        let probed = self.probes.borrow();
        probed.as_ref().map(|outcome| outcome.as_ref().copied().map_err(|failure| failure.cause))
    }

    /// A probe that fails for another reason than before, or no longer.
    pub(super) fn of_probe(&mut self) {
        let probed = self.probes.borrow_and_update().clone();
        match &probed {
            _ if is_like(&probed, &self.probed) => (),
            Some(Err(failure)) => self.tell(News::probe_failed(failure)),
            // The first one that succeeds is no news.
            Some(Ok(())) if self.probed.is_none() => (),
            _ => self.tell(News::probe_succeeded()),
        }
        self.probed = probed;
    }

    /// The latest probe, for the status.
    pub(super) fn probe(&self) -> Option<Probe> {
        let probed = self.probed.as_ref()?.as_ref();
        Some(Probe {
            cause: probed.err().map(|failure| failure.cause.word()),
            message: probed.err().map(ToString::to_string).unwrap_or_default(),
        })
    }

    fn tell(&mut self, news: News) {
        if news.is_warning {
            tracing::warn!("{}", news.note);
        } else {
            tracing::info!("{}", news.note);
        }
        self.journal.note([news]);
    }
}

/// The third overwrite within a while is no accident.
const CONTENDED: usize = 3;
