//! Type URLs of resources.

/// Envoy's clusters (CDS).
pub const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
/// Endpoints of a cluster (EDS).
pub const ENDPOINT: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
/// Envoy's listeners (LDS).
pub const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
/// HTTP routes (RDS).
pub const ROUTE: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
/// Certificates and trust bundles (SDS).
pub const SECRET: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

/// Configuration of an extension (ECDS).
pub const EXTENSION_CONFIG: &str = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig";
/// Istio's name table, for the agent's DNS proxy.
pub const NAME_TABLE: &str = "type.googleapis.com/istio.networking.nds.v1.NameTable";
/// Istio's `ProxyConfig`, with additional roots for the agent.
pub const PROXY_CONFIG: &str = "type.googleapis.com/istio.mesh.v1alpha1.ProxyConfig";
/// Health of the application, which the agent reports. No message has this type.
pub const HEALTH_INFORMATION: &str = "type.googleapis.com/istio.v1.HealthInformation";
