//! Counts of pods without a sidecar or with a stale one, by namespace and by workload.

use std::collections::BTreeMap;

use reason::Reason;
use serde_json::Value;

use super::sidecar_state::SidecarState;
use crate::kubernetes::workload::Workload;

/// Counts of one round over all pods; no pod is kept.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// Number of examined pods.
    pub pods: u64,
    namespaces: BTreeMap<String, Counts>,
    workloads: BTreeMap<EventTarget, Affected>,
}

/// Numbers of affected pods.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Pods without a sidecar, although both gates select them.
    pub without_sidecar: u64,
    /// Pods whose sidecar differs from a fresh injection.
    pub stale: u64,
}

/// Workload of pods, the subject of an Event.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct EventTarget {
    /// Namespace of the workload.
    pub namespace: String,
    /// Kind of the workload.
    pub kind: String,
    /// Name of the workload.
    pub name: String,
    /// API version of the workload.
    pub api_version: String,
    /// UID, if a pod contains it: a pod names its controller, but not the controller's owner.
    pub uid: String,
}

/// Affected pods of a workload.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Affected {
    /// Numbers of pods.
    pub counts: Counts,
    /// Reasons of the first pod without a sidecar, or else of the first stale one.
    pub reasons: Vec<Reason>,
}

impl Affected {
    /// True if a pod has no sidecar; otherwise a pod is stale.
    pub fn is_without_sidecar(&self) -> bool {
        self.counts.without_sidecar > 0
    }
}

impl Tally {
    /// Counts a pod.
    pub fn add(&mut self, pod: &Value, sidecar_state: SidecarState) {
        self.pods += 1;
        let (counts, reasons) = match sidecar_state {
            SidecarState::Missing(reason) => {
                (Counts { without_sidecar: 1, stale: 0 }, vec![reason])
            }
            SidecarState::Stale(reasons) => (Counts { without_sidecar: 0, stale: 1 }, reasons),
            SidecarState::Current | SidecarState::NotAsked(_) | SidecarState::Unknown(_) => return,
        };
        let subject = EventTarget::of_pod(pod);
        self.namespaces.entry(subject.namespace.clone()).or_default().add(counts);
        if self.workloads.len() >= WORKLOADS && !self.workloads.contains_key(&subject) {
            return;
        }
        let affected = self
            .workloads
            .entry(subject)
            .or_insert_with(|| Affected { counts: Counts::default(), reasons: reasons.clone() });
        if counts.without_sidecar > 0 && !affected.is_without_sidecar() {
            affected.reasons = reasons;
        }
        affected.counts.add(counts);
    }

    /// Returns the counts of the `at_most` namespaces with the most affected pods, by name. The
    /// others are summed up under [`OTHERS`].
    pub fn namespaces(&self, at_most: usize) -> Vec<(String, Counts)> {
        let mut all: Vec<_> = self.namespaces.iter().collect();
        all.sort_by_key(|(name, counts)| {
            (std::cmp::Reverse(counts.without_sidecar + counts.stale), (*name).clone())
        });
        let others = all.split_off(at_most.min(all.len()));
        let mut named: Vec<_> =
            all.iter().map(|(name, counts)| ((*name).clone(), **counts)).collect();
        named.sort_by(|(one, _), (other, _)| one.cmp(other));
        if !others.is_empty() {
            let mut together = Counts::default();
            for (_, counts) in others {
                together.add(*counts);
            }
            named.push((OTHERS.to_owned(), together));
        }
        named
    }

    /// Returns the workloads with affected pods by namespace and name: the first ten thousand
    /// found.
    pub fn workloads(&self) -> &BTreeMap<EventTarget, Affected> {
        &self.workloads
    }
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.without_sidecar += other.without_sidecar;
        self.stale += other.stale;
    }
}

impl EventTarget {
    fn of_pod(pod: &Value) -> Self {
        let metadata = &pod["metadata"];
        let Workload { api_version, kind, name, namespace } = Workload::from_pod(pod, "");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let own = [metadata].into_iter().filter(|_| kind == "Pod");
        let mut named = owners.filter(|owner| owner["kind"] == kind.as_str()).chain(own);
        let uid = named.find(|object| object["name"] == name.as_str()).map(|one| text(&one["uid"]));
        Self { namespace, kind, name, api_version, uid: uid.unwrap_or_default() }
    }
}

/// Name for the sum of the other namespaces; no namespace can have it.
pub const OTHERS: &str = "(others)";

/// Largest number of workloads; pods of others are counted by namespace only.
const WORKLOADS: usize = 10_000;
