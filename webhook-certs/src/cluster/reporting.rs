//! Reports of changes: overwritten bundles, clock skew, foreign CAs, revocations, the trust probe.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

use super::api::{ClusterApi, configuration_path};
use super::contention::{BundleChange, Contention};
use super::event_recorder::EventRecorder;
use super::events::EventContent;
use super::prober::{LatestProbe, is_like};
use super::writes::Writes;
use crate::options::Options;
use crate::rotation::ProbeCause;
use crate::rotation::clock_skew;
use crate::rotation::{BundlePatch, Observation, Revocation};
use crate::status::{Probe, Status};

/// Values that were reported, and the recorder of Events.
pub(super) struct Reporter<'a> {
    pub(super) recorder: EventRecorder<'a>,
    pub(super) contention: Contention,
    probes: watch::Receiver<LatestProbe>,
    probed: LatestProbe,
    is_clock_wrong: bool,
    foreign: BTreeSet<String>,
    pub(super) revocations: Vec<Revocation>,
}

impl<'a> Reporter<'a> {
    pub(super) fn new(
        api: &'a ClusterApi,
        options: &'a Options,
        probes: watch::Receiver<LatestProbe>,
    ) -> Self {
        Self {
            recorder: EventRecorder::new(api, options),
            contention: Contention::default(),
            probes,
            probed: None,
            is_clock_wrong: false,
            foreign: BTreeSet::new(),
            revocations: Vec::new(),
        }
    }

    /// Reports overwritten bundles. Repairs of other replicas count against our write budget.
    pub(super) fn report_overwrites(
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
            let change = self.contention.observe(configuration, is_right, now);
            if is_others || change == BundleChange::RepairedByAnother {
                writes.count_other(&configuration_path(name));
            }
            match change {
                BundleChange::None | BundleChange::RepairedByAnother => {}
                BundleChange::Overwritten { times } => {
                    let managers = &configuration.others;
                    tracing::warn!(
                        configuration = name,
                        managers = managers.join(", "),
                        times,
                        "caBundle was overwritten by another writer"
                    );
                    if times >= CONTENDED {
                        self.recorder.record([EventContent::contended(name, managers)]);
                    }
                }
            }
        }
    }

    /// Reports new foreign CAs in bundles.
    pub(super) fn report_foreign_cas(&mut self, names: BTreeSet<String>) {
        let before = std::mem::replace(&mut self.foreign, names);
        let new: Vec<_> = self.foreign.difference(&before).cloned().collect();
        for name in new {
            self.report(EventContent::foreign(&name));
        }
    }

    /// Reports revocations at each of their steps.
    pub(super) fn report_revocations(&mut self, pending: Vec<Revocation>) {
        let before = std::mem::replace(&mut self.revocations, pending);
        let is_new = |revocation: &&Revocation| {
            !before.iter().any(|known| {
                known.authority == revocation.authority && known.next_step == revocation.next_step
            })
        };
        let events: Vec<_> =
            self.revocations.iter().filter(is_new).map(EventContent::revocation).collect();
        for event in events {
            self.report(event);
        }
    }

    /// Reports a wrong clock, and a clock that is correct again.
    pub(super) fn report_clock_skew(&mut self, ahead: SignedDuration) {
        if clock_skew::is_notable(ahead) == self.is_clock_wrong {
            return;
        }
        self.is_clock_wrong = !self.is_clock_wrong;
        if self.is_clock_wrong {
            self.report(EventContent::clock_skew(ahead));
        } else {
            tracing::info!("this machine's clock agrees with the API server's again");
        }
    }

    /// Cause of the latest probe's failure.
    pub(super) fn probed(&self) -> Option<Result<(), ProbeCause>> {
        let probed = self.probes.borrow();
        probed.as_ref().map(|outcome| outcome.as_ref().copied().map_err(|failure| failure.cause))
    }

    /// Reports a probe that fails for a new cause, or succeeds again.
    pub(super) fn report_probe(&mut self) {
        let probed = self.probes.borrow_and_update().clone();
        match &probed {
            _ if is_like(&probed, &self.probed) => (),
            Some(Err(failure)) => self.report(EventContent::probe_failed(failure)),
            // The first success is not reported.
            Some(Ok(())) if self.probed.is_none() => (),
            _ => self.report(EventContent::probe_succeeded()),
        }
        self.probed = probed;
    }

    /// Latest probe, for the status.
    fn probe(&self) -> Option<Probe> {
        let probed = self.probed.as_ref()?.as_ref();
        Some(Probe {
            cause: probed.err().map(|failure| failure.cause.word()),
            message: probed.err().map(ToString::to_string).unwrap_or_default(),
        })
    }

    /// Sets the parts of the status that do not depend on the signer.
    pub(super) fn fill_status(
        &self,
        status: &mut Status,
        observation: &Observation,
        writes: &Writes<'_>,
        clock_ahead: Option<SignedDuration>,
    ) {
        status.entries = observation.entries().count();
        status.denied = writes.denied();
        status.clock_ahead = clock_ahead;
        status.overwrites.clone_from(self.contention.overwrites());
        status.probe = self.probe();
    }

    fn report(&mut self, event: EventContent) {
        if event.is_warning {
            tracing::warn!("{}", event.note);
        } else {
            tracing::info!("{}", event.note);
        }
        self.recorder.record([event]);
    }
}

/// Number of overwrites within [`CONTENTION`](super::events::CONTENTION) from which on they are
/// reported as contention.
const CONTENDED: usize = 3;
