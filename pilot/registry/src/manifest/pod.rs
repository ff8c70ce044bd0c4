//! Pods.

use std::net::IpAddr;
use std::sync::Arc;

use serde::Deserialize;

use super::{InvalidObject, Manifest, Metadata, ObjectDefaults};
use crate::locality::Locality;
use crate::pod::Pod;
use crate::workload::{Workload, WorkloadPort};

/// `Pod` of Kubernetes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodManifest {
    metadata: Metadata,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<Arc<str>>,
    service_account_name: Option<Arc<str>>,
    host_network: Option<bool>,
    hostname: Option<Arc<str>>,
    subdomain: Option<Arc<str>>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    ports: Option<Vec<Port>>,
    restart_policy: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Port {
    name: Option<Arc<str>>,
    #[serde(rename = "containerPort")]
    number: Option<u16>,
    protocol: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "podIPs")]
    pod_ips: Option<Vec<PodIp>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodIp {
    ip: Option<String>,
}

impl Manifest for PodManifest {
    type Object = Pod;
    const KIND: &'static str = "Pod";
    const API_VERSION: &'static str = "v1";
    const PLURAL: &'static str = "pods";

    fn metadata(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    fn convert(mut self, _: &ObjectDefaults) -> Result<Option<Pod>, InvalidObject> {
        let spec = self.spec.unwrap_or_default();
        let status = self.status.unwrap_or_default();
        let mut metadata = std::mem::take(&mut self.metadata);
        let own_locality = metadata.label("istio-locality").map(|text| locality(text));
        let takes_mtls = has_sidecar(&metadata);
        let account = spec.service_account_name.filter(|name| !name.is_empty());
        let is_finished = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
        let workload = Workload {
            name: metadata.name(),
            namespace: metadata.namespace(),
            owner: metadata.owner(),
            addresses: addresses(&status),
            service_account: account.unwrap_or_else(|| "default".into()),
            node: spec.node_name.unwrap_or_default(),
            locality: Locality::default(),
            takes_mtls,
            host_network: spec.host_network.unwrap_or_default(),
            hostname: spec.hostname.filter(|name| !name.is_empty()),
            subdomain: spec.subdomain.filter(|name| !name.is_empty()),
            ports: ports(spec.containers, spec.init_containers),
            labels: metadata.labels(),
        };
        let created = metadata.created();
        Ok(Some(Pod { workload, own_locality, created, is_finished }))
    }
}

/// True if a sidecar takes the pod's inbound connections. Where it captures none, they reach the
/// application, although injection writes the label.
fn has_sidecar(metadata: &Metadata) -> bool {
    metadata.label("security.istio.io/tlsMode").is_some_and(|mode| **mode == *"istio")
        && metadata.annotation("sidecar.istio.io/interceptionMode") != Some("NONE")
}

/// `region/zone/subzone`, in labels with `.` for `/`.
fn locality(text: &str) -> Locality {
    let separator = if text.contains('/') { '/' } else { '.' };
    let mut parts = text.splitn(3, separator).map(Arc::from);
    let mut next = || parts.next().unwrap_or_default();
    Locality { region: next(), zone: next(), subzone: next() }
}

fn addresses(status: &Status) -> Vec<IpAddr> {
    let all = status.pod_ips.iter().flatten().filter_map(|it| it.ip.as_deref());
    let mut addresses: Vec<IpAddr> = all.filter_map(|text| text.parse().ok()).collect();
    let primary = status.pod_ip.as_deref().and_then(|text| text.parse().ok());
    if let Some(primary) = primary.filter(|primary| !addresses.contains(primary)) {
        addresses.insert(0, primary);
    }
    addresses
}

/// Named ports of the containers, and of the init containers that run on beside them.
fn ports(containers: Option<Vec<Container>>, init: Option<Vec<Container>>) -> Arc<[WorkloadPort]> {
    let init = init.into_iter().flatten();
    let sidecars = init.filter(|it| it.restart_policy.as_deref() == Some("Always"));
    let containers = containers.into_iter().flatten().chain(sidecars);
    let ports = containers.flat_map(|container| container.ports.unwrap_or_default());
    let named = ports.filter_map(|port| {
        let is_udp = match port.protocol.as_deref() {
            None | Some("" | "TCP") => false,
            Some("UDP") => true,
            Some(_) => return None,
        };
        Some(WorkloadPort { name: port.name?, number: port.number?, is_udp })
    });
    named.collect()
}
