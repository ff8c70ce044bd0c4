//! Certificates, keys and roots in mounted files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use local_files::read_text_file;
use zeroize::Zeroizing;

use super::certificate::{CertificateError, WorkloadCertificate};
use super::trust::{RootError, parse_roots};

/// Texts of a certificate chain and its key, which belong together.
#[derive(Clone, Eq, PartialEq)]
pub struct KeyPairFiles {
    /// The chain, leaf first, as PEM.
    pub chain: String,
    /// The private key as PEM.
    pub key: Zeroizing<String>,
}

impl KeyPairFiles {
    /// Reads both files, from one generation of the mount if they lie in one.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, FileError> {
        let (chain, key_text) = read_together(certificate, key)?;
        let certificate_error = |cause| FileError::Certificate {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            cause,
        };
        // The instant of receipt has no effect on the check.
        WorkloadCertificate::from_pem(chain.as_bytes(), key_text.clone(), SystemTime::UNIX_EPOCH)
            .map_err(certificate_error)?;
        Ok(Self { chain: chain.to_string(), key: key_text })
    }
}

/// Reads a file of root certificates.
pub fn read_roots(path: &Path) -> Result<String, FileError> {
    let text = read(path)?;
    parse_roots(text.as_bytes())
        .map_err(|cause| FileError::Roots { path: path.to_owned(), cause })?;
    Ok(text.to_string())
}

/// Reads a file of certificate revocation lists; `None` if it is missing or empty.
pub fn read_revocations(path: &Path) -> Result<Option<String>, FileError> {
    match read(path) {
        Ok(text) if text.trim().is_empty() => Ok(None),
        Ok(text) if text.contains("-----BEGIN X509 CRL-----") => Ok(Some(text.to_string())),
        Ok(_) => Err(FileError::Revocations { path: path.to_owned() }),
        Err(FileError::Read { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the file with the system's roots, at the place of the common distributions.
pub fn system_roots() -> Option<&'static Path> {
    SYSTEM_ROOTS.iter().map(Path::new).find(|path| path.is_file())
}

/// Reads content repeatedly, and offers each change, errors included.
///
/// A change is offered when it has stayed the same for `debounce`; the first content is offered at
/// once, if it is valid. Ends when `is_needed` returns false.
pub async fn follow<T: PartialEq>(
    debounce: Duration,
    read: impl Fn() -> Result<T, FileError>,
    mut offer: impl FnMut(&Result<T, String>),
    is_needed: impl Fn() -> bool,
) {
    let read = || read().map_err(|error| error.to_string());
    let mut last = None;
    while is_needed() {
        let found = read();
        if last.as_ref() != Some(&found) {
            if last.is_some() || found.is_err() {
                tokio::time::sleep(debounce).await;
                if read() != found {
                    continue;
                }
            }
            offer(&found);
            last = Some(found);
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Error of a file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        cause: io::Error,
    },
    /// Certificate and key cannot be used.
    #[error(
        "the certificate in {} with the key in {} cannot be used: {cause}",
        certificate.display(), key.display()
    )]
    Certificate {
        /// Path of the certificate chain.
        certificate: PathBuf,
        /// Path of the key.
        key: PathBuf,
        /// Reason.
        cause: CertificateError,
    },
    /// The roots cannot be used.
    #[error("the root certificates in {} cannot be used: {cause}", path.display())]
    Roots {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        cause: RootError,
    },
    /// The file has no certificate revocation list.
    #[error("{} has no certificate revocation list in PEM", path.display())]
    Revocations {
        /// Path of the file.
        path: PathBuf,
    },
}

/// Reads two files. The kubelet replaces a mount's files by one rename of the link `..data`, so
/// both are read from the directory that the link names.
fn read_together(
    one: &Path,
    other: &Path,
) -> Result<(Zeroizing<String>, Zeroizing<String>), FileError> {
    let (Some(folder), true) = (one.parent(), one.parent() == other.parent()) else {
        return Ok((read(one)?, read(other)?));
    };
    let mut attempts = 0;
    loop {
        let generation = fs::canonicalize(folder.join(DATA)).ok();
        let place = |path: &Path| match (&generation, path.file_name()) {
            // Files beside the mount's own have no counterpart in it.
            (Some(generation), Some(name)) if links_into_data(path) => generation.join(name),
            _ => path.to_owned(),
        };
        let texts = read(&place(one)).and_then(|text| Ok((text, read(&place(other))?)));
        attempts += 1;
        let is_swapped = fs::canonicalize(folder.join(DATA)).ok() != generation;
        if !is_swapped || attempts == ATTEMPTS && generation.is_some() {
            return texts;
        }
        if attempts == ATTEMPTS {
            // Both links were followed by themselves, perhaps into different generations.
            let cause = io::Error::other("its mount is being replaced");
            return Err(FileError::Read { path: one.to_owned(), cause });
        }
    }
}

fn links_into_data(path: &Path) -> bool {
    fs::read_link(path).is_ok_and(|target| target.starts_with(DATA))
}

/// Reads a file. The control plane names paths, so a pipe must not block.
fn read(path: &Path) -> Result<Zeroizing<String>, FileError> {
    read_text_file(path).map_err(|cause| FileError::Read { path: path.to_owned(), cause })
}

/// Link of the kubelet's layout.
const DATA: &str = "..data";
/// Reads of a mount that is replaced meanwhile.
const ATTEMPTS: u32 = 3;
/// Time between two looks at a file.
const INTERVAL: Duration = Duration::from_secs(1);

const SYSTEM_ROOTS: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
