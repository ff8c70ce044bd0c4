//! Who may connect, from a file that is followed.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use webhook_certs::serving::client_authority::{
    ClientAuthority, ClientAuthorityError, ClientNames,
};

/// The file with the CAs of clients, and what clients may be called.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientFile {
    /// Certificates in PEM.
    pub path: PathBuf,
    /// The names of which a client needs one.
    pub names: ClientNames,
}

impl ClientFile {
    /// Reads the file.
    pub fn load(&self) -> Result<ClientAuthority, ClientFileError> {
        self.parse(&self.read()?)
    }

    /// Follows the file, as [`webhook_certs::files::CertificateFiles::follow`] does: what is made
    /// of each new content is what the next connection is negotiated by.
    ///
    /// What cannot be used is reported once, and leaves the present CAs in their place.
    pub async fn follow(
        self,
        every: Duration,
        tls: Arc<ArcSwap<ServerConfig>>,
        negotiated_by: impl Fn(ClientAuthority) -> Arc<ServerConfig>,
    ) -> Infallible {
        let mut seen = self.read().map_err(|error| error.to_string());
        loop {
            tokio::time::sleep(every).await;
            let found = self.read().map_err(|error| error.to_string());
            if found == seen {
                continue;
            }
            let parse = |pem: &Vec<u8>| self.parse(pem).map_err(|error| error.to_string());
            match found.as_ref().map_err(Clone::clone).and_then(parse) {
                Ok(authority) => {
                    tracing::info!(file = %self.path.display(), "the CAs of clients are replaced");
                    tls.store(negotiated_by(authority));
                }
                Err(error) => tracing::warn!("{error}; the last good CAs of clients stay"),
            }
            seen = found;
        }
    }

    fn read(&self) -> Result<Vec<u8>, ClientFileError> {
        std::fs::read(&self.path)
            .map_err(|source| ClientFileError::Read { path: self.path.clone(), source })
    }

    fn parse(&self, pem: &[u8]) -> Result<ClientAuthority, ClientFileError> {
        ClientAuthority::from_pem(pem, self.names.clone())
            .map_err(|source| ClientFileError::Content { path: self.path.clone(), source })
    }
}

/// Why the CAs of clients cannot be taken from a file.
#[derive(Debug, thiserror::Error)]
pub enum ClientFileError {
    /// It cannot be read.
    #[error("--client-ca-file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It holds nothing that can be used.
    #[error("--client-ca-file {}: {source}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ClientAuthorityError,
    },
}
