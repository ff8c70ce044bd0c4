//! Conditions of the agent's parts, which the readiness text reports.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Current conditions. Each part sets and clears its own; the status port shows them.
#[derive(Debug, Default)]
pub struct Health {
    conditions: Mutex<BTreeMap<Part, String>>,
}

impl Health {
    /// Sets the condition of a part: a sentence without a full stop. Returns true if it is new.
    pub fn set(&self, part: Part, message: impl Into<String>) -> bool {
        let message = message.into();
        self.lock().insert(part, message.clone()).is_none_or(|before| before != message)
    }

    /// Clears the condition of a part.
    pub fn clear(&self, part: Part) {
        self.lock().remove(&part);
    }

    /// Returns the conditions in the order of [`Part`].
    pub fn conditions(&self) -> Vec<(Part, String)> {
        self.lock().iter().map(|(part, message)| (*part, message.clone())).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Part, String>> {
        self.conditions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Part of the agent.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Part {
    /// Changed configuration that is invalid.
    Configuration,
    /// Bootstrap that differs from what runs.
    Bootstrap,
    /// Connection to the control plane.
    ControlPlane,
    /// Clusters of the control plane that Envoy rejects.
    Clusters,
    /// Listeners of the control plane that Envoy rejects.
    Listeners,
    /// Workload certificate.
    Certificate,
}
