//! Control plane of a test, in the pod's network namespace: discovery in both variants and the
//! certificate service, over TLS on one port.

#[path = "../../../../../tests/tests/node/control_plane/certificates.rs"]
mod certificates;
#[path = "../../../../../tests/tests/node/control_plane/configuration.rs"]
mod configuration;
mod discovery;
mod grpc;
pub(crate) mod resources;
#[path = "../../../../../tests/tests/node/control_plane/tls_server.rs"]
mod tls_server;

use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, Result};
use e2e::mesh_authority::MeshAuthority;
use e2e::netns::Namespace;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryServiceServer;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::service::Routes;

use certificates::CertificateService;
use discovery::Discovery;
pub(crate) use resources::Configuration;

/// A control plane. It ends with the value.
pub(crate) struct ControlPlane {
    pub(crate) authority: Arc<MeshAuthority>,
    configuration: watch::Sender<Configuration>,
    runs: watch::Sender<bool>,
}

impl ControlPlane {
    /// Starts a control plane whose certificates another one trusts.
    pub(crate) fn start(
        namespace: &Namespace,
        authority: Arc<MeshAuthority>,
        configuration: Configuration,
    ) -> Result<Self> {
        Self::start_at(namespace, PORT, authority, configuration)
    }

    /// Starts a control plane on a port.
    pub(crate) fn start_at(
        namespace: &Namespace,
        port: u16,
        authority: Arc<MeshAuthority>,
        configuration: Configuration,
    ) -> Result<Self> {
        let (configuration, followed) = watch::channel(configuration);
        let (runs, mut wanted) = watch::channel(true);
        let discovery = Discovery::new(followed);
        let acceptor = tls_server::acceptor(&authority)?;
        let routes = Routes::new(AggregatedDiscoveryServiceServer::new(discovery))
            .add_service(CertificateService::new(Arc::clone(&authority)))
            .prepare();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let bind = move || std::net::TcpListener::bind(("127.0.0.1", port));
        let first = namespace.run(bind)?.context("binding the control plane")?;
        let serve = async move {
            let mut listener = Some(first);
            while wanted.wait_for(|runs| *runs).await.is_ok() {
                let listener = match listener.take() {
                    Some(listener) => listener,
                    None => bind()?,
                };
                listener.set_nonblocking(true)?;
                let listener = TcpListener::from_std(listener)?;
                tokio::select! {
                    () = tls_server::serve(&listener, acceptor.clone(), routes.clone()) => {}
                    _ = wanted.wait_for(|runs| !*runs) => {}
                }
            }
            Ok::<_, anyhow::Error>(())
        };
        // A thread inherits the namespace of the one that starts it.
        namespace.run(|| thread::spawn(move || runtime.block_on(serve)))?;
        Ok(Self { authority, configuration, runs })
    }

    /// Sends another configuration to the connected proxies.
    pub(crate) fn push(&self, configuration: Configuration) {
        self.configuration.send_replace(configuration);
    }

    /// Closes the port and all connections.
    pub(crate) fn stop(&self) {
        self.runs.send_replace(false);
    }

    /// Opens the port again.
    pub(crate) fn resume(&self) {
        self.runs.send_replace(true);
    }
}

pub(crate) const PORT: u16 = 15012;
