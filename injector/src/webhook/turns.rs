//! Turns of reviews, shared fairly between callers.
//!
//! As many reviews are computed at a time as there are turns; where more wait, a caller with many
//! of them must not delay the others.
//!
//! API servers send the reviews of all users over few connections, so an address alone does not
//! tell a user who posts expensive pods from the others; the namespace does. A caller that reaches
//! the port by itself may write any namespace into its reviews, but has one address. So the next
//! turn goes to the address that has waited longest since its last turn, and within the address to
//! the namespace for which the same holds.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The origin of a review.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Caller {
    /// The address of the client.
    pub(super) address: IpAddr,
    /// The namespace of the request.
    pub(super) namespace: String,
}

/// The turns of one kind of reviews, and the callers that wait for one.
#[derive(Debug)]
pub struct Turns {
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    free: usize,
    /// In order of arrival.
    waiting: Vec<Waiting>,
    /// The number of turns so far.
    turns: u64,
    /// The last turn of each address, and of each of its namespaces, as long as one of them waits.
    last: HashMap<(IpAddr, Option<String>), u64>,
}

#[derive(Debug)]
struct Waiting {
    caller: Caller,
    ready: oneshot::Sender<Turn>,
}

impl Turns {
    /// So many turns at a time.
    pub fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { queue: Mutex::new(Queue { free: count, ..Queue::default() }) })
    }

    /// Waits for the caller's turn, which ends when the result is dropped.
    pub(super) async fn take(self: &Arc<Self>, caller: Caller) -> Turn {
        let turn = {
            let mut queue = self.queue();
            if queue.free > 0 {
                queue.free -= 1;
                return Turn(Some(Arc::clone(self)));
            }
            let (ready, turn) = oneshot::channel();
            queue.waiting.push(Waiting { caller, ready });
            turn
        };
        match turn.await {
            Ok(turn) => turn,
            // A sender is only dropped with the queue, which `self` keeps.
            Err(_) => std::future::pending().await,
        }
    }

    /// Gives a turn that has ended to the next caller that still waits.
    fn pass_on(self: &Arc<Self>) {
        let mut queue = self.queue();
        while let Some(next) = queue.next() {
            match next.send(Turn(Some(Arc::clone(self)))) {
                Ok(()) => return,
                // The caller has left. The queue is locked, so its turn must not be passed on.
                Err(unwanted) => unwanted.forget(),
            }
        }
        queue.free += 1;
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Takes out the caller whose turn it is.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let last =
            |caller: &Caller, namespace| self.last.get(&(caller.address, namespace)).copied();
        let since =
            |caller: &Caller| (last(caller, None), last(caller, Some(caller.namespace.clone())));
        let callers = self.waiting.iter().map(|waiting| since(&waiting.caller)).enumerate();
        let (index, _) = callers.min_by_key(|(_, since)| *since)?;
        let Waiting { caller, ready } = self.waiting.remove(index);
        self.turns += 1;
        self.last.insert((caller.address, None), self.turns);
        self.last.insert((caller.address, Some(caller.namespace)), self.turns);
        let waiting = &self.waiting;
        self.last.retain(|(address, namespace), _| {
            waiting.iter().any(|Waiting { caller, .. }| {
                caller.address == *address
                    && namespace.as_ref().is_none_or(|namespace| caller.namespace == *namespace)
            })
        });
        Some(ready)
    }
}

/// The turn of one review.
#[derive(Debug)]
pub(super) struct Turn(Option<Arc<Turns>>);

impl Turn {
    fn forget(mut self) {
        self.0 = None;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.0.take() {
            turns.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures::FutureExt;
    use futures::future::BoxFuture;

    use super::*;

    fn take(turns: &Arc<Turns>, address: u8, namespace: &str) -> BoxFuture<'static, Turn> {
        let caller = Caller {
            address: Ipv4Addr::new(10, 0, 0, address).into(),
            namespace: namespace.to_owned(),
        };
        let turns = Arc::clone(turns);
        let mut turn = async move { turns.take(caller).await }.boxed();
        assert!((&mut turn).now_or_never().is_none(), "the turn is taken");
        turn
    }

    /// Ends one turn after the other, and tells the order in which the others had theirs.
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
        let address = Ipv4Addr::new(10, 0, 0, address).into();
        let caller = Caller { address, namespace: namespace.to_owned() };
        turns.take(caller).now_or_never().expect("no turn is taken")
    }

    #[test]
    fn namespaces_of_one_address_alternate() {
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
    fn many_namespaces_of_one_address_take_one_share() {
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
    fn a_caller_that_left_keeps_nobody_waiting() {
        let turns = Turns::new(1);
        let present = first(&turns, 1, "a");
        drop(take(&turns, 1, "b"));
        let mut granted = take(&turns, 1, "c");
        let mut last = take(&turns, 1, "d");
        drop(present);
        // It left between its turn and its next step.
        assert!((&mut last).now_or_never().is_none());
        assert!((&mut granted).now_or_never().is_some());
        drop(granted);
        assert!(last.now_or_never().is_some());
    }
}
