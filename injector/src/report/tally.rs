//! Pods that are not as they should be, counted by namespace and by workload.

use std::collections::BTreeMap;

use reason::Reason;
use serde_json::Value;

use super::standing::Standing;
use crate::kubernetes::workload::Workload;

/// Counts of one round over all pods, none of which is kept.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// How many pods were looked at.
    pub pods: u64,
    namespaces: BTreeMap<String, Counts>,
    workloads: BTreeMap<Subject, Affected>,
}

/// The pods of a namespace that are not as they should be.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Those without a sidecar, though both gates say yes.
    pub without_sidecar: u64,
    /// Those whose sidecar would be another today.
    pub stale: u64,
}

/// The workload of pods: what an Event is about.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Subject {
    /// Its namespace.
    pub namespace: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its API version.
    pub api_version: String,
    /// Its UID, where a pod tells: a pod names its controller, not what stands behind that.
    pub uid: String,
}

/// What is wrong with a workload's pods.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Affected {
    /// How many of them.
    pub counts: Counts,
    /// Of a first pod without a sidecar, or else of a first stale one.
    pub reasons: Vec<Reason>,
}

impl Affected {
    /// Whether a pod is without a sidecar; else it is stale.
    pub fn is_without_sidecar(&self) -> bool {
        self.counts.without_sidecar > 0
    }
}

impl Tally {
    /// Counts a pod.
    pub fn add(&mut self, pod: &Value, standing: Standing) {
        self.pods += 1;
        let (counts, reasons) = match standing {
            Standing::Missing(reason) => (Counts { without_sidecar: 1, stale: 0 }, vec![reason]),
            Standing::Stale(reasons) => (Counts { without_sidecar: 0, stale: 1 }, reasons),
            Standing::Current | Standing::NotAsked(_) | Standing::Unknown(_) => return,
        };
        let subject = Subject::of_pod(pod);
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

    /// The counts of the namespaces with the most such pods, at most so many, by name; the others
    /// are together under [`OTHERS`].
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

    /// The workloads with such pods, the first ten thousand that were met, by namespace and name.
    pub fn workloads(&self) -> &BTreeMap<Subject, Affected> {
        &self.workloads
    }
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.without_sidecar += other.without_sidecar;
        self.stale += other.stale;
    }
}

impl Subject {
    fn of_pod(pod: &Value) -> Self {
        let metadata = &pod["metadata"];
        let Workload { api_version, kind, name, namespace } = Workload::of_pod(pod, "");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let own = [metadata].into_iter().filter(|_| kind == "Pod");
        let mut named = owners.filter(|owner| owner["kind"] == kind.as_str()).chain(own);
        let uid = named.find(|object| object["name"] == name.as_str()).map(|one| text(&one["uid"]));
        Self { namespace, kind, name, api_version, uid: uid.unwrap_or_default() }
    }
}

/// No namespace can be called so.
pub const OTHERS: &str = "(others)";

/// More are counted by namespace alone.
const WORKLOADS: usize = 10_000;
