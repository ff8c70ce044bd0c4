//! Services of a mesh, from the debug pages of the control plane.

use std::collections::BTreeMap;

use anyhow::{Context as _, anyhow};
use serde::Deserialize;
use serde_json::{Value, json};

use super::service_node::{Callers, PortNode, ServiceNode};
use crate::table::table;

/// Services of a mesh in the order of namespace and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MeshGraph {
    pub(super) services: Vec<ServiceNode>,
}

/// A service of `/debug/registry`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RegistryService {
    hostname: String,
    name: String,
    namespace: String,
    ports: Vec<RegistryPort>,
    /// Namespaces; `None` for all.
    exported_to: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct RegistryPort {
    name: String,
    port: u64,
    protocol: String,
}

/// Endpoints of a service port in `/debug/endpoints`.
#[derive(Debug, Deserialize)]
struct PortEndpoints {
    service: String,
    port: u64,
    endpoints: Vec<PageEndpoint>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageEndpoint {
    address: String,
    owner: Option<String>,
    takes_mutual_tls: bool,
    mutual_tls_mode: Option<String>,
}

impl MeshGraph {
    /// Parses the pages. `namespace` selects services; an empty one selects all.
    pub(super) fn parse(
        registry: &Value,
        endpoints: &Value,
        namespace: &str,
    ) -> anyhow::Result<Self> {
        let foreign = |page: &str| {
            format!("{page}: not the page of this product's control plane: of an istiod?")
        };
        let services: Vec<RegistryService> =
            Deserialize::deserialize(registry).with_context(|| foreign("/debug/registry"))?;
        let sets: Vec<PortEndpoints> =
            Deserialize::deserialize(endpoints).with_context(|| foreign("/debug/endpoints"))?;
        let sets: BTreeMap<(&str, u64), &[PageEndpoint]> =
            sets.iter().map(|set| ((&*set.service, set.port), &*set.endpoints)).collect();
        let mut nodes = Vec::new();
        for service in &services {
            if !namespace.is_empty() && service.namespace != namespace {
                continue;
            }
            let ports = service.ports.iter().map(|port| {
                let endpoints = sets.get(&(&*service.hostname, port.port)).copied();
                port_node(port, endpoints.unwrap_or_default())
            });
            nodes.push(ServiceNode {
                namespace: service.namespace.clone(),
                name: service.name.clone(),
                exported_to: service.exported_to.clone(),
                ports: ports.collect(),
            });
        }
        if nodes.is_empty() && !namespace.is_empty() {
            return Err(anyhow!("the control plane knows no Service in namespace {namespace}"));
        }
        nodes.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        Ok(Self { services: nodes })
    }

    /// Returns a table, one row for each port.
    pub(super) fn text(&self) -> String {
        let mut rows = Vec::new();
        for service in &self.services {
            rows.extend(service.ports.iter().map(|port| {
                [
                    service.namespace.clone(),
                    service.name.clone(),
                    port.title(),
                    service.callers(port),
                    port.callers.protection().to_owned(),
                    port.workload_words(),
                ]
            }));
        }
        let header = ["NAMESPACE", "SERVICE", "PORT", "CALLERS", "BY", "ENDPOINTS"];
        table(&header, &rows)
    }

    /// Returns a sentence for each port.
    pub(super) fn sentences(&self) -> String {
        let of_service = |service: &ServiceNode| {
            let sentence = |port: &PortNode| {
                let ServiceNode { namespace, name, .. } = service;
                let (callers, title) = (service.callers(port), port.title());
                let by = port.callers.protection();
                format!("Service {namespace}/{name}, port {title}: {callers}, {by}.")
            };
            service.ports.iter().map(sentence).collect::<Vec<_>>()
        };
        self.services.iter().flat_map(of_service).collect::<Vec<_>>().join(" ")
    }

    /// Returns the graph for programs.
    pub(super) fn json(&self) -> Value {
        json!({ "services": self.services })
    }
}

fn port_node(port: &RegistryPort, endpoints: &[PageEndpoint]) -> PortNode {
    let mut workloads = BTreeMap::new();
    let mut callers = Callers::NoEndpoint;
    for endpoint in endpoints {
        let name = endpoint.owner.as_ref().unwrap_or(&endpoint.address);
        *workloads.entry(name.clone()).or_default() += 1;
        let mode = endpoint.mutual_tls_mode.as_deref().unwrap_or_default();
        callers = callers.and(Callers::of_endpoint(endpoint.takes_mutual_tls, mode));
    }
    PortNode {
        port: port.port,
        name: port.name.clone(),
        protocol: port.protocol.to_uppercase(),
        callers,
        workloads,
    }
}
