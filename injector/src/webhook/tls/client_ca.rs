//! Client CAs for mutual TLS, reloaded when their file changes.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use rustls::ServerConfig;
use webhook_certs::serving::client_authority::{
    ClientAuthority, ClientAuthorityError, ClientNames,
};

/// File with the client CAs, and the allowed client names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientFile {
    /// File with CA certificates in PEM.
    pub path: PathBuf,
    /// Allowed names, of which a client's certificate needs one.
    pub names: ClientNames,
}

impl ClientFile {
    /// Returns the client CAs and the content of the file. [`follow`](Self::follow) starts from
    /// that content.
    pub fn load(&self) -> Result<(ClientAuthority, Vec<u8>), ClientFileError> {
        let content = self.read()?;
        Ok((self.parse(&content)?, content))
    }

    /// Follows the file, as [`webhook_certs::certificate_files::CertificateFiles::follow`] does:
    /// what is made of each content other than `loaded` is what the next connection is negotiated
    /// by.
    ///
    /// An invalid file is logged once, and the present CAs stay in use. The same applies to a file
    /// without a currently valid CA, as long as one of the present CAs is valid.
    pub async fn follow(
        self,
        loaded: Vec<u8>,
        every: Duration,
        tls: Arc<ArcSwap<ServerConfig>>,
        negotiated_by: impl Fn(ClientAuthority) -> Arc<ServerConfig>,
    ) -> Infallible {
        let mut present = self.parse(&loaded).ok();
        let read = || self.read().map_err(|error| error.to_string());
        let offer = |content: &Vec<u8>| {
            let authority = self.parse(content).map_err(|error| error.to_string())?;
            let now = Timestamp::now();
            let is_needed = present.as_ref().is_some_and(|present| present.is_valid_at(now));
            if is_needed && !authority.is_valid_at(now) {
                return Err(ClientFileError::NotValid { path: self.path.clone() }.to_string());
            }
            tracing::info!(file = %self.path.display(), "client CAs are replaced");
            tls.store(negotiated_by(authority.clone()));
            present = Some(authority);
            Ok(())
        };
        let kept = "the last valid client CAs stay";
        local_files::follow(every, Some(loaded), kept, read, offer).await
    }

    fn read(&self) -> Result<Vec<u8>, ClientFileError> {
        local_files::read_file(&self.path)
            .map(|content| content.to_vec())
            .map_err(|source| ClientFileError::Read { path: self.path.clone(), source })
    }

    fn parse(&self, pem: &[u8]) -> Result<ClientAuthority, ClientFileError> {
        ClientAuthority::from_pem(pem, self.names.clone())
            .map_err(|source| ClientFileError::Content { path: self.path.clone(), source })
    }
}

/// Error in the file with the client CAs.
#[derive(Debug, thiserror::Error)]
pub enum ClientFileError {
    /// The file cannot be read.
    #[error("--client-ca-file {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The file contains no valid list of CAs.
    #[error("--client-ca-file {}: {source}", path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: ClientAuthorityError,
    },
    /// No CA in the file is valid now, so no client could connect.
    #[error("--client-ca-file {}: no CA in it is valid now", path.display())]
    NotValid {
        /// Path of the file.
        path: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
    use rustls::crypto::ring::default_provider;
    use rustls::server::ResolvesServerCertUsingSni;
    use tempfile::TempDir;

    use super::*;

    fn authority() -> String {
        authority_of(2026, 4096)
    }

    fn authority_of(from: i32, until: i32) -> String {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    }

    fn config() -> Arc<ServerConfig> {
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let resolver = Arc::new(ResolvesServerCertUsingSni::new());
        Arc::new(builder.with_no_client_auth().with_cert_resolver(resolver))
    }

    #[tokio::test]
    async fn change_between_load_and_watch_is_applied() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("ca.pem");
        std::fs::write(&path, authority()).unwrap();
        let names = ClientNames::new(vec!["client".to_owned()]).unwrap();
        let file = ClientFile { path: path.clone(), names };
        let (_, loaded) = file.load().unwrap();
        std::fs::write(&path, authority()).unwrap();
        let tls = Arc::new(ArcSwap::new(config()));
        let replaced = AtomicBool::new(false);
        let following = file.follow(loaded, Duration::from_millis(1), Arc::clone(&tls), |_| {
            replaced.store(true, Ordering::Relaxed);
            config()
        });
        let until_replaced = async {
            while !replaced.load(Ordering::Relaxed) {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            never = following => match never {},
            in_time = tokio::time::timeout(Duration::from_secs(30), until_replaced) => {
                in_time.unwrap();
            }
        }
    }

    #[tokio::test]
    async fn valid_client_cas_outlast_an_invalid_file() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("ca.pem");
        std::fs::write(&path, authority()).unwrap();
        let names = ClientNames::new(vec!["client".to_owned()]).unwrap();
        let file = ClientFile { path: path.clone(), names };
        let (_, loaded) = file.load().unwrap();
        let tls = Arc::new(ArcSwap::new(config()));
        let replaced = AtomicBool::new(false);
        let every = Duration::from_millis(1);
        let following = file.follow(loaded, every, Arc::clone(&tls), |_| {
            replaced.store(true, Ordering::Relaxed);
            config()
        });
        let story = async {
            for (from, until) in [(2020, 2021), (4090, 4096)] {
                std::fs::write(&path, authority_of(from, until)).unwrap();
                // Enough time for many reads of the file.
                for _ in 0..50 {
                    assert!(!replaced.load(Ordering::Relaxed), "{from} to {until}");
                    tokio::time::sleep(every).await;
                }
            }
            std::fs::write(&path, authority_of(2020, 2021) + &authority()).unwrap();
            while !replaced.load(Ordering::Relaxed) {
                tokio::time::sleep(every).await;
            }
        };
        tokio::select! {
            never = following => match never {},
            in_time = tokio::time::timeout(Duration::from_secs(30), story) => in_time.unwrap(),
        }
    }
}
