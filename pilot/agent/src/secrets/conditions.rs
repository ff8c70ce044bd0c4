//! Conditions of the certificates, joined to one sentence for the readiness text.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::health::{Health, Part};

/// Conditions by subject.
#[derive(Debug)]
pub(super) struct Conditions {
    health: Arc<Health>,
    current: Mutex<BTreeMap<Subject, String>>,
}

/// Subject of a condition.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Subject {
    /// The SDS socket.
    Socket,
    /// The workload certificate.
    Workload,
    /// Mounted root certificates of the mesh.
    MountedRoots,
    /// Root certificates from the control plane.
    ConfiguredRoots,
    /// Certificate revocation list.
    Revocations,
    /// Copies of key and certificates.
    Output,
    /// Mounted workload certificate.
    MountedCertificate,
    /// A secret in files, by its name.
    File(String),
}

impl Conditions {
    pub(super) fn new(health: Arc<Health>) -> Self {
        Self { health, current: Mutex::default() }
    }

    /// Sets a condition, and logs it if it is new. Returns true if it is new.
    pub(super) fn set(&self, subject: Subject, message: String) -> bool {
        self.change(|current| {
            if current.get(&subject) == Some(&message) {
                return false;
            }
            tracing::warn!("{message}");
            current.insert(subject, message);
            true
        })
    }

    pub(super) fn clear(&self, subject: &Subject) {
        self.change(|current| current.remove(subject).is_some());
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<Subject, String>) -> bool) -> bool {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let is_changed = change(&mut current);
        let text = current.values().map(String::as_str).collect::<Vec<_>>().join("; ");
        if is_changed && text.is_empty() {
            self.health.clear(Part::Certificate);
        } else if is_changed {
            self.health.set(Part::Certificate, text);
        }
        is_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_joined_and_cleared_one_by_one() {
        let health = Arc::new(Health::default());
        let conditions = Conditions::new(Arc::clone(&health));
        let text = || health.conditions().into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert!(conditions.set(Subject::Output, "disk full".to_owned()));
        assert!(!conditions.set(Subject::Output, "disk full".to_owned()));
        conditions.set(Subject::Workload, "no certificate".to_owned());
        assert_eq!(text(), ["no certificate; disk full"]);
        conditions.clear(&Subject::Workload);
        assert_eq!(text(), ["disk full"]);
        conditions.clear(&Subject::Output);
        assert_eq!(text(), Vec::<String>::new());
    }
}
