//! `PeerAuthentication`: the mode of mutual TLS of each workload's ports.

mod effect;
mod object;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use effect::{Ineffective, Reason, without_effect};
pub use object::{API_VERSIONS, InvalidPeerAuthentication, KIND, PLURAL};
use pilot_registry::labels::Labels;

/// Policy of an object `PeerAuthentication`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PeerAuthentication {
    /// Namespace of the object.
    pub namespace: Arc<str>,
    /// Name of the object.
    pub name: Arc<str>,
    /// Seconds since 1970 at which the object was created.
    pub created: i64,
    /// Labels of the workloads; empty for all of the namespace or, in the root namespace, all of
    /// the mesh.
    pub selector: Labels,
    /// Mode; `None` takes that of the next wider scope (`UNSET`).
    pub mode: Option<MtlsMode>,
    /// Modes of ports of the workload. Only policies with a selector have an effect on ports.
    pub ports: BTreeMap<u16, Option<MtlsMode>>,
}

/// Mode of mutual TLS on an inbound port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MtlsMode {
    /// Only plaintext.
    Disable,
    /// Mutual TLS and plaintext.
    #[default]
    Permissive,
    /// Only mutual TLS.
    Strict,
}

/// All policies of the mesh, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PeerAuthentications {
    mesh: Vec<Arc<PeerAuthentication>>,
    namespaces: BTreeMap<Arc<str>, Vec<Arc<PeerAuthentication>>>,
    workloads: BTreeMap<Arc<str>, Vec<Arc<PeerAuthentication>>>,
}

/// Effective modes of a workload's ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WorkloadModes {
    /// Mode of ports without one of their own.
    pub mode: MtlsMode,
    /// Modes of single ports.
    pub ports: BTreeMap<u16, MtlsMode>,
    /// Policies that decided, as `namespace/name`, the narrowest first.
    pub decided_by: Vec<Arc<str>>,
}

impl PeerAuthentications {
    /// Sorts policies by scope and age. A policy with a selector in the root namespace applies to
    /// no workload, as in Istio.
    pub fn new(
        root_namespace: &str,
        policies: impl IntoIterator<Item = PeerAuthentication>,
    ) -> Self {
        let mut sorted: Vec<_> = policies.into_iter().map(Arc::new).collect();
        sorted.sort_by(|a, b| {
            (a.created, &a.namespace, &a.name).cmp(&(b.created, &b.namespace, &b.name))
        });
        let mut all = Self::default();
        for policy in sorted {
            let is_root = &*policy.namespace == root_namespace;
            match (is_root, policy.selector.is_empty()) {
                (true, true) => all.mesh.push(policy),
                (true, false) => {}
                (false, true) => {
                    all.namespaces.entry(policy.namespace.clone()).or_default().push(policy);
                }
                (false, false) => {
                    all.workloads.entry(policy.namespace.clone()).or_default().push(policy);
                }
            }
        }
        all
    }

    /// Effective mode of one port of a workload, as [`Self::modes`] has it.
    pub fn mode_at(&self, namespace: &str, labels: &Labels, port: u16) -> MtlsMode {
        let applied = self.applied(namespace, labels);
        let own = applied[0].and_then(|policy| *policy.ports.get(&port)?);
        own.or_else(|| mode(&applied)).unwrap_or_default()
    }

    /// Effective modes of a workload: the narrowest scope wins, and the oldest policy of a scope.
    pub fn modes(&self, namespace: &str, labels: &Labels) -> WorkloadModes {
        let applied = self.applied(namespace, labels);
        let mode = mode(&applied).unwrap_or_default();
        let ports = applied[0].into_iter().flat_map(|policy| &policy.ports);
        WorkloadModes {
            mode,
            ports: ports.map(|(port, own)| (*port, own.unwrap_or(mode))).collect(),
            decided_by: applied.iter().flatten().map(|policy| policy.key()).collect(),
        }
    }

