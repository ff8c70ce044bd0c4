//! Connection slots of a listener, shared among callers by their source address.
//!
//! Every connection is accepted at once. When all slots are taken, a new connection displaces one
//! that waits for its client, so that idle connections keep no caller out.
//!
//! Connections without a response so far are displaced first, as long as they hold more than a
//! quarter of the slots. After them come the connections that have had a response. Within either
//! group, the source address with the most connections loses the one with the oldest step. Steps
//! are: accepted, handshake, head, response. Bytes alone are no step. A connection whose request
//! has arrived completely is not displaced between its turn and its response.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Owner of a connection: an IPv4 address, or an IPv6 /64 network, which belongs to one host.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(in crate::webhook) struct Source(IpAddr);

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
            address @ IpAddr::V4(_) => address,
        })
    }
}

/// Returns the largest number of displaced connections that may still be closing, for a listener
/// with `capacity` slots.
pub(in crate::webhook) const fn closing(capacity: usize) -> usize {
    let part = capacity.div_ceil(4);
    if part < MOST_CLOSING { part } else { MOST_CLOSING }
}

type Id = u64;
/// Number of a step; the lowest is the oldest.
type Turn = u64;

/// State of all connections of a listener.
#[derive(Debug)]
struct Table {
    capacity: usize,
    connections: HashMap<Id, Connection>,
    /// Number of displaced connections among `connections`.
    closing: usize,
    unanswered: Waiting,
    answered: Waiting,
    last_id: Id,
    last_turn: Turn,
}

#[derive(Debug)]
struct Connection {
    source: Source,
    state: State,
    was_answered: bool,
    displaced: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// The client has to send or read the next bytes.
    Waiting(Turn),
    /// The server answers a request that has arrived completely.
    Working,
    /// Displaced, and not closed yet.
    Displaced { is_working: bool },
}

/// Result of a request for a slot.
#[derive(Debug, Eq, PartialEq)]
enum Admission {
    Admitted {
        id: Id,
        displaced: Option<Id>,
    },
    /// No connection can be displaced now.
    Full,
}

impl Table {
    fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            connections: HashMap::new(),
            closing: 0,
            unanswered: Waiting::default(),
            answered: Waiting::default(),
            last_id: 0,
            last_turn: 0,
        }
    }

    /// Admits a connection. Displaces another one if necessary.
    fn admit(&mut self, source: Source, notify: Arc<Notify>) -> Admission {
        let mut displaced = None;
        if self.connections.len() - self.closing >= self.capacity {
            displaced = self.displace();
            if displaced.is_none() {
                return Admission::Full;
            }
        }
        self.last_id += 1;
        let id = self.last_id;
        let connection =
            Connection { source, state: State::Working, was_answered: false, displaced: notify };
        self.connections.insert(id, connection);
        self.step(id);
        Admission::Admitted { id, displaced }
    }

    fn displace(&mut self) -> Option<Id> {
        // Displaced connections occupy file descriptors until they are closed.
        if self.closing >= closing(self.capacity) {
            return None;
        }
        let is_trial_full = self.unanswered.len() > self.capacity / TRIAL;
        let pool = if is_trial_full || self.answered.len() == 0 {
            &mut self.unanswered
        } else {
            &mut self.answered
        };
        let id = pool.displace(self.capacity.div_ceil(SHARES))?;
        let connection = self.connections.get_mut(&id)?;
        connection.state = State::Displaced { is_working: false };
        connection.displaced.notify_one();
        self.closing += 1;
        Some(id)
    }

    /// Records a step of the client, whose next bytes are awaited.
    fn step(&mut self, id: Id) {
        self.leave(id);
        self.last_turn += 1;
        let turn = self.last_turn;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match &mut connection.state {
            State::Displaced { is_working } => *is_working = false,
            state => {
                *state = State::Waiting(turn);
                let pool =
                    if connection.was_answered { &mut self.answered } else { &mut self.unanswered };
                pool.join(turn, id, connection.source);
            }
        }
    }

    /// Records that a request has arrived completely.
    fn work(&mut self, id: Id) {
        self.leave(id);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match &mut connection.state {
            State::Displaced { is_working } => *is_working = true,
            state => *state = State::Working,
        }
    }

    /// Records that the client has taken a response.
    fn answer(&mut self, id: Id) {
        self.leave(id);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.was_answered = true;
        }
        self.step(id);
    }

    fn close(&mut self, id: Id) {
        self.leave(id);
        let closed = self.connections.remove(&id);
        if closed.is_some_and(|closed| matches!(closed.state, State::Displaced { .. })) {
            self.closing -= 1;
        }
    }

    /// Removes a connection from the order of displacement.
    fn leave(&mut self, id: Id) {
        let Some(connection) = self.connections.get(&id) else { return };
        if let State::Waiting(turn) = connection.state {
            let pool =
                if connection.was_answered { &mut self.answered } else { &mut self.unanswered };
            pool.leave(turn, connection.source);
        }
    }
}

