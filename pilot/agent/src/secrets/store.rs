//! Current secrets, and the streams that subscribe to them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::messages::Secret;
use super::resource::SecretName;
use super::session::VersionedSecret;

/// Current secrets by name.
#[derive(Debug)]
pub struct SecretStore {
    state: Mutex<State>,
    revision: watch::Sender<u64>,
    answered: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    secrets: BTreeMap<String, VersionedSecret>,
    subscriptions: Vec<Weak<Subscription>>,
}

/// Subscription of a stream to a secret; dropping it unsubscribes.
#[derive(Debug)]
pub struct Subscription {
    name: String,
    answered: AtomicU64,
    notify: Arc<Notify>,
}

impl Default for SecretStore {
    fn default() -> Self {
        Self { state: Mutex::default(), revision: watch::Sender::new(0), answered: Arc::default() }
    }
}

impl SecretStore {
    /// Sets a secret, and returns its version. An equal secret keeps its version.
    pub fn set(&self, name: &SecretName, secret: Secret) -> u64 {
        let name = name.to_string();
        let secret = Secret { name: name.clone(), ..secret };
        let mut state = self.lock();
        if let Some(current) = state.secrets.get(&name).filter(|it| it.secret == secret) {
            return current.version;
        }
        let version = *self.revision.borrow() + 1;
        state.secrets.insert(name, VersionedSecret { version, secret });
        drop(state);
        self.revision.send_replace(version);
        version
    }

    /// Returns the current secret with a name.
    pub fn find(&self, name: &str) -> Option<VersionedSecret> {
        self.lock().secrets.get(name).cloned()
    }

    /// Returns a receiver that is notified of every change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Subscribes to a secret.
    pub fn subscribe(&self, name: &str) -> Arc<Subscription> {
        let subscription = Arc::new(Subscription {
            name: name.to_owned(),
            answered: AtomicU64::new(0),
            notify: Arc::clone(&self.answered),
        });
        let mut state = self.lock();
        state.subscriptions.retain(|known| known.strong_count() > 0);
        state.subscriptions.push(Arc::downgrade(&subscription));
        subscription
    }

    /// True if a stream subscribes to the secret.
    pub fn is_subscribed(&self, name: &str) -> bool {
        self.subscriptions(name).next().is_some()
    }

    /// Removes a secret without subscriptions.
    pub fn forget(&self, name: &SecretName) {
        self.lock().secrets.remove(&name.to_string());
    }

    /// Waits until each stream that subscribes to the secret has answered this version, at most
    /// for `timeout`. Returns true if all of them have.
    pub async fn is_answered(&self, name: &SecretName, version: u64, timeout: Duration) -> bool {
        let name = name.to_string();
        let wait = async {
            loop {
                // Registered before the look, so that no answer in between is missed.
                let answered = self.answered.notified();
                let is_behind =
                    |it: &Arc<Subscription>| it.answered.load(Ordering::Relaxed) < version;
                if !self.subscriptions(&name).any(|subscription| is_behind(&subscription)) {
                    return;
                }
                answered.await;
            }
        };
        tokio::time::timeout(timeout, wait).await.is_ok()
    }

    fn subscriptions(&self, name: &str) -> impl Iterator<Item = Arc<Subscription>> {
        let all: Vec<_> = self.lock().subscriptions.iter().filter_map(Weak::upgrade).collect();
        all.into_iter().filter(move |subscription| subscription.name == name)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscription {
    /// Name of the secret.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Records an ACK or NACK of a version.
    pub fn answer(&self, version: u64) {
        self.answered.fetch_max(version, Ordering::Relaxed);
        self.notify.notify_waiters();
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.notify.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::messages::{DataSource, ValidationContext};

    fn roots(text: &'static str) -> Secret {
        let trusted_ca = Some(DataSource::inline(text));
        let validation = Some(ValidationContext { trusted_ca, crl: None });
        Secret { validation, ..Secret::default() }
    }

    #[test]
    fn equal_secret_keeps_its_version() {
        let store = SecretStore::default();
        let changes = store.changes();
        assert_eq!(store.set(&SecretName::Roots, roots("a")), 1);
        assert_eq!(store.set(&SecretName::Roots, roots("a")), 1);
        assert_eq!(store.set(&SecretName::Roots, roots("b")), 2);
        assert_eq!(*changes.borrow(), 2);
        assert_eq!(store.find("ROOTCA").unwrap().secret.name, "ROOTCA");
        assert_eq!(store.find("default"), None);
    }

    #[tokio::test]
    async fn answers_of_all_subscribers_are_awaited() {
        let store = SecretStore::default();
        let version = store.set(&SecretName::Roots, roots("a"));
        let at_once = Duration::ZERO;
        assert!(store.is_answered(&SecretName::Roots, version, at_once).await);
        let (one, other) = (store.subscribe("ROOTCA"), store.subscribe("ROOTCA"));
        let unrelated = store.subscribe("default");
        one.answer(version);
        assert!(!store.is_answered(&SecretName::Roots, version, at_once).await);
        let wait = store.is_answered(&SecretName::Roots, version, Duration::from_secs(60));
        let (answered, ()) = tokio::join!(wait, async { other.answer(version) });
        assert!(answered);
        let newer = store.set(&SecretName::Roots, roots("b"));
        one.answer(newer);
        let wait = store.is_answered(&SecretName::Roots, newer, Duration::from_secs(60));
        // A stream that ends is not waited for.
        let (answered, ()) = tokio::join!(wait, async { drop(other) });
        assert!(answered && store.is_subscribed("ROOTCA"));
        drop(one);
        assert!(!store.is_subscribed("ROOTCA") && store.is_subscribed(unrelated.name()));
    }
}
