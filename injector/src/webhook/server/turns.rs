//! Turns of computing, shared fairly between callers.
//!
//! As many computations run at a time as there are turns. If more wait, a caller with many of them
//! must not delay the others.
//!
//! API servers send the reviews of all users over few connections. The address alone does not
//! distinguish a user with expensive pods from other users; the namespace does. A caller that
//! connects to the port directly may write any namespace into its reviews, but has one address.
//! Sources therefore have turns in rotation, and within a source its namespaces.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::connection_slots::Source;

/// Origin of a review or a handshake.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::webhook) struct Caller {
    /// Source address of the client.
    pub(in crate::webhook) source: Source,
    /// Namespace of the request; empty while it is unknown.
    pub(in crate::webhook) namespace: String,
}

/// Turns for one kind of computing, and the callers that wait for one.
#[derive(Debug)]
pub struct Turns {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    free: usize,
    waiting: RoundRobin<Source, RoundRobin<String, VecDeque<oneshot::Sender<Turn>>>>,
}

impl Turns {
    /// Returns `count` turns at a time.
    pub fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State { free: count, ..State::default() }) })
    }

    /// Takes a free turn, if there is one.
    pub(in crate::webhook) fn take_free(self: &Arc<Self>) -> Option<Turn> {
        let mut state = self.state();
        state.free = state.free.checked_sub(1)?;
        Some(Turn(Some(Arc::clone(self))))
    }

    /// Waits for the caller's turn, which ends when the result is dropped.
    pub(in crate::webhook) async fn take(self: &Arc<Self>, caller: Caller) -> Turn {
        let turn = {
            let mut state = self.state();
            if let Some(free) = state.free.checked_sub(1) {
                state.free = free;
                return Turn(Some(Arc::clone(self)));
            }
            let (ready, turn) = oneshot::channel();
            state.waiting.queue(caller.source).queue(caller.namespace).push_back(ready);
            turn
        };
        match turn.await {
            Ok(turn) => turn,
            // A sender is dropped only with the queue, which `self` keeps.
            Err(_) => std::future::pending().await,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Turn of one caller.
#[derive(Debug)]
pub(in crate::webhook) struct Turn(Option<Arc<Turns>>);

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.0.take() else { return };
        let next = {
            let mut state = turns.state();
            let next = std::iter::from_fn(|| state.waiting.pop()).find(|next| !next.is_closed());
            state.free += usize::from(next.is_none());
            next
        };
        if let Some(next) = next {
            // If the caller leaves just now, `send` returns the turn, and dropping it passes it on.
            drop(next.send(Self(Some(turns))));
        }
    }
}

/// Queues served in rotation, one item each.
#[derive(Debug)]
struct RoundRobin<K, Q> {
    queues: BTreeMap<K, Q>,
    /// Keys of the queues, the next one first.
    rotation: VecDeque<K>,
}

/// Queue in some order.
trait Queue {
    type Item;
    fn pop(&mut self) -> Option<Self::Item>;
    fn is_empty(&self) -> bool;
}

impl<T> Queue for VecDeque<T> {
    type Item = T;

    fn pop(&mut self) -> Option<T> {
        self.pop_front()
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl<K, Q> Default for RoundRobin<K, Q> {
    fn default() -> Self {
        Self { queues: BTreeMap::new(), rotation: VecDeque::new() }
    }
}

impl<K: Clone + Ord, Q: Default> RoundRobin<K, Q> {
    /// Returns the queue of a key, to which the caller adds an item.
    fn queue(&mut self, key: K) -> &mut Q {
        if !self.queues.contains_key(&key) {
            self.rotation.push_back(key.clone());
        }
        self.queues.entry(key).or_default()
    }
}

impl<K: Clone + Ord, Q: Queue> Queue for RoundRobin<K, Q> {
    type Item = Q::Item;

    fn pop(&mut self) -> Option<Q::Item> {
        let key = self.rotation.pop_front()?;
        let queue = self.queues.get_mut(&key)?;
        let item = queue.pop();
        if queue.is_empty() {
            self.queues.remove(&key);
        } else {
            self.rotation.push_back(key);
        }
        item
    }

    fn is_empty(&self) -> bool {
        self.rotation.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use futures::FutureExt;
    use futures::future::BoxFuture;

    use super::*;

    fn caller(address: u8, namespace: &str) -> Caller {
        let source = Source::from(IpAddr::from([10, 0, 0, address]));
        Caller { source, namespace: namespace.to_owned() }
    }

    fn take(turns: &Arc<Turns>, address: u8, namespace: &str) -> BoxFuture<'static, Turn> {
        let caller = caller(address, namespace);
        let turns = Arc::clone(turns);
        let mut turn = async move { turns.take(caller).await }.boxed();
        assert!((&mut turn).now_or_never().is_none(), "the turn is taken");
        turn
    }

    /// Ends one turn after the other. Returns the order in which the others had theirs.
    fn order(first: Turn, mut waiting: Vec<(&str, BoxFuture<'static, Turn>)>) -> String {
        let mut order = Vec::new();
        let mut present = first;
        while !waiting.is_empty() {
            drop(present);
            let (index, turn) = waiting
                .iter_mut()
                .enumerate()
                .find_map(|(index, (_, turn))| Some((index, turn.now_or_never()?)))
                .expect("a turn was lost");
            present = turn;
            order.push(waiting.remove(index).0);
        }
        order.join(" ")
    }

    fn first(turns: &Arc<Turns>, address: u8, namespace: &str) -> Turn {
        turns.take(caller(address, namespace)).now_or_never().expect("no turn is taken")
    }

    #[test]
    fn namespaces_of_an_address_alternate() {
        let turns = Turns::new(1);
        let present = first(&turns, 1, "greedy");
        let waiting = vec![
            ("g1", take(&turns, 1, "greedy")),
            ("g2", take(&turns, 1, "greedy")),
            ("g3", take(&turns, 1, "greedy")),
            ("h1", take(&turns, 1, "honest")),
            ("h2", take(&turns, 1, "honest")),
        ];
        assert_eq!(order(present, waiting), "g1 h1 g2 h2 g3");
    }

    #[test]
    fn namespaces_of_an_address_share_its_turn() {
        let turns = Turns::new(1);
        let present = first(&turns, 1, "a");
        let waiting = vec![
            ("a", take(&turns, 1, "a")),
            ("b", take(&turns, 1, "b")),
            ("c", take(&turns, 1, "c")),
            ("honest", take(&turns, 2, "shop")),
            ("too", take(&turns, 2, "shop")),
        ];
        assert_eq!(order(present, waiting), "a honest b too c");
    }

    #[test]
    fn departed_caller_delays_no_other() {
        let turns = Turns::new(1);
        let present = first(&turns, 1, "a");
        drop(take(&turns, 1, "b"));
        let granted = take(&turns, 1, "c");
        let mut last = take(&turns, 1, "d");
        drop(present);
        // The caller `c` leaves between its turn and its next step.
        assert!((&mut last).now_or_never().is_none());
        drop(granted);
        assert!(last.now_or_never().is_some());
        assert!(turns.take_free().is_some());
    }
}
