//! gRPC over TLS, with a certificate of the mesh.

use std::sync::Arc;

use anyhow::Result;
use e2e::mesh_authority::MeshAuthority;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tonic::service::Routes;

pub(super) fn acceptor(authority: &MeshAuthority) -> Result<TlsAcceptor> {
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

/// Serves connections until it is dropped, which ends all of them.
pub(super) async fn serve(listener: &TcpListener, acceptor: TlsAcceptor, routes: Routes) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, _)) = accepted else { continue };
        let (acceptor, routes) = (acceptor.clone(), routes.clone());
        connections.spawn(async move {
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
