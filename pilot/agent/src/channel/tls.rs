//! TLS to the control plane.

use std::io;
use std::sync::Arc;

use local_files::read_file;
use rustls::crypto::ring;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::ChannelError;
use crate::config::RootSource;

/// Performs the handshake. `name` is sent as SNI, unless it is an address, and verified.
pub(super) async fn connect(
    tcp: TcpStream,
    address: &str,
    name: &str,
    root: &RootSource,
    identity: Option<Arc<CertifiedKey>>,
) -> Result<TlsStream<TcpStream>, ChannelError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|cause| ChannelError::TlsSettings { cause })?
        .with_root_certificates(roots(root)?);
    let mut config = match identity {
        Some(identity) => {
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)))
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let server = ServerName::try_from(name.to_owned())
        .map_err(|_| ChannelError::ServerName { name: name.to_owned() })?;
    let connector = TlsConnector::from(Arc::new(config));
    let connected = connector.connect(server, tcp).await;
    connected.map_err(|source| ChannelError::of_handshake(address, root, source))
}

fn roots(source: &RootSource) -> Result<RootCertStore, ChannelError> {
    let mut store = RootCertStore::empty();
    match source {
        RootSource::File(path) => {
            let pem = read_file(path).map_err(|cause| match cause.kind() {
                io::ErrorKind::NotFound => ChannelError::RootMissing { path: path.clone() },
                _ => ChannelError::ReadRoot { path: path.clone(), cause },
            })?;
            let invalid = |reason| ChannelError::RootInvalid { path: path.clone(), reason };
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                let certificate = certificate.map_err(|error| invalid(error.to_string()))?;
                store.add(certificate).map_err(|error| invalid(error.to_string()))?;
            }
            if store.is_empty() {
                return Err(invalid("the file has no certificate".to_owned()));
            }
        }
        RootSource::System => {
            let found = rustls_native_certs::load_native_certs();
            store.add_parsable_certificates(found.certs);
            if store.is_empty() {
                let reason = found.errors.iter().map(ToString::to_string);
                let reason = reason.reduce(|all, next| format!("{all}; {next}"));
                let reason = reason.unwrap_or_else(|| "it is empty".to_owned());
                return Err(ChannelError::SystemRoots { reason });
            }
        }
    }
    Ok(store)
}
