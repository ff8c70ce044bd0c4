//! Metrics, with Istio's names where they mean the same.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::certificates::CertificateMetrics;
use pilot_routing::peer_authentication::Reason;
use pilot_xds::type_urls::{CLUSTER, ENDPOINT, LISTENER, NAME_TABLE, ROUTE};
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Metric, Registry};

/// Metrics of the control plane. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Open streams.
    pub connected: Gauge,
    /// Responses by type.
    pub pushes: Family<TypeLabel, Count>,
    /// Resources of the responses, by type.
    pub resources: Family<TypeLabel, Count>,
    /// Bytes of the responses' resources, by type.
    pub sizes: Histograms,
    /// Requests with the nonce of an older response, by type.
    pub expired_nonces: Family<TypeLabel, Count>,
    /// NACKs by type.
    pub rejects: Family<TypeLabel, Count>,
    /// Seconds for which generated states wait for their stream.
    pub queue_time: Histogram,
    /// Seconds from a change to each response with it, by type.
    pub push_time: Histograms,
    /// Seconds from a change to the last ACK of a proxy.
    pub convergence: Histogram,
    /// Events of the registry and changes of settings.
    pub updates: Family<TypeLabel, Count>,
    /// Events of the registry by kind.
    pub events: Family<EventLabel, Count>,
    /// Settings and policies that are invalid.
    pub rejected: Family<KindLabel, Count>,
    /// Objects of Istio's kinds that have no effect.
    pub unread: Family<KindLabel, Gauge>,
    /// Publications by cause.
    pub triggers: Family<TypeLabel, Count>,
    /// Numbers of the mesh at the time of the page.
    pub mesh: MeshGauges,
    /// Objects that the registry had otherwise than the API server.
    pub drift: Family<KindLabel, Count>,
    /// Connections beyond the limit.
    pub refused: Count,
    /// Counters of the certificate service.
    pub certificates: CertificateMetrics,
}

/// Numbers of the published state.
#[derive(Clone, Debug, Default)]
pub struct MeshGauges {
    /// Services.
    pub services: Gauge,
    /// Balanced service ports without endpoints.
    pub without_endpoints: Gauge,
    /// Service ports whose address and port another service has.
    pub outbound_conflicts: Gauge,
    /// HTTP service ports without a listener, since the port is a proxy's own.
    pub proxy_port_conflicts: Gauge,
    /// Ports of connected proxies that several services claim with different protocols.
    pub inbound_conflicts: Gauge,
    /// Connected proxies without a pod.
    pub unknown_pods: Gauge,
    /// Endpoints that wait for the pod that their slice names.
    pub waiting_endpoints: Gauge,
    /// Connected proxies that take no connection, by a policy that is not enforced.
    pub closed_proxies: Gauge,
    /// Policies of mutual TLS, and parts of them, that decide nothing.
    pub ineffective_policies: Family<ReasonLabel, Gauge>,
}

/// Histograms by resource type.
type Histograms = Family<TypeLabel, Histogram, fn() -> Histogram>;

