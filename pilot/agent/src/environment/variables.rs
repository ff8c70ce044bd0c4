//! Table of the environment variables.

/// An environment variable.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Variable {
    /// Name.
    pub name: &'static str,
    /// Value that applies if the variable is unset; empty for none.
    pub default: &'static str,
    /// Meaning, for the reference page.
    pub meaning: &'static str,
    /// Effect on the agent.
    pub effect: Effect,
}

/// Effect of a variable on the agent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// The agent, or Envoy, uses it.
    Used,
    /// It has no effect, as expected; the reason is logged with level debug.
    Expected(&'static str),
    /// Its function does not exist; the reason is logged as a warning.
    Missing(&'static str),
}

/// Variables with a common prefix.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Family {
    /// Prefix of the names.
    pub prefix: &'static str,
    /// Meaning, for the reference page.
    pub meaning: &'static str,
}

/// Returns true if the agent knows a variable, alone or as one of a family.
pub fn is_known(name: &str) -> bool {
    VARIABLES.iter().any(|variable| variable.name == name)
        || FAMILIES.iter().any(|family| name.starts_with(family.prefix))
}

/// Returns true if the agent itself uses a variable, alone or as one of a family.
pub fn is_used(name: &str) -> bool {
    let families = [ISTIO_META, ISTIO_METAJSON, XDS_HEADERS, CA_HEADERS];
    VARIABLES.iter().any(|variable| variable.name == name && variable.effect == Effect::Used)
        || families.iter().any(|family| name.starts_with(family.prefix))
}

macro_rules! variables {
    ($($name:ident = $default:literal, $effect:expr, $meaning:literal;)*) => {
        $(
            #[doc = $meaning]
            pub const $name: &Variable = &Variable {
                name: stringify!($name), default: $default, meaning: $meaning, effect: $effect,
            };
        )*

        /// The whole table.
        pub const VARIABLES: &[&Variable] = &[$($name),*];
    };
}

macro_rules! families {
    ($($name:ident = $prefix:literal, $meaning:literal;)*) => {
        $(
            #[doc = $meaning]
            pub const $name: &Family = &Family { prefix: $prefix, meaning: $meaning };
        )*

        /// All families.
        pub const FAMILIES: &[&Family] = &[$($name),*];
    };
}

use Effect::{Expected, Missing, Used};

const GO: Effect = Expected("the program is not written in Go");
const GOOGLE: Effect = Missing("Google's platform is not supported");

