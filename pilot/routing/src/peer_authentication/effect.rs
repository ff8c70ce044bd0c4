//! Policies, and parts of policies, that decide nothing.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use pilot_registry::snapshot::Snapshot;
use pilot_registry::workload::Workload;

use super::{PeerAuthentication, PeerAuthentications};

/// Policy, or a part of it, that decides nothing although its author wrote it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ineffective {
    /// The policy, as `namespace/name`.
    pub policy: Arc<str>,
    /// Reason why it decides nothing.
    pub reason: Reason,
}

/// Reason why a policy decides nothing. [`Display`] says it with what to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Selection of workloads, in the root namespace.
    SelectorInRootNamespace,
    /// Older policy of the same scope.
    Older {
        /// The older policy, as `namespace/name`.
        policy: Arc<str>,
    },
    /// Modes of ports, without a selector.
    PortsWithoutSelector,
    /// Port of a service, where the workload has another.
    ServicePort {
        /// Port of the policy.
        port: u16,
        /// Host of the service.
        service: Arc<str>,
        /// Port of the workload to which the service leads.
        workload_port: u16,
    },
}

impl Reason {
    /// Name in metrics.
    pub fn name(&self) -> &'static str {
        let [root_namespace, older, without_selector, service_port] = Self::NAMES;
        match self {
            Self::SelectorInRootNamespace => root_namespace,
            Self::Older { .. } => older,
            Self::PortsWithoutSelector => without_selector,
            Self::ServicePort { .. } => service_port,
        }
    }

    /// Names of all reasons.
    pub const NAMES: [&str; 4] =
        ["selector_in_root_namespace", "older_policy", "ports_without_selector", "service_port"];
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::SelectorInRootNamespace => f.write_str(
                "it has no effect: policies of the root namespace select no workloads; hint: move it \
                 to the namespace of the workloads",
            ),
            Self::Older { policy } => write!(
                f,
                "it has no effect: {policy} is older and selects the same workloads; hint: merge \
                 them, or delete one"
            ),
            Self::PortsWithoutSelector => f.write_str(
                "portLevelMtls has no effect without selector.matchLabels; hint: select the \
                 workloads of the ports",
            ),
            Self::ServicePort { port, service, workload_port } => write!(
                f,
                "portLevelMtls.{port} has no effect: {port} is the port of service {service}, and \
                 its workloads listen on {workload_port}; hint: write {workload_port}"
            ),
        }
    }
}

impl Display for Ineffective {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "PeerAuthentication {}: {}", self.policy, self.reason)
    }
}

/// Finds policies and parts of them that decide nothing, in the order of the policies; `all` are the
/// same policies by scope. Those that select no workload are not among them: it may come later.
pub fn without_effect(
    policies: &[PeerAuthentication],
    all: &PeerAuthentications,
    root_namespace: &str,
    snapshot: &Snapshot,
) -> Vec<Ineffective> {
    let found = policies.iter().flat_map(|policy| {
        let reasons = reasons(policy, all, root_namespace, snapshot);
        reasons.into_iter().map(|reason| Ineffective { policy: policy.key(), reason })
    });
    found.collect()
}

fn reasons(
    policy: &PeerAuthentication,
    all: &PeerAuthentications,
    root_namespace: &str,
    snapshot: &Snapshot,
) -> Vec<Reason> {
    let is_root = *policy.namespace == *root_namespace;
    if policy.selector.is_empty() {
        let namespace = all.namespaces.get(&policy.namespace).unwrap_or(&all.mesh);
        let oldest = if is_root { all.mesh.first() } else { namespace.first() };
        let older = oldest.filter(|oldest| oldest.key() != policy.key());
        let ports = (!policy.ports.is_empty()).then_some(Reason::PortsWithoutSelector);
        return older.map(|it| Reason::Older { policy: it.key() }).or(ports).into_iter().collect();
    }
    if is_root {
        return vec![Reason::SelectorInRootNamespace];
    }
    let in_namespace = snapshot.workloads_of(&policy.namespace);
    let selected: Vec<_> = in_namespace.filter(|it| policy.selector.select(&it.labels)).collect();
    let decides = |workload: &&Arc<Workload>| {
        all.applied(&workload.namespace, &workload.labels)[0].map(|it| it.key())
    };
    if let Some(first) = selected.first().and_then(decides)
        && selected.iter().all(|it| decides(it).is_some_and(|other| other != policy.key()))
    {
        return vec![Reason::Older { policy: first }];
    }
    let ports = policy.ports.keys().filter_map(|port| service_port(*port, &selected, snapshot));
    ports.collect()
}

/// Tells a service's port from a workload's: services lead from it to another port, and none to it.
fn service_port(port: u16, workloads: &[&Arc<Workload>], snapshot: &Snapshot) -> Option<Reason> {
    let targets: Vec<_> = workloads.iter().flat_map(|it| snapshot.inbound_targets(it)).collect();
    if targets.iter().any(|target| target.port == port) {
        return None;
    }
    let target = targets.iter().find(|target| target.service_port.number == port)?;
    let (service, workload_port) = (target.service.as_str().into(), target.port);
    Some(Reason::ServicePort { port, service, workload_port })
}