/// Name, labels and help of each family, for the registration and the reference page.
pub const METRICS: [(&str, &str, &str); 29] = [
    ("pilot_xds", "", "Streams of proxies"),
    ("pilot_xds_pushes", "type", "Responses sent to proxies"),
    ("pilot_xds_resources", "type", "Resources sent to proxies"),
    ("pilot_xds_config_size_bytes", "type", "Histogram: bytes of the resources of a response"),
    ("pilot_total_xds_rejects", "type", "Responses that proxies rejected"),
    (
        "pilot_xds_expired_nonce",
        "type",
        "Requests with the nonce of an older response than the one that waits for its ACK",
    ),
    (
        "pilot_proxy_queue_time",
        "",
        "Histogram: seconds from the end of a generation until the proxy's stream takes it",
    ),
    (
        "pilot_xds_push_time",
        "type",
        "Histogram: seconds from a change until a response with it is sent to a proxy",
    ),
    (
        "pilot_proxy_convergence_time",
        "",
        "Histogram: seconds from a change until a proxy has acknowledged all that follows from it",
    ),
    (
        "pilot_inbound_updates",
        "type",
        "Events of the registry (`registry`) and changes of settings (`config`)",
    ),
    (
        "pilot_k8s_reg_events",
        "type, event",
        "Events of the registry by kind; `list` is all objects of the kind at once",
    ),
    (
        "pilot_total_rejected_configs",
        "kind",
        "Invalid settings (`MeshConfig`) and policies (`PeerAuthentication`). Their last valid state \
         stays",
    ),
    (
        "pilot_push_triggers",
        "type",
        "Publications by cause: `service`, `endpoint`, `proxy` (a pod), `config` (a policy), `global` \
         (the settings of the mesh)",
    ),
    ("pilot_services", "", "Services of the mesh"),
    ("pilot_eds_no_instances", "", "Balanced service ports without endpoints"),
    (
        "pilot_conflict_outbound_listener_tcp_over_current_tcp",
        "",
        "Service ports of TCP whose address and port an older service has, in the views of connected \
         proxies",
    ),
    (
        "outrigger_conflict_outbound_listener_http_over_proxy_port",
        "",
        "Service ports of HTTP without a listener, since the port is a proxy's own: connections pass \
         through it",
    ),
    (
        "pilot_conflict_inbound_listener",
        "",
        "Ports of connected proxies that several services declare with different protocols; the \
         oldest decides",
    ),
    ("pilot_no_ip", "", "Connected proxies whose pod is not known"),
    (
        "endpoint_no_pod",
        "",
        "Addresses of services that get no connection, since the pod that their EndpointSlice names \
         is not known or has other addresses",
    ),
    (
        "outrigger_peer_authentication_without_effect",
        "reason",
        "Objects PeerAuthentication, and parts of them, that decide nothing; /debug/config says why",
    ),
    (
        "outrigger_objects_without_effect",
        "kind",
        "Objects of Istio's kinds that have no effect, by kind; a kind that may not be listed has no \
         series",
    ),
    (
        "outrigger_closed_proxies",
        "",
        "Connected proxies that take no connection, since an AuthorizationPolicy that is not \
         enforced selects them",
    ),
    (
        "pilot_registry_drift",
        "kind",
        "Objects that differed from the API server's lists, which are compared every ten minutes. \
         The watches of all objects begin again",
    ),
    (
        "pilot_refused_connections",
        "",
        "Connections that were closed at once, because their listener had `--maxConnections`",
    ),
    ("citadel_server_csr_count", "", "Requests for a certificate"),
    ("citadel_server_csr_parsing_err_count", "", "Certificate signing requests that are invalid"),
    ("citadel_server_csr_sign_err_count", "", "Certificates that the CA could not sign"),
    (
        "citadel_server_success_cert_issuance_count",
        "",
        "Certificates of workloads that were signed",
    ),
];

impl Default for Metrics {
    fn default() -> Self {
        let by_type = |new: fn() -> Histogram| Family::new_with_constructor(new);
        Self {
            connected: Gauge::default(),
            pushes: Family::default(),
            resources: Family::default(),
            sizes: by_type(|| Histogram::new(BYTES)),
            expired_nonces: Family::default(),
            rejects: series(REJECTED_TYPES.map(|r#type| TypeLabel { r#type })),
            queue_time: seconds(),
            push_time: by_type(seconds),
            convergence: seconds(),
            updates: Family::default(),
            events: Family::default(),
            rejected: series(CONFIGURED_KINDS.map(|kind| KindLabel { kind })),
            unread: Family::default(),
            triggers: Family::default(),
            mesh: MeshGauges {
                ineffective_policies: series(Reason::NAMES.map(|reason| ReasonLabel { reason })),
                ..MeshGauges::default()
            },
            drift: series(REGISTRY_KINDS.map(|kind| KindLabel { kind })),
            refused: Count::default(),
            certificates: CertificateMetrics::default(),
        }
    }
}

impl Metrics {
    /// Registry of all families.
    pub fn registry(&self) -> Registry {
        let mut page = Page(Registry::default());
        page.add("pilot_xds", &self.connected);
        page.add("pilot_xds_pushes", &self.pushes);
        page.add("pilot_xds_resources", &self.resources);
        page.add("pilot_xds_config_size_bytes", &self.sizes);
        page.add("pilot_total_xds_rejects", &self.rejects);
        page.add("pilot_xds_expired_nonce", &self.expired_nonces);
        page.add("pilot_proxy_queue_time", &self.queue_time);
        page.add("pilot_xds_push_time", &self.push_time);
        page.add("pilot_proxy_convergence_time", &self.convergence);
        page.add("pilot_inbound_updates", &self.updates);
        page.add("pilot_k8s_reg_events", &self.events);
        page.add("pilot_total_rejected_configs", &self.rejected);
        page.add("pilot_push_triggers", &self.triggers);
        let gauges = &self.mesh;
        page.add("pilot_services", &gauges.services);
        page.add("pilot_eds_no_instances", &gauges.without_endpoints);
        let tcp_conflicts = "pilot_conflict_outbound_listener_tcp_over_current_tcp";
        page.add(tcp_conflicts, &gauges.outbound_conflicts);
        let proxy_ports = "outrigger_conflict_outbound_listener_http_over_proxy_port";
        page.add(proxy_ports, &gauges.proxy_port_conflicts);
        page.add("pilot_conflict_inbound_listener", &gauges.inbound_conflicts);
        page.add("pilot_no_ip", &gauges.unknown_pods);
        page.add("endpoint_no_pod", &gauges.waiting_endpoints);
        let ineffective = "outrigger_peer_authentication_without_effect";
        page.add(ineffective, &gauges.ineffective_policies);
        page.add("outrigger_objects_without_effect", &self.unread);
        page.add("outrigger_closed_proxies", &gauges.closed_proxies);
        page.add("pilot_registry_drift", &self.drift);
        page.add("pilot_refused_connections", &self.refused);
        let CertificateMetrics { requests, invalid, unsigned, signed } = &self.certificates;
        page.add("citadel_server_csr_count", requests);
        page.add("citadel_server_csr_parsing_err_count", invalid);
        page.add("citadel_server_csr_sign_err_count", unsigned);
        page.add("citadel_server_success_cert_issuance_count", signed);
        page.0
    }
}

/// Registry in the making.
struct Page(Registry);

impl Page {
    fn add(&mut self, name: &str, metric: &(impl Metric + Clone)) {
        let help = METRICS.iter().find(|(of, ..)| *of == name).map_or("", |(.., help)| help);
        self.0.register(name, help, metric.clone());
    }
}

/// Counters and gauges at zero. Alerts see no increase where a series begins with its first event.
fn series<L, M, const N: usize>(labels: [L; N]) -> Family<L, M>
where
    L: Clone + Eq + Hash,
    M: Default,
{
    let family = Family::default();
    for label in labels {
        drop(family.get_or_create(&label));
    }
    family
}

const REJECTED_TYPES: [&str; 6] = ["cds", "eds", "lds", "rds", "nds", "other"];
const CONFIGURED_KINDS: [&str; 2] = ["MeshConfig", "PeerAuthentication"];
const REGISTRY_KINDS: [&str; 5] = ["EndpointSlice", "Namespace", "Node", "Pod", "Service"];

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

/// Bounds of times. Istio's begin at 0.1 seconds, the time for which it waits before it pushes.
const SECONDS: [f64; 12] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.5, 1.0, 3.0, 5.0, 10.0, 20.0, 30.0];
const BYTES: [f64; 6] = [1e3, 1e4, 1e5, 1e6, 4e6, 1e7];

/// Label of an event of the registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct EventLabel {
    /// Kind of the objects.
    pub r#type: &'static str,
    /// `list`, `update` or `delete`.
    pub event: &'static str,
}

