//! Metrics, with Istio's names where they mean the same.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::certificates::CertificateMetrics;
use pilot_xds::type_urls::{CLUSTER, ENDPOINT, LISTENER, NAME_TABLE, ROUTE};
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;

/// Counters and gauges of the control plane. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Open streams.
    pub connected: Gauge,
    /// Responses by type.
    pub pushes: Family<TypeLabel, Count>,
    /// Resources of the responses, by type.
    pub resources: Family<TypeLabel, Count>,
    /// NACKs by type.
    pub rejects: Family<TypeLabel, Count>,
    /// Events of the registry and changes of settings.
    pub updates: Family<TypeLabel, Count>,
    /// Services of the mesh.
    pub services: Gauge,
    /// Objects that the registry had otherwise than the API server.
    pub drift: Family<KindLabel, Count>,
    /// Counters of the certificate service.
    pub certificates: CertificateMetrics,
}

/// Name, labels and help of each family, for the registration and the reference page.
pub const METRICS: [(&str, &str, &str); 10] = [
    ("pilot_xds", "", "Streams of proxies"),
    ("pilot_xds_pushes", "type", "Responses sent to proxies"),
    ("pilot_xds_resources", "type", "Resources sent to proxies"),
    ("pilot_total_xds_rejects", "type", "Responses that proxies rejected"),
    (
        "pilot_inbound_updates",
        "type",
        "Events of the registry (`registry`) and changes of settings (`config`)",
    ),
    ("pilot_services", "", "Services of the mesh"),
    (
        "pilot_registry_drift",
        "kind",
        "Objects that differed from the API server's lists, which are compared every ten minutes. \
         The watches of all objects begin again",
    ),
    ("citadel_server_csr_count", "", "Requests for a certificate"),
    ("citadel_server_csr_parsing_err_count", "", "Certificate signing requests that are invalid"),
    (
        "citadel_server_success_cert_issuance_count",
        "",
        "Certificates of workloads that were signed",
    ),
];

impl Metrics {
    /// Registry of all families.
    pub fn registry(&self) -> Registry {
        let mut registry = Registry::default();
        let Self { connected, pushes, resources, rejects, updates, services, drift, certificates } =
            self.clone();
        let [
            xds,
            xds_pushes,
            xds_resources,
            xds_rejects,
            inbound,
            known,
            lost,
            csrs,
            invalid,
            signed,
        ] = METRICS;
        registry.register(xds.0, xds.2, connected);
        registry.register(xds_pushes.0, xds_pushes.2, pushes);
        registry.register(xds_resources.0, xds_resources.2, resources);
        registry.register(xds_rejects.0, xds_rejects.2, rejects);
        registry.register(inbound.0, inbound.2, updates);
        registry.register(known.0, known.2, services);
        registry.register(lost.0, lost.2, drift);
        registry.register(csrs.0, csrs.2, certificates.requests);
        registry.register(invalid.0, invalid.2, certificates.invalid);
        registry.register(signed.0, signed.2, certificates.signed);
        registry
    }
}

/// Label of a kind of objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct KindLabel {
    /// `Service`, `EndpointSlice`, `Pod`, `Node`, `Namespace`.
    pub kind: &'static str,
}

/// Label of a resource type or of a source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TypeLabel {
    /// `cds`, `eds`, `lds`, `rds`, `nds`, or `other`.
    pub r#type: &'static str,
}

impl TypeLabel {
    /// Objects of the registry.
    pub const REGISTRY: Self = Self { r#type: "registry" };
    /// Settings.
    pub const CONFIG: Self = Self { r#type: "config" };

    /// Label of a resource type.
    pub fn new(type_url: &str) -> Self {
        let r#type = match type_url {
            CLUSTER => "cds",
            ENDPOINT => "eds",
            LISTENER => "lds",
            ROUTE => "rds",
            NAME_TABLE => "nds",
            _ => "other",
        };
        Self { r#type }
    }
}

/// Counter whose name has no `_total`, as Istio's. `OpenMetrics` allows that for unknown types
/// only.
#[derive(Clone, Debug, Default)]
pub struct Count(Arc<AtomicU64>);

impl Count {
    /// Adds one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds a number.
    pub fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }
}

impl EncodeMetric for Count {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_gauge(&self.0.load(Ordering::Relaxed))
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Unknown
    }
}

impl TypedMetric for Count {
    const TYPE: MetricType = MetricType::Unknown;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_istio() {
        let metrics = Metrics::default();
        for family in [&metrics.pushes, &metrics.resources, &metrics.rejects, &metrics.updates] {
            family.get_or_create(&TypeLabel::new(CLUSTER)).inc();
        }
        metrics.drift.get_or_create(&KindLabel { kind: "Pod" }).inc();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &metrics.registry()).unwrap();
        assert!(text.contains("\npilot_xds_pushes{type=\"cds\"} 1\n"), "{text}");
        for (name, ..) in METRICS {
            assert!(text.contains(&format!("# HELP {name} ")), "{name}: {text}");
        }
    }
}
