//! What a state consists of.

use std::collections::HashMap;
use std::fmt::Debug;

use jiff::{SignedDuration, Timestamp};

use webhook_certs::rotation::Action;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct ClusterState {
    pub(super) hour: u8,
    pub(super) secret: Id,
    pub(super) hook: Hook,
    /// What each API server knows.
    pub(super) known: [Hook; 2],
    pub(super) replicas: [Replica; 2],
    pub(super) reverts: u8,
    pub(super) revocations: u8,
    /// A CA signs that was revoked before it did.
    pub(super) signs_revoked: bool,
}

/// The webhook configuration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Hook {
    pub(super) bundle: Id,
    pub(super) generation: u8,
    /// Somebody wrote it without the CA that signed at that time.
    pub(super) is_broken: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Replica {
    pub(super) memory: Id,
    pub(super) work: Id,
}

#[derive(Clone, Debug)]
pub(super) enum Work {
    Nothing,
    HasRead { secret: Id, hour: u8 },
    HasDecided { secret: Id, hour: u8, actions: Vec<Action> },
}

impl ClusterState {
    /// Neither replicas nor API servers have a name that matters.
    pub(super) fn sorted(mut self) -> Self {
        self.known.sort();
        self.replicas.sort();
        self
    }
}

/// Values that states refer to by number; the same value always has the same one.
pub(super) struct Pool<T> {
    pub(super) values: Vec<T>,
    /// By what `Debug` writes, since not all of them can be hashed.
    pub(super) numbers: HashMap<String, Id>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Id(u32);

impl<T: Debug> Pool<T> {
    pub(super) fn add(&mut self, value: T) -> Id {
        let number = Id(u32::try_from(self.values.len()).expect("values are few"));
        let found = *self.numbers.entry(format!("{value:?}")).or_insert(number);
        if found == number {
            self.values.push(value);
        }
        found
    }

    pub(super) fn get(&self, id: Id) -> &T {
        &self.values[id.0 as usize]
    }
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { values: Vec::new(), numbers: HashMap::new() }
    }
}

pub(super) fn at(hour: impl Into<i64>) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 50 + hour.into())
}
