//! Objects of a mesh as YAML.

use std::fmt::Write as _;
use std::net::SocketAddr;

/// Objects of namespace `shop`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mesh {
    yaml: String,
}

impl Mesh {
    /// Adds a service with an HTTP port and its endpoints, all with the port of the first.
    pub(crate) fn service(mut self, name: &str, port: u16, endpoints: &[SocketAddr]) -> Self {
        let target = endpoints.first().map_or(port, SocketAddr::port);
        let addresses: Vec<_> = endpoints
            .iter()
            .map(|it| format!("{{addresses: [\"{}\"], conditions: {{ready: true}}}}", it.ip()))
            .collect();
        write!(
            self.yaml,
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop}}\n\
             spec: {{clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10], selector: {{app: {name}}},\n\
             \x20 ports: [{{name: http, port: {port}, targetPort: {target}}}]}}\n\
             ---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n\
             metadata: {{name: {name}-1, namespace: shop, labels: {{kubernetes.io/service-name: {name}}}}}\n\
             ports: [{{name: http, port: {target}}}]\nendpoints: [{}]\n",
            addresses.join(", ")
        )
        .unwrap();
        self
    }

    /// Adds a policy of the namespace with a mode of mutual TLS.
    pub(crate) fn authenticate(mut self, mode: &str) -> Self {
        write!(
            self.yaml,
            "---\napiVersion: security.istio.io/v1\nkind: PeerAuthentication\n\
             metadata: {{name: default, namespace: shop}}\nspec: {{mtls: {{mode: {mode}}}}}\n"
        )
        .unwrap();
        self
    }

    /// Adds an object of Istio for the workloads of an application.
    pub(crate) fn istio(mut self, api_version: &str, kind: &str, name: &str, app: &str) -> Self {
        write!(
            self.yaml,
            "---\napiVersion: {api_version}\nkind: {kind}\n\
             metadata: {{name: {name}, namespace: shop}}\n\
             spec: {{selector: {{matchLabels: {{app: {app}}}}}}}\n"
        )
        .unwrap();
        self
    }

    /// The objects.
    pub(crate) fn yaml(&self) -> &str {
        &self.yaml
    }
}
