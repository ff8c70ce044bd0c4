//! Living epochs.

use std::collections::BTreeMap;

use super::Revision;

/// Processes of Envoy by restart epoch: at most two.
#[derive(Clone, Debug, Default)]
pub(super) struct Epochs(BTreeMap<u32, Epoch>);

/// A process of Envoy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch {
    pub(super) revision: Revision,
    pub(super) stage: Stage,
}

/// Stage in the life of an epoch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    /// Not yet live.
    Starting,
    /// Was not live in time and is being killed.
    Rejected,
    /// Has the listeners.
    Serving,
    /// Drains after a child took over.
    Retiring,
}

impl Epochs {
    /// Adds an epoch: the highest living one plus 1, as Envoy requires.
    pub(super) fn start(&mut self, revision: Revision) -> u32 {
        let epoch = self.0.last_key_value().map_or(0, |(last, _)| last.wrapping_add(1));
        self.0.insert(epoch, Epoch { revision, stage: Stage::Starting });
        epoch
    }

    /// Makes a starting epoch the serving one. Returns its parent.
    pub(super) fn hand_over(&mut self, epoch: u32) -> Option<u32> {
        let mut parent = None;
        for (number, living) in &mut self.0 {
            if *number == epoch {
                living.stage = Stage::Serving;
            } else if living.stage == Stage::Serving {
                living.stage = Stage::Retiring;
                parent = Some(*number);
            }
        }
        parent
    }

    pub(super) fn reject(&mut self, epoch: u32) {
        if let Some(living) = self.0.get_mut(&epoch) {
            living.stage = Stage::Rejected;
        }
    }

    pub(super) fn remove(&mut self, epoch: u32) -> Option<Epoch> {
        self.0.remove(&epoch)
    }

    pub(super) fn serving(&self) -> Option<&Epoch> {
        self.0.values().find(|epoch| epoch.stage == Stage::Serving)
    }

    /// Returns the epoch that starts, and its revision.
    pub(super) fn starting(&self) -> Option<(u32, Revision)> {
        let mut starting = self.0.iter().filter(|(_, epoch)| epoch.stage == Stage::Starting);
        starting.next().map(|(number, epoch)| (*number, epoch.revision))
    }

    pub(super) fn is_starting(&self, epoch: u32) -> bool {
        self.0.get(&epoch).is_some_and(|epoch| epoch.stage == Stage::Starting)
    }

    /// True while a parent drains.
    pub(super) fn is_retiring(&self) -> bool {
        self.0.values().any(|epoch| epoch.stage == Stage::Retiring)
    }

    /// True while an epoch that was not live is being killed.
    pub(super) fn is_rejecting(&self) -> bool {
        self.0.values().any(|epoch| epoch.stage == Stage::Rejected)
    }

    /// True while an epoch starts or ends.
    pub(super) fn in_transition(&self) -> bool {
        self.0.values().any(|epoch| epoch.stage != Stage::Serving)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, Stage)> {
        self.0.iter().map(|(number, epoch)| (*number, epoch.stage))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
