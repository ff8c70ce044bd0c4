//! Memory of a replica between reconciliations.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::observation::Observation;
use crate::authority::{Authority, Leaf};
use crate::bundle::{Bundle, TrustedCa};
use crate::secret::rotation_requests::RotationRequests;
use crate::secret::{Phase, State};
use crate::server_names::ServerNames;

/// Memory of a replica between reconciliations.
///
/// It may be lost at any time: a replica that starts without it is slower, never unsafe.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Newest state of the Secret.
    pub state: Option<State>,
    /// Served leaf.
    pub leaf: Option<Leaf>,
    /// Newer CA that every managed entry trusts, and the instant since which no entry changed.
    pub(super) published: Option<Published>,
    /// Foreign CAs in webhook configurations, with the instant at which each was first seen.
    pub(super) foreign: BTreeMap<Vec<u8>, Timestamp>,
    /// Instant at which an entry was last seen to trust only the retiring CA.
    pub(super) reverted: Option<Timestamp>,
    /// Numbers of revoked CAs, with the instant at which each revocation was first seen.
    pub revoked: BTreeMap<u64, Timestamp>,
    /// True if a new CA was requested when the Secret was last readable.
    pub(super) rotate: bool,
    /// CAs that the Secret has dropped at the end of their retire delay.
    pub(super) retired: Vec<TrustedCa>,
}

/// Identity of a webhook configuration's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    uid: String,
    generation: i64,
    /// Distinguishes equal generations of a store that was restored from a backup.
    published_at: Option<Timestamp>,
}

/// Comparison of webhook configurations with their earlier versions.
pub(super) type IsUnchanged = fn(&[Version], &[Version]) -> bool;

/// Newer CA of a rotation, and the objects in which it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Published {
    next: TrustedCa,
    /// Versions of all configurations.
    objects: Vec<Version>,
    since: Timestamp,
}

impl Memory {
    /// Number of foreign CAs in webhook configurations.
    pub fn foreign(&self) -> usize {
        self.foreign.len()
    }

    /// Names of the foreign CAs.
    pub fn foreign_names(&self) -> BTreeSet<String> {
        let name = |der: &Vec<u8>| TrustedCa::from_der(der.clone().into()).ok();
        self.foreign.keys().filter_map(name).map(|ca| ca.name().to_owned()).collect()
    }

    /// Time for which every managed entry has held the newer CA without a change.
    pub fn published_for(&self, now: Timestamp) -> Option<SignedDuration> {
        self.published.as_ref().map(|published| now.duration_since(published.since))
    }

    /// Time since the revocation of `ca` was first seen.
    pub(super) fn revoked_for(&self, ca: &TrustedCa, now: Timestamp) -> Option<SignedDuration> {
        self.revoked.get(&ca.generation()?).map(|since| now.duration_since(*since))
    }

    /// True if an entry was seen to trust only the retiring CA less than `span` ago.
    pub(super) fn was_reverted(&self, span: SignedDuration, now: Timestamp) -> bool {
        self.reverted.is_some_and(|at| now.duration_since(at) < span)
    }

    /// Adopts a state of the Secret, and records which CA it has retired.
    pub fn adopt(&mut self, found: State) {
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

    /// Records the content of the webhook configurations.
    ///
    /// `is_unchanged` compares it with their earlier content.
    pub(super) fn record_configurations(
        &mut self,
        state: &State,
        known: &Bundle,
        seen: &Observation,
        is_unchanged: IsUnchanged,
        now: Timestamp,
    ) {
        // A certificate from before a renewal is of the same CA.
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
                let is_reverted = seen.bundles().any(|bundle| {
                    bundle.trusts(retiring.ca(), now) && !bundle.trusts(state.active.ca(), now)
                });
                // After a clock was set back, nothing must wait until it has caught up.
                is_reverted.then_some(now).or(self.reverted.map(|at| at.min(now)))
            }
            Phase::Steady | Phase::Prepared { .. } => None,
        };
    }

    /// Records the requests in the Secret's annotations; `None` keeps the earlier ones if the
    /// Secret is unreadable.
    pub(super) fn record_requests(&mut self, asked: Option<&RotationRequests>, now: Timestamp) {
        let known = std::mem::take(&mut self.revoked);
        let since = |number| known.get(&number).map_or(now, |since: &Timestamp| (*since).min(now));
        self.revoked = match asked {
            Some(asked) => asked.revoke.iter().map(|number| (number, since(number))).collect(),
            // A replica that starts now cannot know of the revocation.
            None => known.keys().map(|number| (*number, now)).collect(),
        };
        self.rotate = asked.map_or(self.rotate, |asked| asked.rotate);
    }

    /// Requests when the Secret was last readable.
    pub fn requests(&self) -> RotationRequests {
        let revoke = self.revoked.keys().copied().collect();
        RotationRequests { rotate: self.rotate, revoke, problem: None }
    }

    /// True if a live read of the Secret has shown that the CA was retired.
    pub(super) fn is_retired(&self, ca: &TrustedCa) -> bool {
        self.retired.contains(ca)
    }

    /// True if the CA was dropped because it was revoked.
    pub(super) fn has_revoked(&self, ca: &TrustedCa) -> bool {
        self.state.as_ref().is_some_and(|state| state.has_revoked(ca))
    }

    /// True if a foreign CA was first seen at least `delay` ago.
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

    /// True if the served leaf is one of `authority` and not due for renewal.
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
            // No leaf depends on it.
            Phase::Steady if self.leaf.as_ref().is_none_or(|leaf| state.knows(leaf.issuer())) => {
                return None;
            }
            Phase::Steady | Phase::Activated { .. } => state.active.ca().clone(),
            Phase::Prepared { next } => next.ca().clone(),
        };
        if !seen.is_complete || !seen.trusts(&next, now) {
            return None;
        }
        let configurations = seen.configurations.iter().map(|configuration| Version {
            uid: configuration.uid.clone(),
            generation: configuration.generation,
            published_at: configuration.published_at,
        });
        let roots =
            Version { uid: String::new(), generation: seen.roots.changes, published_at: None };
        let objects: Vec<_> = configurations.chain([roots]).collect();
        let since = self
            .published
            .as_ref()
            .filter(|before| before.next == next && is_unchanged(&before.objects, &objects))
            // After a clock was set back, the rotation must not wait until it has caught up.
            .map_or(now, |before| before.since.min(now));
        Some(Published { next, objects, since })
    }
}
