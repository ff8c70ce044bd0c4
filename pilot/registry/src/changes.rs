//! Differences between two snapshots.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::event::ObjectKey;
use crate::hostname::Hostname;

/// Values that an event added, changed or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Services, without regard to their endpoints.
    pub services: BTreeSet<Hostname>,
    /// Endpoint sets by host and service port.
    pub endpoint_sets: BTreeSet<(Hostname, u16)>,
    /// Workloads.
    pub workloads: BTreeSet<ObjectKey>,
    /// Namespaces.
    pub namespaces: BTreeSet<Arc<str>>,
}

impl Changes {
    /// True if nothing changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the changes of a later event.
    pub fn extend(&mut self, later: Self) {
        self.services.extend(later.services);
        self.endpoint_sets.extend(later.endpoint_sets);
        self.workloads.extend(later.workloads);
        self.namespaces.extend(later.namespaces);
    }
}