/// Label of a reason.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReasonLabel {
    /// Reason.
    pub reason: &'static str,
}

/// Label of a kind of objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct KindLabel {
    /// Kind of the objects, or `MeshConfig`.
    pub kind: &'static str,
}

/// Label of a resource type, of a source or of a cause.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TypeLabel {
    /// `cds`, `eds`, `lds`, `rds`, `nds` or `other` for a resource type.
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

    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds a number.
    pub fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }
}

impl EncodeMetric for Count {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_gauge(&self.get())
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
        let Metrics { pushes, resources, rejects, updates, expired_nonces, triggers, .. } =
            &metrics;
        for family in [pushes, resources, rejects, updates, expired_nonces, triggers] {
            family.get_or_create(&TypeLabel::new(CLUSTER)).inc();
        }
        for family in [&metrics.sizes, &metrics.push_time] {
            family.get_or_create(&TypeLabel::new(CLUSTER)).observe(1.0);
        }
        let label = EventLabel { r#type: "Pod", event: "list" };
        metrics.events.get_or_create(&label).inc();
        metrics.unread.get_or_create(&KindLabel { kind: "Sidecar" }).set(1);
        for family in [&metrics.drift, &metrics.rejected] {
            family.get_or_create(&KindLabel { kind: "Pod" }).inc();
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &metrics.registry()).unwrap();
        assert!(text.contains("\npilot_xds_pushes{type=\"cds\"} 1\n"), "{text}");
        for (name, labels, _) in METRICS {
            assert!(text.contains(&format!("# HELP {name} ")), "{name}: {text}");
            let series = text.lines().find(|line| {
                let rest = line.strip_prefix(name);
                rest.is_some_and(|rest| {
                    [" ", "{", "_bucket{"].iter().any(|it| rest.starts_with(it))
                })
            });
            assert_eq!(labels_of(series.unwrap()).join(", "), labels, "{name}");
        }
    }

    /// Names of the labels of a line, without that of a histogram's bucket.
    fn labels_of(line: &str) -> Vec<&str> {
        let list = line.split_once('{').map_or("", |(_, rest)| rest.split('}').next().unwrap());
        let names = list.split(',').filter_map(|pair| Some(pair.split_once('=')?.0));
        names.filter(|name| *name != "le").collect()
    }

    #[test]
    fn counters_of_alerts_exist_before_their_first_event() {
        let mut text = String::new();
        let registry = Metrics::default().registry();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for series in [
            "pilot_total_xds_rejects{type=\"lds\"}",
            "pilot_total_rejected_configs{kind=\"PeerAuthentication\"}",
            "pilot_registry_drift{kind=\"Pod\"}",
            "pilot_refused_connections",
            "citadel_server_csr_sign_err_count",
        ] {
            assert!(text.contains(&format!("\n{series} 0\n")), "{series}: {text}");
        }
    }
}
