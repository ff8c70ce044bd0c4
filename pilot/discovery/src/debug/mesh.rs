//! Pages of the mesh.

use std::sync::Arc;

use pilot_registry::endpoint::Endpoint;
use pilot_registry::service::{ExportTo, Service};
use pilot_routing::peer_authentication::{PeerAuthentication, PeerAuthentications};
use serde_json::{Map, Value, json};

use crate::publish::Publisher;

/// All services.
pub(super) fn registry(publisher: &Publisher) -> Value {
    let services = publisher.state().map(|state| state.snapshot.services());
    services.into_iter().flatten().map(|service| service_json(service)).collect()
}

fn service_json(service: &Service) -> Value {
    let ports = service.ports.iter().map(|port| {
        json!({
            "name": *port.name,
            "port": port.number,
            "protocol": format!("{:?}", port.protocol),
            "targetPort": format!("{:?}", port.target),
        })
    });
    json!({
        "hostname": service.hostname.as_str(),
        "name": *service.name,
        "namespace": *service.namespace,
        "addresses": service.addresses,
        "ports": ports.collect::<Value>(),
        "resolution": format!("{:?}", service.resolution),
        "exportTo": format!("{:?}", service.export_to),
        "exportedTo": match &service.export_to {
            ExportTo::All => None,
            ExportTo::Namespaces(namespaces) => Some(texts(namespaces)),
        },
    })
}

/// Endpoints of all service ports.
pub(super) fn endpoints(publisher: &Publisher) -> Value {
    let Some(state) = publisher.state() else { return json!([]) };
    let ports = state.snapshot.services().flat_map(|service| {
        service.ports.iter().filter_map(|port| {
            let set = state.snapshot.endpoints(&service.hostname, port.number)?;
            Some(json!({
                "service": service.hostname.as_str(),
                "port": port.number,
                "endpoints": set
                    .endpoints
                    .iter()
                    .map(|endpoint| endpoint_json(endpoint, &state.policies))
                    .collect::<Value>(),
            }))
        })
    });
    ports.collect()
}

fn endpoint_json(endpoint: &Endpoint, policies: &PeerAuthentications) -> Value {
    let workload = endpoint.workload.as_deref();
    let locality = &endpoint.locality;
    let mode = workload.map(|it| policies.mode_at(&it.namespace, &it.labels, endpoint.port));
    json!({
        "address": endpoint.address,
        "port": endpoint.port,
        "health": format!("{:?}", endpoint.health),
        "locality": format!("{}/{}/{}", locality.region, locality.zone, locality.subzone),
        "node": *endpoint.node,
        "workload": workload.map(|it| format!("{}/{}", it.namespace, it.name)),
        "owner": workload.map(|it| it.owner.to_string()),
        "serviceAccount": workload.map(|it| it.service_account.to_string()),
        "takesMutualTls": workload.is_some_and(|it| it.takes_mtls),
        "mutualTlsMode": mode.map(|mode| format!("{mode:?}")),
    })
}

/// Settings and policies.
pub(super) fn config(publisher: &Publisher) -> Value {
    let Some(state) = publisher.state() else { return json!({}) };
    let mesh = &state.mesh;
    let ineffective = publisher.ineffective_policies();
    let without_effect = |policy: &PeerAuthentication| -> Vec<String> {
        let key = policy.key();
        let own = ineffective.iter().filter(|it| it.policy == key);
        own.map(|it| it.reason.to_string()).collect()
    };
    json!({
        "generation": state.snapshot.generation(),
        "mesh": {
            "rootNamespace": *mesh.root_namespace,
            "trustDomain": *mesh.trust_domain,
            "trustDomainAliases": texts(&mesh.trust_domain_aliases),
            "outboundTrafficPolicy": format!("{:?}", mesh.outbound_policy),
            "inboundToLocalhost": mesh.inbound_to_localhost,
            "enableAutoMtls": mesh.auto_mtls,
            "minTlsVersion": format!("{:?}", mesh.min_tls_version),
        },
        "views": publisher.views(),
        "peerAuthentications": publisher.policies().iter().map(|policy| json!({
            "namespace": *policy.namespace,
            "name": *policy.name,
            "mode": policy.mode.map(|mode| format!("{mode:?}")),
            "ports": policy.ports.iter().map(|(port, mode)| {
                (port.to_string(), mode.map(|mode| format!("{mode:?}")).into())
            }).collect::<Map<String, Value>>(),
            "withoutEffect": without_effect(policy),
        })).collect::<Value>(),
    })
}

fn texts(texts: &[Arc<str>]) -> Vec<&str> {
    texts.iter().map(|text| &**text).collect()
}
