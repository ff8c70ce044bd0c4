//! The control plane of the stories: passes connections on to their original destination, and signs
//! workload certificates. It stands where istiod would, as Service `istiod` of `istio-system`.

mod certificates;
mod configuration;
mod discovery;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use e2e::cluster::Cluster;
use e2e::mesh_authority::MeshAuthority;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryServiceServer;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tonic::service::Routes;

use certificates::CertificateService;
use discovery::Discovery;

/// Starts the control plane on a thread of its own, and makes it reachable by its Service. It ends
/// with the process.
pub(crate) fn start(cluster: &Cluster) -> Result<()> {
    let address = cluster.address();
    cluster.apply(&objects(address))?;
    let authority = cluster.mesh_authority();
    let acceptor = acceptor(&authority)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = runtime
        .block_on(TcpListener::bind(SocketAddr::from((address, PORT))))
        .with_context(|| format!("binding {address}:{PORT}"))?;
    thread::Builder::new()
        .name("control-plane".to_owned())
        .spawn(move || runtime.block_on(serve(&listener, &acceptor, &authority)))?;
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

fn acceptor(authority: &MeshAuthority) -> Result<TlsAcceptor> {
    let names = ["istiod.istio-system.svc", "istiod.istio-system.svc.cluster.local"];
    let (certificate, key) = authority.server(&names.map(str::to_owned))?;
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn serve(listener: &TcpListener, acceptor: &TlsAcceptor, authority: &Arc<MeshAuthority>) {
    let routes = Routes::new(AggregatedDiscoveryServiceServer::new(Discovery))
        .add_service(CertificateService::new(Arc::clone(authority)))
        .prepare();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (acceptor, routes) = (acceptor.clone(), routes.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = TowerToHyperService::new(routes);
            // A client that breaks off tells the reason itself.
            let _ = auto::Builder::new(TokioExecutor::new())
                .http2_only()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

const PORT: u16 = 15012;
