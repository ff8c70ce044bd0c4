//! Objects of Istio's kinds that have no effect here: each is named once and counted. Workloads
//! that an `AuthorizationPolicy` selects take no connection.

use std::collections::BTreeMap;

use kube::Client;
use mesh::istio_kinds::{AUTHORIZATION_POLICY, IstioKind};
use pilot_registry::event::ObjectKey;
use pilot_routing::authorization_policy::AuthorizationPolicy;
use serde_json::Value;

use super::Sink;
use super::istio_objects::{self, Change, key};
use crate::metrics::KindLabel;
use crate::publish::Input;

/// Known objects of a kind, with the policies among them that restrict callers.
#[derive(Debug)]
pub(super) struct Unread {
    kind: &'static IstioKind,
    /// True if policies that are not enforced leave their workloads open.
    are_policies_allowed: bool,
    known: BTreeMap<ObjectKey, Option<AuthorizationPolicy>>,
}

impl Unread {
    pub(super) fn new(kind: &'static IstioKind, are_policies_allowed: bool) -> Self {
        Self { kind, are_policies_allowed, known: BTreeMap::new() }
    }

    /// Kind of the objects.
    pub(super) fn kind(&self) -> &'static IstioKind {
        self.kind
    }

    /// Takes a change.
    pub(super) fn take(&mut self, change: Change, sink: &Sink) {
        match change {
            Change::Replace(objects) => {
                let before = std::mem::take(&mut self.known);
                for object in objects {
                    self.set(&object, before.contains_key(&key(&object)));
                }
            }
            Change::Apply(object) => {
                self.set(&object, self.known.contains_key(&key(&object)));
            }
            Change::Delete(key) => drop(self.known.remove(&key)),
        }
        let label = KindLabel { kind: self.kind.kind };
        let count = i64::try_from(self.known.len()).unwrap_or(i64::MAX);
        sink.metrics.unread.get_or_create(&label).set(count);
        if *self.kind == AUTHORIZATION_POLICY && !self.are_policies_allowed {
            let policies = self.known.values().flatten().cloned().collect();
            sink.settings(Input::AuthorizationPolicies(policies));
        }
    }

    fn set(&mut self, object: &Value, is_known: bool) {
        let Self { kind, are_policies_allowed, known } = self;
        let is_policy = **kind == AUTHORIZATION_POLICY;
        let policy = is_policy.then(|| AuthorizationPolicy::from_object(object)).flatten();
        let key = key(object);
        if !is_known {
            let effect = match (&policy, *are_policies_allowed) {
                (Some(_), false) => {
                    "it is not enforced, so the workloads that it selects take no connection; hint: \
                     delete it, or use --allow-unenforced-policies"
                }
                (Some(_), true) => "it is not enforced: --allow-unenforced-policies is set",
                (None, _) if is_policy => "it is not enforced; it restricts no caller of a sidecar",
                _ => kind.without,
            };
            tracing::warn!("{} {key} has no effect: {effect}", kind.kind);
        }
        known.insert(key, policy);
    }
}

/// Watches the objects of a cluster.
pub(super) async fn watch(client: Client, mut objects: Unread, sink: Sink) {
    let kind = objects.kind;
    istio_objects::watch(client, kind, |change| objects.take(change, &sink)).await;
}
