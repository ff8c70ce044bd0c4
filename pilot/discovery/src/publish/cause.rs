//! Causes of publications.

use pilot_registry::changes::Changes;
use serde::Serialize;

/// Changes that a publication has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Kinds of the changes, with Istio's names.
    pub triggers: Vec<&'static str>,
    /// Number of the changed values.
    pub changes: usize,
    /// The first of them.
    pub first: Vec<String>,
}

impl Cause {
    /// Cause with changes of the registry, of policies, and of the settings of the mesh.
    pub(super) fn new(registry: &Changes, policies: bool, mesh: bool) -> Self {
        let Changes { services, endpoint_sets, workloads, namespaces } = registry;
        let triggers = [
            ("service", !services.is_empty()),
            ("endpoint", !endpoint_sets.is_empty()),
            ("proxy", !workloads.is_empty()),
            ("config", policies),
            ("global", mesh),
        ];
        let services = services.iter().map(|hostname| format!("service {hostname}"));
        let sets = endpoint_sets.iter();
        let sets = sets.map(|(hostname, port)| format!("endpoints of {hostname}:{port}"));
        let pods = workloads.iter().map(|key| format!("pod {}/{}", key.namespace, key.name));
        let names = namespaces.iter().map(|name| format!("namespace {name}"));
        let policies = policies.then(|| "PeerAuthentications".to_owned());
        let mesh = mesh.then(|| "MeshConfig".to_owned());
        let settings = policies.into_iter().chain(mesh);
        Self {
            triggers: triggers
                .iter()
                .filter(|(_, is_one)| *is_one)
                .map(|(name, _)| *name)
                .collect(),
            changes: registry.services.len()
                + endpoint_sets.len()
                + workloads.len()
                + namespaces.len()
                + settings.clone().count(),
            first: settings
                .chain(services)
                .chain(sets)
                .chain(pods)
                .chain(names)
                .take(SHOWN)
                .collect(),
        }
    }
}

/// Names that a page shows of a longer list.
pub(super) const SHOWN: usize = 10;
