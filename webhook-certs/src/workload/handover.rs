//! Replacement of an operator's CA by another one.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::authority::WorkloadAuthority;
use crate::bundle::{Bundle, TrustedCa};

/// An operator's CA that takes the place of another one.
///
/// If workloads do not trust it yet, its roots are published for the propagation delay while the
/// former CA signs. Then it signs, and the former roots stay published for the delay again: a proxy
/// renews its certificate when the order of the roots changes.
#[derive(Debug)]
pub struct Handover {
    new: Arc<WorkloadAuthority>,
    /// Roots of the new CA, those first that workloads have not trusted before.
    roots: Bundle,
    /// The former CA, while it signs.
    former: Option<Arc<WorkloadAuthority>>,
    /// Former roots that the new CA does not have.
    retiring: Vec<TrustedCa>,
    /// Begin of the current step.
    since: Timestamp,
}

impl Handover {
    /// Returns a CA that replaces none.
    pub fn first(new: Arc<WorkloadAuthority>, now: Timestamp) -> Self {
        Self::new(&Bundle::default(), None, new, now)
    }

    /// Returns a CA that replaces one which signs.
    pub fn from_former(
        former: &Arc<WorkloadAuthority>,
        new: Arc<WorkloadAuthority>,
        now: Timestamp,
    ) -> Self {
        let signs = new.is_trusted_by(former.roots(), now).is_err();
        let signer = signs.then(|| Arc::clone(former));
        Self::new(former.roots(), signer, new, now)
    }

    fn new(
        trusted: &Bundle,
        former: Option<Arc<WorkloadAuthority>>,
        new: Arc<WorkloadAuthority>,
        now: Timestamp,
    ) -> Self {
        let roots = new.roots().clone();
        let mut handover = Self { new, roots, former, retiring: Vec::new(), since: now };
        handover.retain(trusted, now);
        handover
    }

    /// Retains roots that workloads trust, such as those of a CA that was replaced while no replica
    /// ran.
    pub fn retain(&mut self, trusted: &Bundle, now: Timestamp) {
        let fresh = Bundle::default().joined(self.new.roots().beyond(trusted));
        self.roots = fresh.joined(self.new.roots().certificates());
        for ca in trusted.beyond(self.new.roots()) {
            if ca.is_valid_at(now) && !self.retiring.contains(ca) {
                self.retiring.push(ca.clone());
            }
        }
    }

    /// Takes the steps that are due, and returns the CA that signs, with the roots to publish.
    ///
    /// `published` are the roots in the namespace of the control plane. A step that another replica
    /// has taken there is taken here too, so that replicas do not undo each other's.
    pub fn authority(
        &mut self,
        now: Timestamp,
        delay: SignedDuration,
        published: Option<&Bundle>,
    ) -> WorkloadAuthority {
        let is_due = |since: Timestamp| now.duration_since(since) >= delay;
        if let Some(former) = &self.former {
            let signs = |published: &Bundle| {
                let first = published.certificates().first();
                first == self.roots.certificates().first()
                    && first != former.roots().certificates().first()
            };
            let is_over = is_due(self.since)
                || !former.certificate().is_valid_at(now)
                || published.is_some_and(signs);
            if !is_over {
                return former.with_roots(former.roots().joined(self.roots.certificates()));
            }
            (self.former, self.since) = (None, now);
        }
        let is_gone = |published: &Bundle| {
            !self.retiring.iter().any(|ca| published.certificates().contains(ca))
        };
        if is_due(self.since) || published.is_some_and(is_gone) {
            self.retiring.clear();
        }
        self.new.with_roots(self.roots.joined(&self.retiring))
    }
}
