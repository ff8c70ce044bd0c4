//! State of the modelled cluster.

use std::collections::HashMap;
use std::fmt::Debug;

use jiff::{SignedDuration, Timestamp};

use webhook_certs::rotation::Action;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct ClusterState {
    pub(super) hour: u8,
    pub(super) secret: Id,
    pub(super) hook: Hook,
    /// Configuration that each API server knows.
    pub(super) known: [Hook; 2],
    pub(super) replicas: [Replica; 2],
    pub(super) reverts: u8,
    pub(super) revocations: u8,
    /// True if a CA began to sign after its revocation.
    pub(super) signs_revoked: bool,
}

/// Webhook configuration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Hook {
    pub(super) bundle: Id,
    pub(super) generation: u8,
    /// True if it was written without the CA that signed at that time.
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
    /// Sorts replicas and API servers, whose order does not matter.
    pub(super) fn sorted(mut self) -> Self {
        self.known.sort();
        self.replicas.sort();
        self
    }
}

/// Values that states refer to by number; equal values have the same number.
pub(super) struct Pool<T> {
    pub(super) values: Vec<T>,
    /// Numbers by `Debug` output, since not all values can be hashed.
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
