//! Replacement of an operator's CA by another one.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::authority::WorkloadAuthority;
use crate::bundle::{Bundle, TrustedCa};

/// An operator's CA that takes the place of another one.
///
/// If workloads do not trust it yet, its roots are published for the propagation delay while the
/// former CA signs. Then it signs, and the former roots stay published for the delay again: a proxy
/// renews its certificate when the order of the roots changes. Each delay begins when all
/// namespaces have the roots of the step.
#[derive(Debug)]
pub struct Handover {
    new: Arc<WorkloadAuthority>,
    /// Roots of the new CA, that of its certificate first.
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
        Self::new(None, new, now)
    }

    /// Returns a CA that replaces one which signs.
    pub fn from_former(
        former: &Arc<WorkloadAuthority>,
        new: Arc<WorkloadAuthority>,
        now: Timestamp,
    ) -> Self {
        let is_unknown = new.is_trusted_by(former.roots(), now).is_err();
        let mut handover = Self::new(is_unknown.then(|| Arc::clone(former)), new, now);
        handover.retain(former.roots(), now);
        handover
    }

    fn new(
        former: Option<Arc<WorkloadAuthority>>,
        new: Arc<WorkloadAuthority>,
        now: Timestamp,
    ) -> Self {
        // By the files alone, so that replicas agree.
        let own = new.roots().certificates().iter().find(|root| {
            let alone = Bundle::default().joined([*root]);
            new.is_trusted_by(&alone, now).is_ok()
        });
        let roots = Bundle::default().joined(own).joined(new.roots().certificates());
        Self { new, roots, former, retiring: Vec::new(), since: now }
    }

    /// Retains roots that workloads trust, such as those of a CA that was replaced while no replica
    /// ran.
    pub fn retain(&mut self, trusted: &Bundle, now: Timestamp) {
        for ca in trusted.beyond(&self.roots) {
            if ca.is_valid_at(now) && !self.retiring.contains(ca) {
                self.retiring.push(ca.clone());
            }
        }
    }

    /// Takes the steps that are due, and returns the CA that signs, with the roots to publish.
    ///
    /// `published` are the different roots of all namespaces, and `None` while they are unknown. A
    /// step that another replica has taken there is taken here too, so that replicas do not undo
    /// each other's.
    pub fn authority(
        &mut self,
        now: Timestamp,
        delay: SignedDuration,
        published: Option<&[Bundle]>,
    ) -> WorkloadAuthority {
        let all = |has: &dyn Fn(&Bundle) -> bool| published.is_some_and(|all| all.iter().all(has));
        let first = |bundle: &Bundle| bundle.certificates().first().cloned();
        let own = first(&self.roots);
        let any_is_known = published.is_some_and(|all| !all.is_empty());
        if let Some(former) = &self.former {
            let was = first(former.roots());
            let have_switched = all(&|bundle| first(bundle) == own && own != was);
            if !all(&|bundle| bundle.is_superset_of(&self.roots)) {
                self.since = now;
            }
            let is_over = now.duration_since(self.since) >= delay
                || !former.certificate().is_valid_at(now)
                || (any_is_known && have_switched);
            if !is_over {
                return former.with_roots(former.roots().joined(self.roots.certificates()));
            }
            (self.former, self.since) = (None, now);
        }
        let roots = self.roots.joined(&self.retiring);
        let are_gone =
            all(&|bundle| !self.retiring.iter().any(|ca| bundle.certificates().contains(ca)));
        if !all(&|bundle| bundle.is_superset_of(&roots) && first(bundle) == own) {
            self.since = now;
        }
        if now.duration_since(self.since) >= delay || (any_is_known && are_gone) {
            self.retiring.clear();
        }
        self.new.with_roots(self.roots.joined(&self.retiring))
    }
}
