//! The control plane of the stories: passes connections on to their original destination, and signs
//! workload certificates. It stands where istiod would, as Service `istiod` of `istio-system`.

mod certificates;
mod configuration;
mod discovery;
mod tls_server;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use e2e::cluster::Cluster;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryServiceServer;
use serde_json::json;
use tokio::net::TcpListener;
use tonic::service::Routes;

use certificates::CertificateService;
use discovery::Discovery;
use tls_server::{acceptor, serve};

/// Starts the control plane on a thread of its own, and makes it reachable by its Service. It ends
/// with the process.
pub(crate) fn start(cluster: &Cluster) -> Result<()> {
    let address = cluster.address();
    cluster.apply(&objects(address))?;
    let authority = cluster.mesh_authority();
    let acceptor = acceptor(&authority)?;
    let routes = Routes::new(AggregatedDiscoveryServiceServer::new(Discovery))
        .add_service(CertificateService::new(Arc::clone(&authority)))
        .prepare();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = runtime
        .block_on(TcpListener::bind(SocketAddr::from((address, PORT))))
        .with_context(|| format!("binding {address}:{PORT}"))?;
    thread::Builder::new()
        .name("control-plane".to_owned())
        .spawn(move || runtime.block_on(serve(listener, acceptor, routes)))?;
    Ok(())
}

/// Returns the namespace, and the Service with the address where this process listens.
fn objects(address: Ipv4Addr) -> String {
    let named = json!({ "name": "istiod", "namespace": "istio-system" });
    let mut slice = named.clone();
    slice["labels"] = json!({ "kubernetes.io/service-name": "istiod" });
    let port = json!({ "name": "grpc", "port": PORT, "protocol": "TCP" });
    let objects = [
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "istio-system" } }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": named, "spec": { "ports": [port] },
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": slice,
            "addressType": "IPv4", "ports": [port], "endpoints": [{ "addresses": [address] }],
        }),
    ];
    objects.map(|object| object.to_string()).join("\n---\n")
}

const PORT: u16 = 15012;