/// Connections that wait for their clients, by age and by source.
#[derive(Debug, Default)]
struct Waiting {
    by_age: BTreeMap<Turn, (Id, Source)>,
    by_source: BTreeSet<(Source, Turn)>,
    counts: HashMap<Source, usize>,
    by_count: BTreeSet<(usize, Source)>,
}

impl Waiting {
    fn len(&self) -> usize {
        self.by_age.len()
    }

    fn join(&mut self, turn: Turn, id: Id, source: Source) {
        self.by_age.insert(turn, (id, source));
        self.by_source.insert((source, turn));
        self.count(source, |count| count + 1);
    }

    fn leave(&mut self, turn: Turn, source: Source) {
        if self.by_age.remove(&turn).is_some() {
            self.by_source.remove(&(source, turn));
            self.count(source, |count| count.saturating_sub(1));
        }
    }

    /// Removes and returns the connection to displace: the oldest one of the source with the most
    /// connections, or the oldest of all if no source has more than `share`.
    fn displace(&mut self, share: usize) -> Option<Id> {
        let largest = self.by_count.last().filter(|(count, _)| *count > share);
        let of_largest = largest.and_then(|(_, source)| {
            self.by_source.range((*source, Turn::MIN)..).next().map(|(_, turn)| *turn)
        });
        let turn = of_largest.or_else(|| Some(*self.by_age.first_key_value()?.0))?;
        let (id, source) = *self.by_age.get(&turn)?;
        self.leave(turn, source);
        Some(id)
    }

    fn count(&mut self, source: Source, change: impl Fn(usize) -> usize) {
        let before = self.counts.remove(&source).unwrap_or_default();
        self.by_count.remove(&(before, source));
        let count = change(before);
        if count > 0 {
            self.counts.insert(source, count);
            self.by_count.insert((count, source));
        }
    }
}

/// Slots of one listener.
#[derive(Debug)]
pub(in crate::webhook) struct Slots {
    table: Mutex<Table>,
    /// Notified when a connection is closed, or can be displaced from now on.
    changed: Notify,
    /// Notified when the last connection is closed.
    emptied: Notify,
}

impl Slots {
    pub(in crate::webhook) fn new(capacity: usize) -> Arc<Self> {
        let table = Mutex::new(Table::new(capacity));
        Arc::new(Self { table, changed: Notify::new(), emptied: Notify::new() })
    }

    /// Takes a slot for a connection from `source`, and calls `displaced` if it displaces another
    /// connection. Waits only while no connection can be displaced.
    ///
    /// At most one caller may wait at a time.
    pub(in crate::webhook) async fn take(
        self: &Arc<Self>,
        source: Source,
        displaced: impl Fn(),
    ) -> Slot {
        loop {
            let notify = Arc::<Notify>::default();
            let admission = self.table().admit(source, Arc::clone(&notify));
            if let Admission::Admitted { id, displaced: other } = admission {
                if other.is_some() {
                    displaced();
                }
                return Slot { slots: Arc::clone(self), id, displaced: notify };
            }
            self.changed.notified().await;
        }
    }

    /// Completes when no slot is taken.
    pub(in crate::webhook) async fn all_free(&self) {
        while !self.table().connections.is_empty() {
            self.emptied.notified().await;
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Slot of a connection, released on drop.
#[derive(Debug)]
pub(in crate::webhook) struct Slot {
    slots: Arc<Slots>,
    id: Id,
    displaced: Arc<Notify>,
}

impl Slot {
    /// Records a step of the client: a handshake or a head is complete.
    pub(in crate::webhook) fn step(&self) {
        self.slots.table().step(self.id);
        self.slots.changed.notify_one();
    }

    /// Records that a request has arrived completely.
    pub(in crate::webhook) fn work(&self) {
        self.slots.table().work(self.id);
    }

    /// Records that the client has taken a response.
    pub(in crate::webhook) fn answer(&self) {
        self.slots.table().answer(self.id);
        self.slots.changed.notify_one();
    }

    /// True if a request has arrived completely and is not answered yet.
    pub(in crate::webhook) fn is_working(&self) -> bool {
        let table = self.slots.table();
        table.connections.get(&self.id).is_some_and(|connection| {
            matches!(connection.state, State::Working | State::Displaced { is_working: true })
        })
    }

    /// True if the client has had a response.
    pub(in crate::webhook) fn was_answered(&self) -> bool {
        let table = self.slots.table();
        table.connections.get(&self.id).is_some_and(|connection| connection.was_answered)
    }

    /// Completes when another connection needs the slot.
    pub(in crate::webhook) async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let is_empty = {
            let mut table = self.slots.table();
            table.close(self.id);
            table.connections.is_empty()
        };
        self.slots.changed.notify_one();
        if is_empty {
            self.slots.emptied.notify_one();
        }
    }
}

/// Divisor of the capacity: so many slots are for connections without a response, even if all
/// others have had one. Otherwise a caller that fills all slots with answered connections would let
/// no other handshake finish.
const TRIAL: usize = 4;
/// Divisor of the capacity: sources with no more connections than this share are treated alike.
const SHARES: usize = 64;
/// Largest number of displaced connections that are not closed yet, for any capacity.
const MOST_CLOSING: usize = 64;
