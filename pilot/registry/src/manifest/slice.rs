//! `EndpointSlices`.

use std::net::IpAddr;
use std::sync::Arc;

use serde::Deserialize;

use super::{InvalidObject, Manifest, Metadata, ObjectDefaults};
use crate::slice::{Condition, Slice, SliceEndpoint, SlicePort};

/// `EndpointSlice` of Kubernetes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SliceManifest {
    metadata: Metadata,
    address_type: Option<String>,
    ports: Option<Vec<Port>>,
    endpoints: Option<Vec<Part>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Port {
    name: Option<Arc<str>>,
    /// The API server takes any number.
    port: Option<i32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Part {
    addresses: Option<Vec<String>>,
    conditions: Option<Conditions>,
    hostname: Option<Arc<str>>,
    node_name: Option<Arc<str>>,
    target_ref: Option<Target>,
    zone: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Target {
    kind: Option<String>,
    namespace: Option<Arc<str>>,
    name: Option<Arc<str>>,
}

impl Manifest for SliceManifest {
    type Object = Slice;
    const KIND: &'static str = "EndpointSlice";
    const API_VERSION: &'static str = "discovery.k8s.io/v1";
    const PLURAL: &'static str = "endpointslices";

    fn metadata(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// Slices of names (`FQDN`), without a service, and of other clusters are of no use.
    fn convert(self, _: &ObjectDefaults) -> Result<Option<Slice>, InvalidObject> {
        let metadata = &self.metadata;
        let is_ip = matches!(self.address_type.as_deref(), Some("IPv4" | "IPv6"));
        let is_imported = metadata.label("multicluster.kubernetes.io/service-name").is_some();
        let service = metadata.label("kubernetes.io/service-name").cloned();
        let Some(service) = service.filter(|_| is_ip && !is_imported) else { return Ok(None) };
        let namespace = metadata.namespace();
        let ports = self.ports.into_iter().flatten().filter_map(|port| {
            let number = u16::try_from(port.port?).ok().filter(|number| *number != 0)?;
            Some(SlicePort { name: port.name.unwrap_or_default(), number })
        });
        let parts = self.endpoints.into_iter().flatten();
        let endpoints = parts.flat_map(|part| endpoints(part, &namespace)).collect();
        let ports = ports.collect();
        Ok(Some(Slice { name: metadata.name(), namespace, service, ports, endpoints }))
    }
}

fn endpoints(part: Part, namespace: &str) -> Vec<SliceEndpoint> {
    let conditions = part.conditions.unwrap_or_default();
    let condition = Condition::new(conditions.ready, conditions.serving, conditions.terminating);
    let pod = part.target_ref.filter(|target| {
        target.kind.as_deref() == Some("Pod")
            && target.namespace.as_deref().is_none_or(|of| of == namespace)
    });
    let pod = pod.and_then(|target| target.name);
    let addresses = part.addresses.into_iter().flatten();
    let addresses = addresses.filter_map(|text| text.parse::<IpAddr>().ok());
    let endpoint = |address| SliceEndpoint {
        address,
        condition,
        pod: pod.clone(),
        node: part.node_name.clone().unwrap_or_default(),
        zone: part.zone.clone().unwrap_or_default(),
        hostname: part.hostname.clone().filter(|name| !name.is_empty()),
    };
    addresses.map(endpoint).collect()
}
