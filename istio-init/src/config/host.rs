//! Rejection of a node's network namespace.

use crate::complaint::{Complaint, Fault};
use crate::flag::Flag;
use crate::host::HostEvidence;
use crate::interface::InterfaceName;

/// Returns the complaint about a node's own network namespace: rules there would capture the node,
/// and all pods' traffic that is forwarded there. Interfaces that the user named are no evidence.
pub(super) fn complaint(
    host: Result<&HostEvidence, &String>,
    named: &[InterfaceName],
) -> Option<Complaint> {
    let (value, reason) = match host.map(|evidence| evidence.signs(named)) {
        Ok(signs) if signs.is_empty() => return None,
        Ok(signs) => (signs.join(", "), "look like a node's, not like a pod's"),
        Err(reason) => (reason.clone(), "leaves open whether it is a node's or a pod's"),
    };
    let hint =
        format!("run istio-init in the pod; where this is meant, use {}", Flag::AllowHostNetwork);
    let source = "this network namespace".to_owned();
    Some(Complaint { source, value, fault: Fault::new(reason).hint(hint) })
}
