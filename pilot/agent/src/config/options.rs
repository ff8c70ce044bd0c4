//! Types of the settings of each part.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use mesh::proxy_config::ProxyConfig;
use mesh::spiffe::TrustDomain;
use serde_json::{Map, Value};

use super::bootstrap_options::BootstrapOptions;

/// Everything that the agent knows when it starts. All layers are merged and parsed.
#[derive(Clone, Debug)]
pub struct Config {
    /// Role of Envoy.
    pub role: Role,
    /// Files and folders.
    pub paths: Paths,
    /// The pod that the agent runs in.
    pub pod: Pod,
    /// Labels of the pod.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pod.
    pub annotations: BTreeMap<String, String>,
    /// Merged `ProxyConfig`.
    pub proxy_config: ProxyConfig,
    /// Metadata of the node as variables set it: `ISTIO_META_*` and `ISTIO_METAJSON_*`.
    pub metadata: Map<String, Value>,
    /// Envoy's process; `None` with `DISABLE_ENVOY`.
    pub envoy: Option<EnvoyOptions>,
    /// Settings in Envoy's bootstrap.
    pub bootstrap: BootstrapOptions,
    /// File with the bootstrap for gRPC applications; `None` if Envoy runs.
    pub grpc_bootstrap: Option<PathBuf>,
    /// Connection to the control plane.
    pub discovery: DiscoveryOptions,
    /// Workload certificate.
    pub certificates: CertificateOptions,
    /// Status port; `None` if it is 0.
    pub status: Option<StatusOptions>,
    /// DNS proxy; `None` unless names are captured.
    pub dns: Option<DnsOptions>,
    /// Draining at shutdown.
    pub drain: DrainOptions,
}

/// Role of Envoy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// Sidecar of an application, whose connections it captures.
    Sidecar,
    /// Gateway, which captures no connections.
    Router,
}

/// Files and folders, as Istio's agent has them. Relative paths start at the working directory,
/// which is `/` in a container.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Writable folder with bootstraps and the relay's socket: `etc/istio/proxy`.
    pub configuration: PathBuf,
    /// The pod's labels and annotations: `etc/istio/pod`.
    pub pod_info: PathBuf,
    /// The `ServiceAccount` token: `var/run/secrets/tokens/istio-token`.
    pub token: PathBuf,
    /// Root certificate of the control plane: `var/run/secrets/istio/root-cert.pem`.
    pub mesh_root: PathBuf,
    /// Certificate revocation list: `var/run/secrets/istio/crl/ca-crl.pem`.
    pub crl: PathBuf,
    /// Folder of the SDS socket: `var/run/secrets/workload-spiffe-uds`.
    pub workload_socket_folder: PathBuf,
    /// Folder of a mounted workload certificate: `var/run/secrets/workload-spiffe-credentials`.
    pub workload_credentials: PathBuf,
    /// Socket of a provider of gateway credentials: `var/run/secrets/credential-uds/socket`.
    pub credential_socket: PathBuf,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            configuration: "etc/istio/proxy".into(),
            pod_info: "etc/istio/pod".into(),
            token: "var/run/secrets/tokens/istio-token".into(),
            mesh_root: "var/run/secrets/istio/root-cert.pem".into(),
            crl: "var/run/secrets/istio/crl/ca-crl.pem".into(),
            workload_socket_folder: "var/run/secrets/workload-spiffe-uds".into(),
            workload_credentials: "var/run/secrets/workload-spiffe-credentials".into(),
            credential_socket: "var/run/secrets/credential-uds/socket".into(),
        }
    }
}

/// The pod that the agent runs in.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Name of the pod.
    pub name: String,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of its `ServiceAccount`.
    pub service_account: String,
    /// Addresses; the first is `INSTANCE_IP`.
    pub addresses: Vec<IpAddr>,
    /// Trust domain of its SPIFFE identity.
    pub trust_domain: TrustDomain,
    /// Cluster id of the mesh, `Kubernetes` by default.
    pub cluster_id: String,
    /// DNS domain of the proxy: `NAMESPACE.svc.cluster.local` by default.
    pub domain: String,
    /// `sidecar~ADDRESS~POD.NAMESPACE~DOMAIN`, as `node.id` has it.
    pub node_id: String,
}

impl Pod {
    /// Returns the loopback address of the pod's first family: of Envoy's admin interface among
    /// others.
    pub fn loopback(&self) -> IpAddr {
        match self.addresses.first() {
            Some(IpAddr::V6(_)) => Ipv6Addr::LOCALHOST.into(),
            _ => Ipv4Addr::LOCALHOST.into(),
        }
    }
}

/// Envoy's process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EnvoyOptions {
    /// Path of the program.
    pub binary: PathBuf,
    /// Base id of the shared memory: equal in all epochs, different for each agent of a pod.
    pub base_id: u32,
    /// Port of its admin interface.
    pub admin_port: u16,
    /// Port of the readiness listener, `ENVOY_STATUS_PORT`.
    pub readiness_port: u16,
    /// Port of the statistics listener, `ENVOY_PROMETHEUS_PORT`.
    pub prometheus_port: u16,
    /// Log level.
    pub log_level: String,
    /// Log levels of components, `misc:error` by default.
    pub component_log_level: Option<String>,
    /// Number of worker threads; `None` for one per CPU of the host.
    pub concurrency: Option<u32>,
    /// Drain time of a hot restart and of drained listeners: `--drain-time-s`.
    pub drain_time: Duration,
    /// Life of the old Envoy after a hot restart, longer than `drain_time`.
    pub parent_shutdown_time: Duration,
    /// File that Envoy merges over the bootstrap, `ISTIO_BOOTSTRAP_OVERRIDE`.
    pub bootstrap_override: Option<PathBuf>,
    /// True unless hot restart is disabled.
    pub hot_restart: bool,
    /// Exit after draining where a changed bootstrap cannot be applied by a hot restart.
    pub exit_on_changed_bootstrap: bool,
}

