//! Arguments of `discovery`.

use std::path::PathBuf;

use clap::builder::{BoolishValueParser, NonEmptyStringValueParser};
use clap::{ArgAction, Args, ValueEnum};
use pilot_registry::hostname::Hostname;

use super::{CertificateArgs, ListenAddress};

/// Arguments of `discovery`.
#[derive(Clone, Debug, Args)]
pub struct DiscoveryArgs {
    /// Source of services and pods
    #[arg(long, value_enum, value_name = "REGISTRY", default_value = "Kubernetes")]
    pub registries: RegistryKind,
    /// Directory of YAML files with Services, `EndpointSlices`, Pods, Nodes, Namespaces and objects
    /// of Istio, for the registry Files [default: none]
    #[arg(long = "configDir", value_name = "DIR", required_if_eq("registries", "Files"))]
    pub config_dir: Option<PathBuf>,
    /// File with the mesh configuration [default: the ConfigMap `istio` of the namespace, or of
    /// the revision `istio-REVISION`; Istio's defaults with the registry Files]
    #[arg(long = "meshConfig", value_name = "FILE")]
    pub mesh_config: Option<PathBuf>,
    /// Kubeconfig [default: the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the control plane
    #[arg(short, long, value_name = "NAME", default_value = "istio-system",
          value_parser = kube_access::names::label)]
    pub namespace: String,
    /// DNS domain of Services
    #[arg(long, default_value = "cluster.local", value_parser = domain)]
    pub domain: String,
    /// Revision that this control plane serves; empty for the default one
    #[arg(long, value_name = "NAME", default_value = "", value_parser = label_value)]
    pub revision: String,
    /// Name of the Kubernetes cluster
    #[arg(long = "clusterID", value_name = "NAME", default_value = "Kubernetes",
          value_parser = NonEmptyStringValueParser::new())]
    pub cluster_id: String,
    /// Address of the plaintext gRPC listener, without authentication; loopback only; empty to
    /// switch it off
    #[arg(long = "grpcAddr", value_name = "ADDRESS", default_value = "")]
    pub grpc_addr: ListenAddress,
    /// Allow addresses besides loopback for `--grpcAddr`: any client reads any configuration
    #[arg(long = "allowPlaintextGRPC", value_name = "true|false", num_args = 0..=1,
          require_equals = true, default_value = "false", default_missing_value = "true",
          hide_possible_values = true,
          value_parser = BoolishValueParser::new(), action = ArgAction::Set)]
    pub allow_plaintext: bool,
    /// Address of the gRPC listener with TLS; empty to switch it off [default: :15012, and none
    /// with the registry Files]
    #[arg(long = "secureGRPCAddr", value_name = "ADDRESS")]
    pub secure_grpc_addr: Option<ListenAddress>,
    /// Address of readiness and debug pages; only clients on loopback get the pages; empty to
    /// switch it off [default: :8080, and 127.0.0.1:8080 with the registry Files]
    #[arg(long = "httpAddr", value_name = "ADDRESS")]
    pub http_addr: Option<ListenAddress>,
    /// Address of the metrics; empty to switch it off [default: :15014, and 127.0.0.1:15014 with
    /// the registry Files]
    #[arg(long = "monitoringAddr", value_name = "ADDRESS")]
    pub monitoring_addr: Option<ListenAddress>,
    /// Connections of a listener, beyond which new ones are closed at once. A proxy needs one, and
    /// about 50 kB
    #[arg(long = "maxConnections", value_name = "NUMBER", default_value = "10000",
          value_parser = max_connections)]
    pub max_connections: usize,
    /// Leave workloads open that an `AuthorizationPolicy` selects. Its rules are not enforced, so
    /// without this flag such a workload takes no connection
    #[arg(long = "allow-unenforced-policies", value_name = "true|false", num_args = 0..=1,
          require_equals = true, default_value = "false", default_missing_value = "true",
          hide_possible_values = true,
          value_parser = BoolishValueParser::new(), action = ArgAction::Set)]
    pub allow_unenforced_policies: bool,
    /// Flags about certificates and authentication.
    #[command(flatten)]
    pub certificates: CertificateArgs,
}

