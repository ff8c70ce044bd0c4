//! Services.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;

use serde::Deserialize;

use super::{InvalidObject, Manifest, Metadata, ObjectDefaults};
use crate::hostname::{Hostname, InvalidHostname};
use crate::protocol::{Protocol, Transport};
use crate::service::{
    ExportTo, RegistryKind, Resolution, Service, ServicePort, TargetPort, TrafficDistribution,
};

/// `Service` of Kubernetes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceManifest {
    metadata: Metadata,
    spec: Option<Spec>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(rename = "type")]
    service_type: Option<String>,
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<String>,
    #[serde(rename = "clusterIPs")]
    cluster_ips: Option<Vec<String>>,
    external_name: Option<String>,
    internal_traffic_policy: Option<String>,
    ports: Option<Vec<Port>>,
    publish_not_ready_addresses: Option<bool>,
    selector: Option<BTreeMap<Arc<str>, Arc<str>>>,
    session_affinity: Option<String>,
    traffic_distribution: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Port {
    name: Option<Arc<str>>,
    #[serde(rename = "port")]
    number: u16,
    protocol: Option<String>,
    app_protocol: Option<String>,
    #[serde(rename = "targetPort")]
    target: Option<Target>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Target {
    Number(u16),
    Name(Arc<str>),
}

impl Manifest for ServiceManifest {
    type Object = Service;
    const KIND: &'static str = "Service";
    const API_VERSION: &'static str = "v1";
    const PLURAL: &'static str = "services";

    fn metadata(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    fn convert(self, defaults: &ObjectDefaults) -> Result<Option<Service>, InvalidObject> {
        let Self { metadata, spec } = self;
        let spec = spec.unwrap_or_default();
        let invalid = |problem: &dyn Display| InvalidObject::new::<Self>(&metadata, problem);
        let (name, namespace) = (metadata.name(), metadata.namespace());
        let hostname = Hostname::for_service(&name, &namespace, &defaults.domain);
        let resolution = resolution(&spec).map_err(|error| invalid(&error))?;
        let ports = ports(spec.ports.unwrap_or_default());
        if ports.iter().any(|port| port.number == 0) {
            return Err(invalid(&"a port without a number: expected 1–65535"));
        }
        let is_alias = matches!(resolution, Resolution::Alias(_));
        let has_label = |key| metadata.label(key).is_some();
        Ok(Some(Service {
            hostname: hostname.map_err(|error| invalid(&error))?,
            registry: RegistryKind::Kubernetes,
            ports,
            addresses: if is_alias {
                Vec::new()
            } else {
                addresses(spec.cluster_ips, spec.cluster_ip)
            },
            resolution,
            export_to: export_to(&metadata, defaults),
            created: metadata.created(),
            publish_not_ready: spec.publish_not_ready_addresses.unwrap_or_default(),
            node_local: spec.internal_traffic_policy.as_deref() == Some("Local"),
            distribution: distribution(spec.traffic_distribution.as_deref(), &metadata),
            client_affinity: spec.session_affinity.as_deref() == Some("ClientIP"),
            persistent_sessions: has_label("istio.io/persistent-session")
                || has_label("istio.io/persistent-session-header"),
            // Kubernetes ignores the selector of an alias.
            selector: spec.selector.filter(|_| !is_alias).into_iter().flatten().collect(),
            name,
            namespace,
        }))
    }
}

fn resolution(spec: &Spec) -> Result<Resolution, InvalidHostname> {
    if spec.service_type.as_deref() == Some("ExternalName") {
        let name = spec.external_name.as_deref().unwrap_or_default();
        return Hostname::parse(name.trim_end_matches('.')).map(Resolution::Alias);
    }
    Ok(match spec.cluster_ip.as_deref() {
        Some("None") => Resolution::OriginalDestination,
        _ => Resolution::ClientSide,
    })
}

/// Cluster addresses. Addresses of load balancers and `externalIPs` are for gateways.
fn addresses(all: Option<Vec<String>>, first: Option<String>) -> Vec<IpAddr> {
    let all = all.filter(|all| !all.is_empty()).unwrap_or_else(|| first.into_iter().collect());
    let addresses = all.iter().filter_map(|text| text.parse().ok());
    // An unspecified address would be that of the proxy's own listeners.
    addresses.filter(|address: &IpAddr| !address.is_unspecified()).collect()
}

/// Ports of TCP and UDP.
fn ports(ports: Vec<Port>) -> Vec<ServicePort> {
    let ports = ports.into_iter().filter_map(|port| {
        let transport = match port.protocol.as_deref() {
            None | Some("" | "TCP") => Transport::Tcp,
            Some("UDP") => Transport::Udp,
            Some(_) => return None,
        };
        let name = port.name.unwrap_or_default();
        let app_protocol = port.app_protocol.as_deref();
        let target = match port.target {
            None | Some(Target::Number(0)) => TargetPort::Number(port.number),
            Some(Target::Number(number)) => TargetPort::Number(number),
            Some(Target::Name(name)) => TargetPort::Name(name),
        };
        let protocol = Protocol::of_port(transport, app_protocol, &name, port.number);
        Some(ServicePort { name, number: port.number, protocol, target })
    });
    ports.collect()
}

fn export_to(metadata: &Metadata, defaults: &ObjectDefaults) -> ExportTo {
    let annotation = metadata.annotation("networking.istio.io/exportTo");
    let annotation = annotation.filter(|text| !text.trim().is_empty());
    let words: Vec<&str> = match annotation {
        Some(text) => text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect(),
        None if defaults.export_to.is_empty() => return ExportTo::All,
        None => defaults.export_to.iter().map(String::as_str).collect(),
    };
    if words.contains(&"*") {
        return ExportTo::All;
    }
    let mut namespaces: Vec<Arc<str>> = words
        .into_iter()
        .filter(|word| *word != "~")
        .map(|word| if word == "." { metadata.namespace() } else { word.into() })
        .collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    ExportTo::Namespaces(namespaces)
}

/// Preference by `spec.trafficDistribution`, else by the annotation.
fn distribution(field: Option<&str>, metadata: &Metadata) -> TrafficDistribution {
    let annotation = || metadata.annotation("networking.istio.io/traffic-distribution");
    let Some(word) = field.or_else(annotation) else { return TrafficDistribution::Any };
    match word.to_ascii_lowercase().as_str() {
        "preferclose" | "prefersamezone" => TrafficDistribution::PreferSameZone,
        "prefersamenode" => TrafficDistribution::PreferSameNode,
        _ => TrafficDistribution::Any,
    }
}
