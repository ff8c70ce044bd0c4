//! Types of the settings in Envoy's bootstrap.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Settings in Envoy's bootstrap.
#[derive(Clone, Debug, PartialEq)]
pub struct BootstrapOptions {
    /// Connect timeout of the static clusters.
    pub connect_timeout: Duration,
    /// Envoy's log as JSON.
    pub json_log: bool,
    /// Statistics.
    pub statistics: StatisticsOptions,
    /// Tracer of listeners that name none.
    pub tracer: Option<Tracer>,
    /// Access log service for listeners that log to it.
    pub access_log_service: Option<RemoteService>,
    /// Sink of statistics over gRPC.
    pub metrics_service: Option<RemoteService>,
    /// Values of the static runtime layer: switches, numbers and texts.
    pub runtime: BTreeMap<String, RuntimeValue>,
    /// Limit of all downstream connections.
    pub downstream_connections: u64,
    /// True if the listeners for metrics and readiness do not count against that limit.
    pub bypass_overload: bool,
    /// File for events of outlier detection.
    pub outlier_log_path: Option<String>,
    /// Interval at which access logs are flushed, `fileFlushInterval`.
    pub file_flush_interval: Duration,
    /// Size at which access logs are flushed, `fileFlushMinSizeKb`.
    pub file_flush_size_kb: Option<u32>,
}

impl BootstrapOptions {
    /// Returns the files with certificates that Envoy reads when it starts, and not again.
    pub fn certificate_files(&self) -> Vec<PathBuf> {
        let tracer = self.tracer.as_ref().map(|(Tracer::Zipkin(it) | Tracer::Datadog(it))| it);
        let services = [tracer, self.access_log_service.as_ref(), self.metrics_service.as_ref()];
        let settings = services.into_iter().flatten().filter_map(|service| service.tls.as_ref());
        settings.flat_map(ClientTls::files).map(PathBuf::from).collect()
    }
}

/// Statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct StatisticsOptions {
    /// Prefixes of kept statistics, beside the default ones.
    pub prefixes: Vec<String>,
    /// Suffixes of kept statistics.
    pub suffixes: Vec<String>,
    /// Regular expressions of kept statistics.
    pub regexps: Vec<String>,
    /// Additional tags.
    pub extra_tags: Vec<String>,
    /// Bucket bounds of histograms, by prefix.
    pub buckets: BTreeMap<String, Vec<f64>>,
    /// Flush interval.
    pub flush_interval: Duration,
    /// Interval at which unused statistics are evicted, a multiple of the flush interval.
    pub eviction_interval: Option<Duration>,
    /// True if the metrics listener compresses.
    pub compression: bool,
    /// Address of a statsd server, UDP.
    pub statsd: Option<Address>,
}

/// Tracer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Tracer {
    /// Zipkin's HTTP API.
    Zipkin(RemoteService),
    /// Datadog's agent.
    Datadog(RemoteService),
}

/// Server outside the mesh that Envoy sends data to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RemoteService {
    /// Address.
    pub address: Address,
    /// TLS settings; `None` for plaintext.
    pub tls: Option<ClientTls>,
    /// TCP keep-alive.
    pub keepalive: Option<Keepalive>,
}

/// Host and port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Address {
    /// DNS name or IP address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// TLS settings of a client.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientTls {
    /// Client certificate and key.
    pub identity: TlsIdentity,
    /// File with the trusted CAs; `None` for the system's.
    pub ca_certificates: Option<String>,
    /// File with the certificate revocation list.
    pub ca_crl: Option<String>,
    /// Accepted names in the server's certificate; any if empty.
    pub subject_alt_names: Vec<String>,
    /// Server name that the client sends.
    pub sni: String,
    /// True if the server's certificate is not verified.
    pub insecure: bool,
}

impl ClientTls {
    fn files(&self) -> impl Iterator<Item = &String> {
        let pair = match &self.identity {
            TlsIdentity::Files { certificate, key } => [Some(certificate), Some(key)],
            TlsIdentity::None | TlsIdentity::Workload => [None, None],
        };
        pair.into_iter().chain([self.ca_certificates.as_ref(), self.ca_crl.as_ref()]).flatten()
    }
}

/// Certificate that a client presents.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TlsIdentity {
    /// No certificate, `SIMPLE`.
    None,
    /// Files, `MUTUAL`.
    Files {
        /// Certificate chain.
        certificate: String,
        /// Key.
        key: String,
    },
    /// Workload certificate and the mesh's roots, `ISTIO_MUTUAL`.
    Workload,
}

/// TCP keep-alive; unset fields have the kernel's defaults.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Keepalive {
    /// Number of probes.
    pub probes: Option<u32>,
    /// Idle time before the first probe, in seconds.
    pub time: Option<u32>,
    /// Time between probes, in seconds.
    pub interval: Option<u32>,
}

/// Value of a runtime key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RuntimeValue {
    /// `true` or `false`.
    Switch(bool),
    /// Any other text; Envoy parses numbers in it.
    Text(String),
}
