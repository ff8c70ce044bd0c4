//! What a replica remembers from one look at the cluster to the next.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::observation::Observation;
use crate::authority::{Authority, Leaf};
use crate::bundle::{Bundle, TrustedCa};
use crate::requests::Requests;
use crate::secret::{Phase, State};
use crate::server_names::ServerNames;

/// What a replica remembers from one look at the cluster to the next.
///
/// All of it may be lost at any time: a replica that starts anew is slower, never unsafe.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The newest state of the Secret that was seen.
    pub state: Option<State>,
    /// The leaf that is being served.
    pub leaf: Option<Leaf>,
    /// Since when every managed entry has been seen to trust the newer CA, without any change.
    pub(super) published: Option<Published>,
    /// Since when each CA that the Secret does not know has been seen in a webhook configuration.
    pub(super) foreign: BTreeMap<Vec<u8>, Timestamp>,
    /// When an entry was last seen to trust only the CA that retires.
    pub(super) reverted: Option<Timestamp>,
    /// The numbers of the CAs that must not be trusted, and since when that is known.
    pub(super) revoked: BTreeMap<u64, Timestamp>,
    /// Whether a new CA was asked for when that was last known.
    pub(super) rotate: bool,
    /// CAs that the Secret has dropped because their time was over.
    pub(super) retired: Vec<TrustedCa>,
}

/// What tells a webhook configuration from what it was before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    uid: String,
    generation: i64,
    /// A store that was restored from a backup gives out generations a second time.
    published_at: Option<Timestamp>,
}

/// Compares webhook configurations with what they were.
pub(super) type IsUnchanged = fn(&[Version], &[Version]) -> bool;

/// The newer CA of a rotation, and the very objects in which it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Published {
    next: TrustedCa,
    /// Each configuration.
    objects: Vec<Version>,
    since: Timestamp,
}

impl Memory {
    /// How many CAs that the Secret does not know are in webhook configurations.
    pub fn foreign(&self) -> usize {
        self.foreign.len()
    }

    /// The names of these.
    pub fn foreign_names(&self) -> BTreeSet<String> {
        let name = |der: &Vec<u8>| TrustedCa::from_der(der.clone().into()).ok();
        self.foreign.keys().filter_map(name).map(|ca| ca.name().to_owned()).collect()
    }

    /// How long the newer CA has been in every managed entry without any change of them.
    pub(super) fn published_for(&self, now: Timestamp) -> Option<SignedDuration> {
        self.published.as_ref().map(|published| now.duration_since(published.since))
    }

    /// How long it has been known that `ca` must not be trusted any longer.
    pub(super) fn revoked_for(&self, ca: &TrustedCa, now: Timestamp) -> Option<SignedDuration> {
        self.revoked.get(&ca.generation()?).map(|since| now.duration_since(*since))
    }

    /// Tells whether an entry was seen to trust only the CA that retires, less than `span` ago.
    pub(super) fn was_reverted(&self, span: SignedDuration, now: Timestamp) -> bool {
        self.reverted.is_some_and(|at| now.duration_since(at) < span)
    }

    /// Takes over a state that was read, and notes which CA it has retired.
    pub(crate) fn adopt(&mut self, found: State) {
        if let Some(held) = &self.state {
            let successor = match &held.phase {
                Phase::Steady => None,
                Phase::Prepared { next } => Some((next, &held.active)),
                Phase::Activated { retiring } => Some((&held.active, retiring)),
            };
            if let Some((successor, old)) = successor
                && found.phase == Phase::Steady
                && found.active.ca().is_same_signer(successor.ca())
            {
                self.retired.push(old.ca().clone());
            }
        }
        self.state = Some(found);
    }

