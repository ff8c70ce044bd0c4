//! Limits of open connections, in all and per client.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Counter of open connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// An open connection, counted until the value is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    connections: Arc<Connections>,
    client: IpAddr,
}

impl Connections {
    /// Counts a connection; `None` if the client or all of them have too many. One client cannot
    /// keep the kubelet out.
    pub(super) fn open(self: &Arc<Self>, client: IpAddr) -> Option<ConnectionSlot> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = open.values().sum();
        let count = open.get(&client).copied().unwrap_or_default();
        if total >= TOTAL_LIMIT || count >= CLIENT_LIMIT {
            return None;
        }
        open.insert(client, count + 1);
        Some(ConnectionSlot { connections: Arc::clone(self), client })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock().unwrap_or_else(PoisonError::into_inner);
        match open.get_mut(&self.client) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                open.remove(&self.client);
            }
        }
    }
}

const TOTAL_LIMIT: usize = 256;
const CLIENT_LIMIT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_leaves_slots_for_others() {
        let connections = Arc::new(Connections::default());
        let client = |number: u8| IpAddr::from([10, 0, 0, number]);
        let mut slots: Vec<_> = (0..CLIENT_LIMIT).map(|_| connections.open(client(1))).collect();
        assert!(slots.iter().all(Option::is_some));
        assert!(connections.open(client(1)).is_none());
        assert!(connections.open(client(2)).is_some());
        slots.pop();
        assert!(connections.open(client(1)).is_some());
        drop(slots);
        assert!(connections.open.lock().unwrap().is_empty());
    }

    #[test]
    fn all_clients_share_one_limit() {
        let connections = Arc::new(Connections::default());
        let slots = (0..=TOTAL_LIMIT).map(|number| {
            let [_, _, high, low] = u32::try_from(number).unwrap().to_be_bytes();
            connections.open([10, 0, high, low].into())
        });
        assert_eq!(slots.collect::<Vec<_>>().iter().flatten().count(), TOTAL_LIMIT);
    }
}
