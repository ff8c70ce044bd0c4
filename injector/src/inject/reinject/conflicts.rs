//! Conflict resolution between user-supplied fields and an injected container. Kubernetes rejects a
//! container with both.

use reason::{Reason, words};
use serde_json::{Value, json};

use crate::kubernetes::quantity;

/// Marks the conflicting fields of the injected `container` for removal in `own`, the user-supplied
/// fields that are merged over it. Returns warnings about the removed fields.
///
/// Istio leaves both in the pod, and Kubernetes rejects it.
pub(crate) fn resolve_conflicts(own: &mut Value, container: &Value) -> Vec<Reason> {
    allow_escalation(own);
    let mut warnings = bounds(own, container);
    warnings.extend(port_names(own, container));
    warnings.extend(root(own, container));
    warnings
}

/// Warns about user 0 beside the injected `runAsNonRoot`. The API server accepts both, but the
/// kubelet does not start the container.
fn root(own: &Value, container: &Value) -> Option<Reason> {
    let (own, injected) = (&own["securityContext"], &container["securityContext"]);
    let refused =
        own["runAsUser"] == 0 && own["runAsNonRoot"].is_null() && injected["runAsNonRoot"] == true;
    let name = container["name"].as_str().unwrap_or_default();
    let message = format!(
        "container {name} has the user-supplied runAsUser 0 and the injected runAsNonRoot; the \
         kubelet will not start it"
    );
    refused.then(|| Reason::new(words::OWN_USER, message))
}

/// Removes the template's `allowPrivilegeEscalation: false` if the user makes the container
/// privileged or adds `CAP_SYS_ADMIN`: the API server rejects the combination.
fn allow_escalation(own: &mut Value) {
    let security = &own["securityContext"];
    let mut added = security["capabilities"]["add"].as_array().into_iter().flatten();
    if security["privileged"] == true || added.any(|capability| capability == ADMIN) {
        let security = own["securityContext"].as_object_mut();
        security.map(|own| own.entry("allowPrivilegeEscalation").or_insert(Value::Null));
    }
}

/// Removes an injected limit below a user-supplied request, or an injected request above a
/// user-supplied limit. The API server rejects a request above the limit.
fn bounds(own: &mut Value, container: &Value) -> Vec<Reason> {
    let mut warnings = Vec::new();
    let name = own["name"].as_str().unwrap_or_default().to_owned();
    for (kind, other) in [("requests", "limits"), ("limits", "requests")] {
        let given = own["resources"][kind].as_object().cloned().unwrap_or_default();
        for (resource, amount) in given {
            let present = &container["resources"][other][&resource];
            let pair = quantity::parse(&amount).zip(quantity::parse(present));
            let apart = pair.is_some_and(|(amount, present)| match kind {
                "requests" => amount > present,
                _ => amount < present,
            });
            if !apart {
                continue;
            }
            let resources = own["resources"].as_object_mut();
            let others = resources.map(|own| own.entry(other).or_insert_with(|| json!({})));
            let Some(others) = others.and_then(Value::as_object_mut) else { continue };
            if !others.contains_key(&resource) {
                others.insert(resource.clone(), Value::Null);
                let (kind, other) = (kind.trim_end_matches('s'), other.trim_end_matches('s'));
                let message = format!(
                    "the user-supplied {resource} {kind} of container {name} ({amount}) conflicts \
                     with the injected {other} ({present}); the {other} is omitted"
                );
                let hint = format!("set a {resource} {other} too");
                warnings.push(Reason::new(words::OWN_RESOURCES, message).with_hint(hint));
            }
        }
    }
    warnings
}

/// Removes the name of an injected port if a user-supplied port has the same name. A port name is
/// unique in a container, and other objects refer to the user's.
fn port_names(own: &mut Value, container: &Value) -> Vec<Reason> {
    let name = own["name"].as_str().unwrap_or_default().to_owned();
    let Some(ports) = own.get_mut("ports").and_then(Value::as_array_mut) else {
        return Vec::new();
    };
    let named = |port: &Value, ports: &[Value]| {
        let same = |own: &Value| own["name"] == port["name"];
        let number = |own: &Value| own["containerPort"] == port["containerPort"];
        port["name"].is_string() && ports.iter().any(same) && !ports.iter().any(number)
    };
    let present = container["ports"].as_array().into_iter().flatten();
    let unnamed: Vec<_> = present.filter(|port| named(port, ports)).collect();
    ports.extend(
        unnamed.iter().map(|port| json!({"containerPort": port["containerPort"], "name": null})),
    );
    let warnings = unnamed.into_iter().map(|port| {
        let (port, number) = (&port["name"], &port["containerPort"]);
        let message = format!(
            "port {port} of container {name} is user-supplied; the injected port of that name \
             ({number}) loses the name"
        );
        Reason::new(words::OWN_PORT, message)
    });
    warnings.collect()
}

/// The capability as the API server compares it.
const ADMIN: &str = "CAP_SYS_ADMIN";