#[rustfmt::skip]
variables! {
    // Place and identity.
    INSTANCE_IP = "", Used, "First address of the pod; without it the addresses of the network interfaces apply";
    POD_NAME = "", Used, "Name of the pod; required";
    POD_NAMESPACE = "", Used, "Namespace of the pod; required";
    SERVICE_ACCOUNT = "", Used, "Name of the pod's `ServiceAccount`";
    HOST_IP = "", Used, "Address of the node; replaces `$(HOST_IP)` in addresses of tracers";
    POD_UID = "", Used, "UID of the pod; part of Envoy's base id";
    CONTAINER_NAME = "istio-proxy", Used, "Name of the agent's container; part of Envoy's base id";
    TRUST_DOMAIN = "", Used, "Trust domain; without it that of the mesh file, or `cluster.local`";
    CLUSTER_ID = "", Used, "Cluster id; without it `ISTIO_META_CLUSTER_ID`, or `Kubernetes`";
    ISTIO_CPU_LIMIT = "", Used, "CPU limit in whole CPUs: number of Envoy's worker threads, unless `concurrency` is set";
    PROXY_CONFIG = "", Used, "Layer of `ProxyConfig` in JSON or YAML, written by the injector";

    // Control plane and certificates.
    PILOT_CERT_PROVIDER = "istiod", Used, "Source of the control plane's root certificate: `istiod` (`var/run/secrets/istio/root-cert.pem`), `kubernetes` (that of the API server), `custom` (`etc/certs/root-cert.pem`), or `none` (the system's)";
    CA_ADDR = "", Used, "`HOST:PORT` of the certificate service; without it that of the control plane, with port 15012";
    CA_PROVIDER = "Citadel", Used, "Certificate service; `Citadel` alone is supported";
    XDS_ROOT_CA = "", Used, "File with the control plane's root certificates, or `SYSTEM`";
    CA_ROOT_CA = "", Used, "File with the certificate service's root certificates, or `SYSTEM`";
    PROV_CERT = "", Used, "Folder with a certificate that authenticates to the control plane instead of the token";
    OUTPUT_CERTS = "", Used, "Folder for copies of the key and the certificates";
    SECRET_TTL = "24h", Used, "Requested lifetime of the workload certificate";
    SECRET_GRACE_PERIOD_RATIO = "0.5", Used, "Fraction of the lifetime that remains at rotation";
    SECRET_GRACE_PERIOD_RATIO_JITTER = "0.01", Used, "Random deviation of that fraction";
    WORKLOAD_RSA_KEY_SIZE = "2048", Missing("keys are ECDSA, P-256 by default"), "Size of an RSA key";
    ECC_SIGNATURE_ALGORITHM = "ECDSA", Used, "Algorithm of the key; `ECDSA` alone is supported";
    ECC_CURVE = "P256", Used, "Curve of the key: `P256` or `P384`";
    PKCS8_KEY = "false", Used, "PKCS #8 form of the key in files and SDS";
    FILE_MOUNTED_CERTS = "false", Used, "The workload certificate is mounted files, and none is requested";
    FILE_DEBOUNCE_DURATION = "100ms", Used, "Delay after a change of a mounted certificate";
    WORKLOAD_IDENTITY_SOCKET_FILE = "socket", Used, "File name of an SDS socket that another program may serve";
    ISTIOD_SAN = "", Used, "Name to verify in the control plane's certificate, instead of its host";
    JWT_POLICY = "third-party-jwt", Used, "Token to send: `third-party-jwt` (`var/run/secrets/tokens/istio-token`) or `first-party-jwt` (that of the API server)";

    // Functions.
    DNS_PROXY_ADDR = "localhost:15053", Used, "Address of the DNS proxy";
    DNS_FORWARD_PARALLEL = "false", Used, "Forward a query to all servers at once";
    DNS_FORWARD_TIMEOUT = "5s", Used, "Timeout of a forwarded query";
    ISTIO_DELTA_XDS = "true", Used, "Delta xDS instead of state of the world";
    PROXY_CONFIG_XDS_AGENT = "false", Used, "Ask the control plane for additional roots (`caCertificatesPem`)";
    GRPC_XDS_BOOTSTRAP = "etc/istio/proxy/grpc-bootstrap.json", Used, "File with the bootstrap for gRPC applications, written with `DISABLE_ENVOY`";
    DISABLE_ENVOY = "false", Used, "Run without Envoy, for an application that speaks xDS itself";
    ISTIO_BOOTSTRAP_OVERRIDE = "", Used, "File that Envoy merges over the bootstrap";
    ISTIO_KUBE_APP_PROBERS = "", Used, "Probes and hooks of the application, written by the injector";
    ISTIO_PROMETHEUS_ANNOTATIONS = "", Used, "Scheme, port and path of the application's metrics, written by the injector";
    ENVOY_STATUS_PORT = "15021", Used, "Port of Envoy's readiness listener";
    ENVOY_PROMETHEUS_PORT = "15090", Used, "Port of Envoy's metrics listener";
    METRICS_LOCALHOST_ACCESS_ONLY = "false", Used, "Serve metrics to loopback alone";
    REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION = "false", Used, "Send the application's probes to 127.0.0.1 instead of the pod's address";
    ISTIO_DUAL_STACK = "false", Expected("the pod's addresses decide its families"), "Dual stack";

    // Shutdown and restart.
    MINIMUM_DRAIN_DURATION = "5s", Used, "Minimum of the drain time where draining ends with the last connection";
    EXIT_ON_ZERO_ACTIVE_CONNECTIONS = "false", Used, "Draining ends with the last connection";
    OUTRIGGER_HOT_RESTART = "true", Used, "Apply a changed bootstrap by a hot restart; the flag `--hotRestart` overrides it";
    OUTRIGGER_EXIT_ON_BOOTSTRAP_CHANGE = "false", Used, "Drain and exit where a changed bootstrap cannot be applied by a hot restart; the flag `--exitOnBootstrapChange` overrides it";

    // Read by Envoy, which inherits the environment.
    OTEL_RESOURCE_ATTRIBUTES = "", Used, "Attributes of Envoy's spans; Envoy reads it";

    // Without effect.
    GOMEMLIMIT = "", GO, "Memory limit of Go programs";
    GODEBUG = "", GO, "Settings of Go programs";
    GOMAXPROCS = "", GO, "Threads of Go programs";
    COMPLIANCE_POLICY = "", Missing("cryptography is ring's, which is not certified; Envoy's TLS settings come from the control plane"), "Cryptographic compliance";
    CREDENTIAL_FETCHER_TYPE = "", GOOGLE, "Platform that issues the token";
    CREDENTIAL_IDENTITY_PROVIDER = "", GOOGLE, "Identity provider of that token";
    XDS_AUTH_PROVIDER = "", GOOGLE, "Platform that issues the token for the control plane";
    GCP_METADATA = "", GOOGLE, "Project and location on Google's platform";
    GKE_CLUSTER_URL = "", GOOGLE, "URL of a GKE cluster";
    CLOUD_PLATFORM = "", Missing("no platform's metadata is read; set ISTIO_META_* instead"), "Platform whose metadata service is asked";
    SPIFFE_BUNDLE_ENDPOINTS = "", Missing("trust bundles come from the control plane"), "Trust domains and the URLs of their bundles";
    ISTIO_BOOTSTRAP = "", Missing("the bootstrap is no template; hint: use ISTIO_BOOTSTRAP_OVERRIDE"), "Template of the bootstrap";
    BYPASS_OVERLOAD_MANAGER_FOR_STATIC_LISTENERS = "true", Used, "The listeners for metrics and readiness do not count against the connection limit";
    ISTIO_AGENT_ENABLE_WASM_REMOTE_LOAD_CONVERSION = "", Missing("Wasm modules are not fetched by the agent"), "Fetch of Wasm modules";
    WASM_INSECURE_REGISTRIES = "", Missing("Wasm modules are not fetched by the agent"), "Registries of Wasm modules without TLS";
    PROXY_XDS_DEBUG_VIA_AGENT = "true", Missing("port 15004 is always served"), "Debug interface of the control plane through the agent";
    ISTIO_ENVOY_ENABLE_CORE_DUMP = "", Missing("set the limit of core files in the container runtime"), "Core files of Envoy";
    ENVOY_USER = "", Expected("Envoy runs as the agent's user"), "User of the proxy in old images";
    ISTIO_GPRC_MAXRECVMSGSIZE = "", Expected("received messages have no size limit"), "Maximum size of a message";
    KUBERNETES_SERVICE_HOST = "", Expected("the agent has no Kubernetes client"), "Address of the API server";
    KUBERNETES_SERVICE_PORT = "", Expected("the agent has no Kubernetes client"), "Port of the API server";
}

#[rustfmt::skip]
families! {
    ISTIO_META = "ISTIO_META_", "Keys of the node's metadata";
    ISTIO_METAJSON = "ISTIO_METAJSON_", "Several keys of the node's metadata, as a JSON object";
    XDS_HEADERS = "XDS_HEADER_", "Headers for the control plane";
    CA_HEADERS = "CA_HEADER_", "Headers for the certificate service";
    DATADOG = "DD_", "Settings of Datadog's tracer; Envoy reads them";
    OPENTELEMETRY = "OTEL_", "Settings of OpenTelemetry; Envoy reads them";
}