/// Connection to the control plane.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches of the environment")]
pub struct DiscoveryOptions {
    /// `HOST:PORT` of the control plane.
    pub address: String,
    /// Name to verify in its certificate, `ISTIOD_SAN`; the host of the address by default.
    pub server_name: Option<String>,
    /// Root certificate of the control plane.
    pub root: RootSource,
    /// Sends the token; with `PROV_CERT` the workload certificate authenticates instead.
    pub send_token: bool,
    /// Delta xDS, unless `ISTIO_DELTA_XDS=false`.
    pub delta: bool,
    /// Subscribes to `ProxyConfig` for additional roots, `PROXY_CONFIG_XDS_AGENT`.
    pub additional_roots: bool,
    /// Additional headers, from `XDS_HEADER_*`.
    pub headers: Vec<(String, String)>,
    /// True if the connection is not encrypted: the address has port 15010, or
    /// `controlPlaneAuthPolicy` is `NONE`.
    pub plaintext: bool,
}

/// Source of a root certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RootSource {
    /// A PEM file.
    File(PathBuf),
    /// The system's roots.
    System,
}

/// Workload certificate.
#[derive(Clone, Debug)]
pub struct CertificateOptions {
    /// `HOST:PORT` of the certificate service.
    pub ca_address: String,
    /// Root certificate of the certificate service.
    pub ca_root: RootSource,
    /// Name to verify in its certificate; the host of the address by default.
    pub server_name: Option<String>,
    /// Additional headers, from `CA_HEADER_*`.
    pub headers: Vec<(String, String)>,
    /// Requested lifetime, `SECRET_TTL`.
    pub lifetime: Duration,
    /// Remaining fraction of the lifetime at rotation, `SECRET_GRACE_PERIOD_RATIO`.
    pub grace_ratio: f64,
    /// Random deviation of the ratio, `SECRET_GRACE_PERIOD_RATIO_JITTER`.
    pub grace_jitter: f64,
    /// Key of a certificate signing request.
    pub key: KeyAlgorithm,
    /// PKCS #8 form of the key, `PKCS8_KEY`.
    pub pkcs8: bool,
    /// True if the certificates are mounted files, `FILE_MOUNTED_CERTS`.
    pub file_mounted: bool,
    /// Folder of a certificate that authenticates to the certificate service, `PROV_CERT`.
    pub provisioned: Option<PathBuf>,
    /// Folder for copies of key and certificates, `OUTPUT_CERTS`.
    pub output: Option<PathBuf>,
    /// Name of an SDS socket that another program may serve, `WORKLOAD_IDENTITY_SOCKET_FILE`.
    pub socket_file: String,
    /// Delay after a change of a file, `FILE_DEBOUNCE_DURATION`.
    pub file_debounce: Duration,
}

/// Key of a certificate signing request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KeyAlgorithm {
    /// ECDSA P-256.
    EcdsaP256,
    /// ECDSA P-384.
    EcdsaP384,
}

/// Status port.
#[derive(Clone, Debug)]
pub struct StatusOptions {
    /// The port.
    pub port: u16,
    /// `ISTIO_KUBE_APP_PROBERS`, a JSON object.
    pub app_probers: Option<String>,
    /// `ISTIO_PROMETHEUS_ANNOTATIONS`, a JSON object.
    pub prometheus_annotations: Option<String>,
    /// Annotation `prometheus.istio.io/scrape-targets`.
    pub scrape_targets: Option<String>,
    /// Probes go to 127.0.0.1, `REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION`.
    pub probe_localhost: bool,
    /// Statistics are served to loopback alone, `METRICS_LOCALHOST_ACCESS_ONLY`.
    pub metrics_on_loopback_only: bool,
}

/// DNS proxy.
#[derive(Clone, Debug)]
pub struct DnsOptions {
    /// Addresses to serve, UDP and TCP; `DNS_PROXY_ADDR`.
    pub listen: Vec<SocketAddr>,
    /// The resolver's configuration, `/etc/resolv.conf`.
    pub resolv_conf: PathBuf,
    /// Asks all servers at once, `DNS_FORWARD_PARALLEL`.
    pub forward_parallel: bool,
    /// Timeout of one forwarded query, `DNS_FORWARD_TIMEOUT`.
    pub forward_timeout: Duration,
    /// Forwards queries before the first name table: as the pod's only resolver (port 53), so that
    /// the agent finds its control plane; without Envoy, since nothing asks for the table until the
    /// application opens an xDS stream.
    pub forwards_before_table: bool,
}

/// Draining at shutdown.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DrainOptions {
    /// `terminationDrainDuration` of `ProxyConfig`, 5 s by default.
    pub duration: Duration,
    /// `MINIMUM_DRAIN_DURATION`, 5 s by default.
    pub minimum: Duration,
    /// `EXIT_ON_ZERO_ACTIVE_CONNECTIONS`.
    pub exit_on_zero_connections: bool,
}

impl DrainOptions {
    /// True if the drain can last longer than its minimum, and ends with the last connection.
    pub fn waits_for_connections(&self) -> bool {
        self.exit_on_zero_connections || self.duration > self.minimum
    }
}