    /// Policies that apply to a workload, the narrowest scope first.
    fn applied(&self, namespace: &str, labels: &Labels) -> [Option<&Arc<PeerAuthentication>>; 3] {
        let selects = |policy: &&Arc<PeerAuthentication>| policy.selector.select(labels);
        let of_workload =
            self.workloads.get(namespace).and_then(|policies| policies.iter().find(selects));
        let of_namespace = self.namespaces.get(namespace).and_then(|policies| policies.first());
        [of_workload, of_namespace, self.mesh.first()]
    }
}

fn mode(applied: &[Option<&Arc<PeerAuthentication>>]) -> Option<MtlsMode> {
    applied.iter().flatten().find_map(|policy| policy.mode)
}

impl PeerAuthentication {
    /// Namespace and name, as `namespace/name`.
    pub fn key(&self) -> Arc<str> {
        format!("{}/{}", self.namespace, self.name).into()
    }
}

impl WorkloadModes {
    /// Mode of a port of the workload.
    pub fn at(&self, port: u16) -> MtlsMode {
        self.ports.get(&port).copied().unwrap_or(self.mode)
    }
}

#[cfg(test)]
mod tests {
    use MtlsMode::{Disable, Permissive, Strict};

    use super::*;

    fn policy(
        key: &str,
        created: i64,
        selector: &[(&str, &str)],
        mode: Option<MtlsMode>,
    ) -> PeerAuthentication {
        let (namespace, name) = key.split_once('/').unwrap();
        PeerAuthentication {
            namespace: namespace.into(),
            name: name.into(),
            created,
            selector: labels(selector),
            mode,
            ports: BTreeMap::new(),
        }
    }

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().copied().collect()
    }

    fn modes(policies: Vec<PeerAuthentication>) -> WorkloadModes {
        let all = PeerAuthentications::new("istio-system", policies);
        all.modes("shop", &labels(&[("app", "web"), ("version", "v1")]))
    }

    const WEB: &[(&str, &str)] = &[("app", "web")];

    #[test]
    fn narrowest_scope_decides() {
        let mesh = || policy("istio-system/default", 1, &[], Some(Strict));
        let namespace = |mode| policy("shop/default", 2, &[], mode);
        let workload = |mode| policy("shop/web", 3, WEB, mode);
        for (policies, expected) in [
            (vec![], Permissive),
            (vec![mesh()], Strict),
            (vec![mesh(), namespace(Some(Disable))], Disable),
            (vec![mesh(), namespace(None)], Strict),
            (vec![mesh(), namespace(Some(Disable)), workload(Some(Permissive))], Permissive),
            (vec![mesh(), namespace(Some(Disable)), workload(None)], Disable),
            (vec![policy("other/default", 1, &[], Some(Strict))], Permissive),
            (vec![policy("shop/api", 1, &[("app", "api")], Some(Strict))], Permissive),
            (vec![policy("istio-system/web", 1, WEB, Some(Strict))], Permissive),
        ] {
            assert_eq!(modes(policies.clone()).mode, expected, "{policies:?}");
        }
    }

    #[test]
    fn oldest_policy_of_a_scope_decides() {
        let older = policy("shop/z", 1, &[], Some(Strict));
        let younger = policy("shop/a", 2, &[], Some(Disable));
        assert_eq!(modes(vec![younger.clone(), older.clone()]).mode, Strict);
        assert_eq!(modes(vec![older, younger]).decided_by, ["shop/z".into()]);
    }

    #[test]
    fn port_modes_need_a_selector_and_inherit() {
        let ports = BTreeMap::from([(8080, Some(Disable)), (9090, None)]);
        let all = |selector| PeerAuthentication {
            ports: ports.clone(),
            ..policy("shop/web", 1, selector, Some(Strict))
        };
        let found = modes(vec![all(WEB)]);
        assert_eq!([found.at(8080), found.at(9090), found.at(80)], [Disable, Strict, Strict]);
        let policies = PeerAuthentications::new("istio-system", [all(WEB)]);
        let labels = WEB.iter().copied().collect();
        for port in [8080, 9090, 80] {
            assert_eq!(policies.mode_at("shop", &labels, port), found.at(port), "{port}");
        }
        assert_eq!(modes(vec![all(&[])]).at(8080), Strict);
    }
}
