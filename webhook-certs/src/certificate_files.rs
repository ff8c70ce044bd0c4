//! Serving certificate from files that another program maintains.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use local_files::read_file;
use zeroize::Zeroizing;

use crate::authority::Lifetime;
use crate::serving::{Identity, IdentityError, ServingCertificate};

/// Files of a certificate chain and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// Chain in PEM, leaf first.
    pub certificate: PathBuf,
    /// Private key of the leaf in PEM.
    pub key: PathBuf,
}

impl CertificateFiles {
    /// Reads both files, which must belong together.
    pub fn load(&self) -> Result<Identity, FilesError> {
        self.read()?.parse(self)
    }

    /// Polls the files every `interval` and serves each new pair; never returns.
    ///
    /// The bytes are compared, so a mounted Secret, a rename and a rewrite in place are all
    /// noticed. An unusable pair is logged once and the served certificate stays. A pair that is
    /// not valid now is served only if the served one is not valid either.
    pub async fn follow(
        &self,
        certificate: Arc<ServingCertificate>,
        interval: Duration,
    ) -> Infallible {
        let read = || self.read().map_err(|error| error.to_string());
        let offer = |pair: &PemPair| {
            self.offer(pair, &certificate, Timestamp::now()).map_err(|error| error.to_string())
        };
        local_files::follow(interval, None, "the last good certificate stays", read, offer).await
    }

    fn offer(
        &self,
        pair: &PemPair,
        certificate: &ServingCertificate,
        now: Timestamp,
    ) -> Result<(), FilesError> {
        let identity = pair.parse(self)?;
        let lifetime = identity.lifetime();
        let file = self.certificate.display();
        if lifetime.contains(now) {
            tracing::info!(%file, not_after = %lifetime.not_after, "a certificate from files is served");
        } else if certificate.is_valid_at(now) {
            return Err(FilesError::NotValid { files: self.clone(), lifetime });
        } else {
            let Lifetime { not_before, not_after } = lifetime;
            tracing::warn!(
                %file, %not_before, %not_after,
                "the certificate from files is not valid now; not ready until it is replaced"
            );
        }
        certificate.set(identity);
        Ok(())
    }

    fn read(&self) -> Result<PemPair, FilesError> {
        let (certificate, key) = self.resolved();
        Ok(PemPair { certificate: read(&certificate)?.to_vec(), key: read(&key)? })
    }

    /// Resolves the current generation of a mounted Secret.
    ///
    /// The kubelet swaps the link `..data` at once, so reading both files through it may give the
    /// certificate of one generation and the key of the next (Kubernetes, `AtomicWriter`).
    fn resolved(&self) -> (PathBuf, PathBuf) {
        let unresolved = || (self.certificate.clone(), self.key.clone());
        let (Some(directory), Some(certificate), Some(key)) =
            (self.certificate.parent(), self.certificate.file_name(), self.key.file_name())
        else {
            return unresolved();
        };
        if self.key.parent() != Some(directory) {
            return unresolved();
        }
        match directory.join("..data").canonicalize() {
            Ok(generation) => (generation.join(certificate), generation.join(key)),
            Err(_) => unresolved(),
        }
    }
}

/// Reason for which files give no certificate.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The files hold no usable certificate and key.
    #[error(
        "cannot serve `{}` with the key `{}`: {source}",
        files.certificate.display(),
        files.key.display()
    )]
    Identity {
        /// Both files.
        files: CertificateFiles,
        /// Error of the certificate or the key.
        source: IdentityError,
    },
    /// The certificate is not valid now.
    #[error(
        "not serving `{}`: it is valid only from {} until {}",
        files.certificate.display(),
        lifetime.not_before,
        lifetime.not_after
    )]
    NotValid {
        /// Both files.
        files: CertificateFiles,
        /// Validity of the certificate.
        lifetime: Lifetime,
    },
}

#[derive(Clone, PartialEq, Eq)]
struct PemPair {
    certificate: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
}

impl PemPair {
    fn parse(&self, files: &CertificateFiles) -> Result<Identity, FilesError> {
        Identity::from_pem(&self.certificate, &self.key)
            .map_err(|source| FilesError::Identity { files: files.clone(), source })
    }
}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, FilesError> {
    read_file(path).map_err(|source| FilesError::Read { path: path.to_owned(), source })
}
