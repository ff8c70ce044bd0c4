//! Files and ports of the agent's container, for the reference page and the test of injected pods.

/// File or folder in the container.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    /// Absolute path.
    pub path: &'static str,
    /// Meaning, for the reference page.
    pub meaning: &'static str,
}

/// Port of the agent or of Envoy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Port {
    /// The default.
    pub number: u16,
    /// Addresses that it listens on.
    pub addresses: &'static str,
    /// Meaning, for the reference page.
    pub meaning: &'static str,
}

/// Returns true if the agent knows a mounted path: a file or folder of the table, or a folder
/// above one.
pub fn is_known_mount(path: &str) -> bool {
    let path = path.trim_end_matches('/');
    PLACES.iter().any(|place| {
        place.path == path
            || place.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
    })
}

const fn place(path: &'static str, meaning: &'static str) -> Place {
    Place { path, meaning }
}

const fn port(number: u16, addresses: &'static str, meaning: &'static str) -> Port {
    Port { number, addresses, meaning }
}

/// All files and folders.
pub const PLACES: &[Place] = &[
    place("/etc/istio/proxy", "Writable: bootstraps, and the relay's socket `XDS`"),
    place("/etc/istio/pod/labels", "Labels of the pod, from the downward API"),
    place("/etc/istio/pod/annotations", "Annotations of the pod, from the downward API"),
    place("/etc/istio/config/mesh", "Mesh configuration; `--meshConfig` names another file"),
    place(
        "/etc/istio/custom-bootstrap/custom_bootstrap.json",
        "Fields that Envoy merges over the bootstrap; `ISTIO_BOOTSTRAP_OVERRIDE` names the file",
    ),
    place(
        "/etc/certs/root-cert.pem",
        "Root of the control plane with `PILOT_CERT_PROVIDER=custom`",
    ),
    place("/etc/resolv.conf", "Servers that the DNS proxy forwards to"),
    place("/var/lib/istio/data", "Data: copies of certificates for gRPC applications"),
    place("/var/run/secrets/tokens/istio-token", "Token for the control plane"),
    place("/var/run/secrets/istio/root-cert.pem", "Root certificates of the control plane"),
    place("/var/run/secrets/istio/crl/ca-crl.pem", "Certificate revocation list"),
    place(
        "/var/run/secrets/workload-spiffe-uds/socket",
        "SDS socket, of the agent or of another program",
    ),
    place(
        "/var/run/secrets/workload-spiffe-credentials",
        "Mounted workload certificate: `cert-chain.pem`, `key.pem`, `root-cert.pem`",
    ),
    place(
        "/var/run/secrets/credential-uds/socket",
        "SDS socket of another program, for credentials of gateways",
    ),
];

/// All ports.
pub const PORTS: &[Port] = &[
    port(15000, "loopback", "Envoy's admin interface; `proxyAdminPort` sets another"),
    port(15001, "all", "Captured outbound connections, configured by the control plane"),
    port(15004, "loopback", "Debug interface of the control plane, through the agent"),
    port(15006, "all", "Captured inbound connections, configured by the control plane"),
    port(
        15020,
        "all",
        "Status port: readiness, merged metrics, probes of the application; `statusPort` sets \
         another",
    ),
    port(15021, "all", "Readiness through Envoy; `ENVOY_STATUS_PORT` sets another"),
    port(15053, "loopback", "DNS proxy; `DNS_PROXY_ADDR` sets another"),
    port(15090, "all", "Envoy's metrics; `ENVOY_PROMETHEUS_PORT` sets another"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_above_a_known_file_are_known() {
        for (path, known) in [
            ("/etc/istio/pod", true),
            ("/etc/certs/", true),
            ("/var/run/secrets/tokens", true),
            ("/etc/istio/pods", false),
            ("/etc/other", false),
        ] {
            assert_eq!(is_known_mount(path), known, "{path}");
        }
    }
}