    /// Notes what the webhook configurations hold.
    ///
    /// `is_unchanged` compares what they were with what they are.
    pub(super) fn watch(
        &mut self,
        state: &State,
        known: &Bundle,
        seen: &Observation,
        is_unchanged: IsUnchanged,
        now: Timestamp,
    ) {
        // A certificate of before a renewal is no other CA.
        let is_ours = |ca: &TrustedCa| known.certificates().iter().any(|k| k.is_same_signer(ca));
        let present: Vec<&TrustedCa> = seen
            .entries()
            .flat_map(|entry| entry.bundle.beyond(known))
            .filter(|ca| !is_ours(ca))
            .collect();
        self.foreign.retain(|der, _| present.iter().any(|ca| ca.der().as_ref() == der));
        if seen.is_complete {
            self.retired.retain(|retired| present.contains(&retired));
        }
        for ca in present.into_iter().filter(|ca| !self.retired.contains(ca)) {
            self.foreign.entry(ca.der().to_vec()).or_insert(now);
        }
        self.published = self.still_published(state, seen, is_unchanged, now);
        self.reverted = match &state.phase {
            Phase::Activated { retiring } => {
                let is_reverted = seen.entries().any(|entry| {
                    entry.bundle.trusts(retiring.ca(), now)
                        && !entry.bundle.trusts(state.active.ca(), now)
                });
                // As everywhere, a clock that was set back is no reason to wait for it.
                is_reverted.then_some(now).or(self.reverted.map(|at| at.min(now)))
            }
            Phase::Steady | Phase::Prepared { .. } => None,
        };
    }

    /// Notes what the Secret asks for; nothing where that cannot be known, and what was asked for
    /// before stands.
    pub(super) fn heed(&mut self, asked: Option<&Requests>, now: Timestamp) {
        let known = std::mem::take(&mut self.revoked);
        let since = |number| known.get(&number).map_or(now, |since: &Timestamp| (*since).min(now));
        self.revoked = match asked {
            Some(asked) => asked.revoke.iter().map(|number| (number, since(number))).collect(),
            // Whoever starts meanwhile cannot know of it.
            None => known.keys().map(|number| (*number, now)).collect(),
        };
        self.rotate = asked.map_or(self.rotate, |asked| asked.rotate);
    }

    /// What was asked for when that was last known.
    pub(crate) fn requests(&self) -> Requests {
        let revoke = self.revoked.keys().copied().collect();
        Requests { rotate: self.rotate, revoke, complaint: None }
    }

    /// Tells whether a live read of the Secret has shown that the CA's time is over.
    pub(super) fn is_retired(&self, ca: &TrustedCa) -> bool {
        self.retired.contains(ca)
    }

    /// Tells whether the CA was dropped because it must not be trusted.
    pub(super) fn has_revoked(&self, ca: &TrustedCa) -> bool {
        self.state.as_ref().is_some_and(|state| state.has_revoked(ca))
    }

    /// Tells whether a CA that the Secret does not know has been there for longer than `delay`.
    pub(super) fn is_stale(
        &self,
        foreign: &TrustedCa,
        delay: SignedDuration,
        now: Timestamp,
    ) -> bool {
        self.foreign
            .get(foreign.der().as_ref())
            .is_some_and(|since| now.duration_since(*since) >= delay)
    }

    /// Tells whether the leaf of `authority` that is served will do for now.
    pub(super) fn has_leaf_of(
        &self,
        authority: &Authority,
        names: &ServerNames,
        now: Timestamp,
    ) -> bool {
        self.leaf.as_ref().is_some_and(|leaf| {
            leaf.issuer().is_same_signer(authority.ca())
                && leaf.names() == names
                && leaf.lifetime().not_before <= now
                && now < leaf.renew_at()
        })
    }

    fn still_published(
        &self,
        state: &State,
        seen: &Observation,
        is_unchanged: IsUnchanged,
        now: Timestamp,
    ) -> Option<Published> {
        let next = match &state.phase {
            // What matters to nobody is not counted.
            Phase::Steady if self.leaf.as_ref().is_none_or(|leaf| state.knows(leaf.issuer())) => {
                return None;
            }
            Phase::Steady | Phase::Activated { .. } => state.active.ca().clone(),
            Phase::Prepared { next } => next.ca().clone(),
        };
        if !seen.is_complete || !seen.trusts(&next, now) {
            return None;
        }
        let objects: Vec<_> = seen
            .configurations
            .iter()
            .map(|configuration| Version {
                uid: configuration.uid.clone(),
                generation: configuration.generation,
                published_at: configuration.published_at,
            })
            .collect();
        let since = self
            .published
            .as_ref()
            .filter(|before| before.next == next && is_unchanged(&before.objects, &objects))
            // A clock that was set back must not stop the rotation until it has caught up.
            .map_or(now, |before| before.since.min(now));
        Some(Published { next, objects, since })
    }
}
