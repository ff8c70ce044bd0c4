//! Limits of open connections, in all and per client.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use crate::passthrough::is_passthrough;

/// Open connections of a server. At a limit, a new connection takes the place of the connection
/// that has been idle the longest, so that a few clients cannot keep others out.
#[derive(Debug)]
pub struct Connections {
    limits: ConnectionLimits,
    open: Mutex<Open>,
    /// Notified when a slot may have become available.
    available: Notify,
}

/// Limits of open connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Limit of all clients.
    pub total: usize,
    /// Limit of one client. The proxy's own address, from which it passes on requests of many
    /// clients, has the limit of all.
    pub client: usize,
}

/// An open connection, counted until the value is dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    connections: Arc<Connections>,
    id: u64,
}

/// Request in progress, until the value is dropped. Its connection is not idle.
#[derive(Debug)]
pub struct RequestInProgress {
    connections: Arc<Connections>,
    id: u64,
}

/// Resolves when the connection has to close in favour of another one.
pub type Evicted = oneshot::Receiver<Infallible>;

#[derive(Debug, Default)]
struct Open {
    /// Number of events so far: the order of connections and of idle times.
    events: u64,
    connections: BTreeMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    client: IpAddr,
    requests: usize,
    /// Event that started the idle time.
    idle_since: u64,
    /// Evicts the connection when it is dropped.
    _evict: oneshot::Sender<Infallible>,
}

