//! The control plane of the stories: passes connections on to their original destination, and signs
//! workload certificates. It stands where istiod would, as Service `istiod` of `istio-system`.

mod certificates;
mod configuration;
mod discovery;
mod tls_server;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use e2e::cluster::Cluster;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryServiceServer;
use pilot_agent::relay::NameTable;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::service::Routes;

use certificates::CertificateService;
use discovery::Discovery;
use tls_server::{acceptor, serve};

/// The control plane, on a thread that ends with the process.
pub(crate) struct ControlPlane {
    address: Ipv4Addr,
    names: Names,
    serving: watch::Sender<bool>,
}

/// Name table for the DNS proxies.
type Names = Arc<Mutex<NameTable>>;

impl ControlPlane {
    /// Starts the control plane, and makes it reachable by its Service.
    pub(crate) fn start(cluster: &Cluster) -> Result<Self> {
        let address = cluster.address();
        let authority = cluster.mesh_authority();
        let acceptor = acceptor(&authority)?;
        let names = Names::default();
        let discovery = Discovery::new(Arc::clone(&names));
        let routes = Routes::new(AggregatedDiscoveryServiceServer::new(discovery))
            .add_service(CertificateService::new(Arc::clone(&authority)))
            .prepare();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime
            .block_on(TcpListener::bind(SocketAddr::from((address, PORT))))
            .with_context(|| format!("binding {address}:{PORT}"))?;
        let (serving, mut wanted) = watch::channel(true);
        let serve_while_wanted = async move {
            while wanted.wait_for(|wanted| *wanted).await.is_ok() {
                let acceptor = acceptor.clone();
                tokio::select! {
                    () = serve(&listener, acceptor, routes.clone()) => {}
                    _ = wanted.wait_for(|wanted| !wanted) => {}
                }
            }
        };
        thread::Builder::new()
            .name("control-plane".to_owned())
            .spawn(move || runtime.block_on(serve_while_wanted))?;
        let control_plane = Self { address, names, serving };
        control_plane.install(cluster)?;
        Ok(control_plane)
    }

    /// Creates the Service, and serves.
    pub(crate) fn install(&self, cluster: &Cluster) -> Result<()> {
        cluster.apply(&objects(self.address))?;
        self.serving.send_replace(true);
        Ok(())
    }

    /// Deletes the Service, and ends all connections.
    pub(crate) fn uninstall(&self, cluster: &Cluster) -> Result<()> {
        let system = cluster.existing_namespace("istio-system");
        system.kubectl(&["delete", "service/istiod", "endpointslice/istiod"])?;
        self.serving.send_replace(false);
        Ok(())
    }

    /// Replaces the name table of proxies that ask for one from now on.
    pub(crate) fn publish(&self, names: NameTable) {
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }
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
