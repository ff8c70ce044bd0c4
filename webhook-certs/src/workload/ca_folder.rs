//! Folder with the files of an operator's CA, as Istio's Secrets are mounted.

use std::io;
use std::path::{Path, PathBuf};

use local_files::read_file;
use zeroize::Zeroizing;

use super::authority::CaFiles;

/// Folder with the files of Istio's Secret `cacerts`, or of its own Secret `istio-ca-secret`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaFolder(PathBuf);

impl CaFolder {
    /// Returns the folder if it has the certificate or the key of a CA. Reading it needs both.
    pub fn find(path: &Path) -> Option<Self> {
        let holds = [CERTIFICATE, KEY].iter().any(|name| path.join(name).exists());
        holds.then(|| Self(path.to_owned()))
    }

    /// Reads the files of one generation of the mounted Secret.
    ///
    /// `cert-chain.pem` may be missing or empty. Without `root-cert.pem`, `ca-cert.pem` is the root.
    pub fn read(&self) -> Result<CaFiles, CaFolderError> {
        let generation = self.0.join("..data").canonicalize();
        let folder = generation.as_ref().unwrap_or(&self.0);
        let read = |name| {
            read_file(&folder.join(name))
                .map_err(|source| CaFolderError { path: self.0.join(name), source })
        };
        let optional = |name| match read(name) {
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => {
                Ok(Zeroizing::default())
            }
            other => other,
        };
        let certificate = read(CERTIFICATE)?;
        let roots = optional("root-cert.pem")?;
        let roots = if roots.is_empty() { &certificate } else { &roots };
        Ok(CaFiles {
            key: read(KEY)?,
            chain: optional("cert-chain.pem")?.to_vec(),
            roots: roots.to_vec(),
            certificate: certificate.to_vec(),
        })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// A file of the CA cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read `{}`: {source}", path.display())]
pub struct CaFolderError {
    /// The file.
    pub path: PathBuf,
    /// Error of the system.
    pub source: io::Error,
}

const CERTIFICATE: &str = "ca-cert.pem";
const KEY: &str = "ca-key.pem";