impl Connections {
    /// Returns the connections of a server that has none yet.
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        let (open, available) = (Mutex::default(), Notify::new());
        Arc::new(Self { limits, open, available })
    }

    /// Counts a connection of the client. It takes the place of an idle one at a limit; `None` if
    /// none is idle.
    pub fn open(self: &Arc<Self>, client: IpAddr) -> Option<(ConnectionSlot, Evicted)> {
        self.open_with(client, |_| None)
    }

    /// Like [`Connections::open`], but if all clients together are at the limit and none is idle,
    /// the oldest connection of the client with the most closes, unless this client has as many. So
    /// a client without connections is always served.
    pub fn open_or_preempt(self: &Arc<Self>, client: IpAddr) -> Option<(ConnectionSlot, Evicted)> {
        self.open_with(client, |open| open.preempt(client))
    }

    fn open_with(
        self: &Arc<Self>,
        client: IpAddr,
        preempt: impl FnOnce(&mut Open) -> Option<()>,
    ) -> Option<(ConnectionSlot, Evicted)> {
        let mut open = self.lock();
        let limit = if is_passthrough(client) { self.limits.total } else { self.limits.client };
        if open.count(client) >= limit {
            open.evict(|connection| connection.client == client)?;
        } else if open.connections.len() >= self.limits.total {
            open.evict(|_| true).or_else(|| preempt(&mut open))?;
        }
        let (evict, evicted) = oneshot::channel();
        let id = open.next_event();
        let connection = Connection { client, requests: 0, idle_since: id, _evict: evict };
        open.connections.insert(id, connection);
        Some((ConnectionSlot { connections: Arc::clone(self), id }, evicted))
    }

    /// Counts a connection of the client, as soon as the limits permit.
    pub async fn wait_to_open(self: &Arc<Self>, client: IpAddr) -> (ConnectionSlot, Evicted) {
        loop {
            if let Some(opened) = self.open(client) {
                return opened;
            }
            self.available.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn next_event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    fn count(&self, client: IpAddr) -> usize {
        self.connections.values().filter(|connection| connection.client == client).count()
    }

    /// Removes the oldest connection of the client with the most, if that has more than this one.
    fn preempt(&mut self, client: IpAddr) -> Option<()> {
        let mut counts = BTreeMap::<IpAddr, usize>::new();
        for connection in self.connections.values() {
            *counts.entry(connection.client).or_default() += 1;
        }
        let own = counts.get(&client).copied().unwrap_or_default();
        let most = counts.values().copied().max().filter(|most| *most > own)?;
        let mut oldest = self.connections.iter();
        let (&id, _) = oldest.find(|(_, connection)| counts[&connection.client] == most)?;
        self.connections.remove(&id).map(drop)
    }

    /// Removes the longest idle of these connections.
    fn evict(&mut self, candidate: impl Fn(&Connection) -> bool) -> Option<()> {
        let idle = self.connections.iter().filter(|(_, connection)| connection.requests == 0);
        let candidates = idle.filter(|(_, connection)| candidate(connection));
        let (&id, _) = candidates.min_by_key(|(_, connection)| connection.idle_since)?;
        self.connections.remove(&id).map(drop)
    }
}

impl ConnectionSlot {
    /// Keeps the connection from being closed as idle.
    pub fn start_request(&self) -> RequestInProgress {
        if let Some(connection) = self.connections.lock().connections.get_mut(&self.id) {
            connection.requests += 1;
        }
        RequestInProgress { connections: Arc::clone(&self.connections), id: self.id }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.lock().connections.remove(&self.id);
        self.connections.available.notify_one();
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        let event = open.next_event();
        if let Some(connection) = open.connections.get_mut(&self.id) {
            connection.requests = connection.requests.saturating_sub(1);
            connection.idle_since = event;
        }
        drop(open);
        self.connections.available.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    fn is_evicted(evicted: &mut Evicted) -> bool {
        evicted.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn new_client_takes_the_place_of_the_longest_idle() {
        let connections = Connections::new(ConnectionLimits { total: 4, client: 2 });
        let mut opened: Vec<_> =
            [1, 1, 2, 2].map(|number| connections.open(client(number)).unwrap()).into();
        // The first has become idle last, and the second is busy.
        drop(opened[0].0.start_request());
        let _busy = opened[1].0.start_request();
        let _kubelet = connections.open(client(9)).unwrap();
        let evicted = opened.iter_mut().map(|(_, evicted)| is_evicted(evicted));
        assert_eq!(evicted.collect::<Vec<_>>(), [false, false, true, false]);
        assert_eq!(connections.lock().connections.len(), 4);
    }

    #[test]
    fn client_at_its_limit_closes_its_own_connection() {
        let connections = Connections::new(ConnectionLimits { total: 4, client: 2 });
        let (_other, mut other) = connections.open(client(1)).unwrap();
        let (_first, mut first) = connections.open(client(2)).unwrap();
        let (_second, mut second) = connections.open(client(2)).unwrap();
        let _third = connections.open(client(2)).unwrap();
        assert!(is_evicted(&mut first));
        assert!(!is_evicted(&mut second) && !is_evicted(&mut other));
    }

    #[test]
    fn busy_connections_are_never_closed() {
        let connections = Connections::new(ConnectionLimits { total: 2, client: 2 });
        let (first, _first) = connections.open(client(1)).unwrap();
        let (second, _second) = connections.open(client(2)).unwrap();
        let requests = [first.start_request(), second.start_request(), second.start_request()];
        assert!(connections.open(client(3)).is_none());
        drop(requests);
        assert!(connections.open(client(3)).is_some());
        drop((first, second));
        assert!(connections.lock().connections.is_empty());
    }

    #[test]
    fn client_with_the_most_requests_makes_room_for_others() {
        let connections = Connections::new(ConnectionLimits { total: 5, client: 3 });
        let mut opened: Vec<_> =
            [1, 2, 2, 3, 3].map(|number| connections.open(client(number)).unwrap()).into();
        let _requests: Vec<_> = opened.iter().map(|(slot, _)| slot.start_request()).collect();
        assert!(connections.open(client(9)).is_none());
        let (kubelet, _kubelet) = connections.open_or_preempt(client(9)).unwrap();
        let _request = kubelet.start_request();
        // The first of the two clients with two connections, then the other one.
        let (second, _second) = connections.open_or_preempt(client(9)).unwrap();
        let evicted = opened.iter_mut().map(|(_, evicted)| is_evicted(evicted));
        assert_eq!(evicted.collect::<Vec<_>>(), [false, true, false, true, false]);
        let _busy = second.start_request();
        assert!(connections.open_or_preempt(client(9)).is_none(), "no client has more");
        assert!(connections.open_or_preempt(client(8)).is_some());
    }

    #[test]
    fn clients_behind_the_proxy_share_the_limit_of_all() {
        let connections = Connections::new(ConnectionLimits { total: 4, client: 2 });
        for proxy in ["127.0.0.6", "::6"] {
            let open = || {
                let (slot, _) = connections.open(proxy.parse().unwrap())?;
                Some((slot.start_request(), slot))
            };
            let busy: Vec<_> = (0..4).map(|_| open().unwrap()).collect();
            assert!(open().is_none());
            drop(busy);
        }
    }

    #[tokio::test]
    async fn connection_waits_until_another_one_is_idle() {
        let connections = Connections::new(ConnectionLimits { total: 1, client: 1 });
        let (busy, mut evicted) = connections.open(client(1)).unwrap();
        let request = busy.start_request();
        let mut opening = std::pin::pin!(connections.wait_to_open(client(2)));
        assert!(futures::poll!(&mut opening).is_pending());
        drop(request);
        opening.await;
        assert!(is_evicted(&mut evicted));
    }
}
