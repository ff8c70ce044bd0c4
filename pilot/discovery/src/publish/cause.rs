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
    /// Cause with changes of the registry, and of settings: name, trigger, and whether they changed.
    pub(super) fn new(registry: &Changes, settings: &[(&'static str, &'static str, bool)]) -> Self {
        let Changes { services, endpoint_sets, workloads, namespaces } = registry;
        let is_changed =
            |name| settings.iter().any(|(_, trigger, is_changed)| *is_changed && *trigger == name);
        let triggers = [
            ("service", !services.is_empty()),
            ("endpoint", !endpoint_sets.is_empty()),
            ("proxy", !workloads.is_empty()),
            ("config", is_changed("config")),
            ("global", is_changed("global")),
        ];
        let services = services.iter().map(|hostname| format!("service {hostname}"));
        let sets = endpoint_sets.iter();
        let sets = sets.map(|(hostname, port)| format!("endpoints of {hostname}:{port}"));
        let pods = workloads.iter().map(|key| format!("pod {}/{}", key.namespace, key.name));
        let names = namespaces.iter().map(|name| format!("namespace {name}"));
        let settings = settings.iter().filter(|(.., is_changed)| *is_changed);
        let settings = settings.map(|(name, ..)| (*name).to_owned());
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