/// Source of services and pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RegistryKind {
    /// The API server
    #[value(name = "Kubernetes")]
    Kubernetes,
    /// The files of --configDir
    #[value(name = "Files")]
    Files,
}

/// Addresses of listeners without TLS.
#[derive(Clone, Copy, Debug)]
pub struct PlainAddresses {
    /// `--grpcAddr`.
    pub grpc: ListenAddress,
    /// `--httpAddr`.
    pub http: ListenAddress,
    /// `--monitoringAddr`.
    pub monitoring: ListenAddress,
}

impl DiscoveryArgs {
    /// Returns a complaint about flags that exclude each other.
    pub fn conflict(&self) -> Option<String> {
        match self.registries {
            RegistryKind::Kubernetes if self.config_dir.is_some() => {
                return Some(
                    "--configDir: the API server is the source; hint: add --registries Files"
                        .to_owned(),
                );
            }
            RegistryKind::Files if self.kubeconfig.is_some() => {
                return Some("--kubeconfig: --registries Files uses no API server".to_owned());
            }
            _ => {}
        }
        if self.registries == RegistryKind::Files && self.secure_address().get().is_some() {
            return Some(
                "--secureGRPCAddr: tokens are reviewed by the API server, which --registries Files \
                 does without; hint: use --grpcAddr 127.0.0.1:15010"
                    .to_owned(),
            );
        }
        let plain = self.grpc_addr.get()?;
        (!plain.ip().is_loopback() && !self.allow_plaintext).then(|| {
            format!(
                "--grpcAddr {}: plaintext without authentication is served on loopback only; \
                 hint: use 127.0.0.1:{}, --secureGRPCAddr, or --allowPlaintextGRPC",
                self.grpc_addr,
                plain.port()
            )
        })
    }

    /// Addresses of the plain listeners, with their flags.
    pub fn plain_addresses(&self) -> PlainAddresses {
        let default = |port| match self.registries {
            RegistryKind::Kubernetes => ListenAddress::all(port),
            // Without a cluster, no kubelet and no Prometheus asks from elsewhere.
            RegistryKind::Files => ListenAddress::loopback(port),
        };
        PlainAddresses {
            grpc: self.grpc_addr,
            http: self.http_addr.unwrap_or(default(HTTP_PORT)),
            monitoring: self.monitoring_addr.unwrap_or(default(MONITORING_PORT)),
        }
    }

    /// Address of the gRPC listener with TLS.
    pub fn secure_address(&self) -> ListenAddress {
        self.secure_grpc_addr.unwrap_or(match self.registries {
            RegistryKind::Kubernetes => ListenAddress::all(SECURE_PORT),
            RegistryKind::Files => ListenAddress::OFF,
        })
    }
}

fn max_connections(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=1_000_000).contains(number));
    number.ok_or_else(|| "expected a number from 1 to 1000000".to_owned())
}

fn domain(text: &str) -> Result<String, String> {
    Hostname::parse(text).map(|name| name.to_string()).map_err(|error| error.to_string())
}

/// Validates the value of a Kubernetes label; an empty one is valid.
fn label_value(text: &str) -> Result<String, String> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric();
    let valid = text.len() <= 63
        && text.bytes().all(|byte| is_word(byte) || b"-_.".contains(&byte))
        && text.bytes().next().is_none_or(is_word)
        && text.bytes().next_back().is_none_or(is_word);
    if valid { Ok(text.to_owned()) } else { Err("expected the value of a label".to_owned()) }
}

const SECURE_PORT: u16 = 15012;
const HTTP_PORT: u16 = 8080;
const MONITORING_PORT: u16 = 15014;
